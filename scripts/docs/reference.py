"""Writes the pages of `docs/reference`, which are made of the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from scripts.docs.fields import attributes_of, field_table, summary, table

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
_NOTE = "<!-- Made of the code by `make docs`: change the code instead. -->\n\n"
_SERVER = "../../resources_servers/browser_gym"
_AGENT = "../../responses_api_agents/browser_agent"


def actions() -> str:
    """Return the page of the actions."""
    from resources_servers.browser_gym import actions as module

    text = "# Actions\n\n" + _prose(module.__doc__)
    text += (
        f"A step has at most {module.MAX_BATCH} of them. What they do on a page is told in "
        f"[the environment's README]({_SERVER}/README.md#actions).\n\n"
    )
    for name, model in module.ACTION_MODELS.items():
        text += f"## {name}\n\n{_prose(model.__doc__)}{field_table(model, leave_out=['type'])}\n"
    for model in (module.Point, module.Region):
        text += f"## {model.__name__}\n\n{_prose(model.__doc__)}{field_table(model)}\n"
    return text


def rows() -> str:
    """Return the page of task rows and rollout rows."""
    from nemo_gym.base_resources_server import BaseVerifyResponse

    from resources_servers.browser_gym import task_row
    from resources_servers.browser_gym.contract import EPISODE_FIELDS
    from resources_servers.browser_gym.grading import masked
    from resources_servers.browser_gym.verify_body import BrowserVerifyResponse

    text = "# Rows\n\n## Task rows\n\n"
    text += (
        "One line of a task file: `responses_create_params`, whose `input` is the prompt, and "
        "`verifier_metadata`. Fields that nobody knows are kept.\n\n"
    )
    for name in ("VerifierMetadata", "Viewport", "BrowserStart", "Cookie", "HttpCredentials"):
        text += _model(getattr(task_row, name), "###")
    for name in ("Geolocation", "File", "JudgeTask"):
        text += _model(getattr(task_row, name), "###")
    text += f"Assertions and the parts of `all_of`: [TASKS.md]({_SERVER}/TASKS.md#grading).\n\n"
    text += "## Rollout rows\n\nThe task row, NeMo Gym's fields, and those of the verdict:\n\n"
    ours = [
        name
        for name in BrowserVerifyResponse.model_fields
        if name in BrowserVerifyResponse.__annotations__
    ]
    theirs = BrowserVerifyResponse.model_fields.keys() - ours
    text += field_table(BrowserVerifyResponse, leave_out=theirs) + "\n"
    text += "Of the episode, as far as the agent tells it"
    text += f" ([what they hold]({_AGENT}/README.md#the-rollout-row)):\n\n"
    text += f"{_names(EPISODE_FIELDS)}\n\n"
    text += "Of a rollout that is masked; the last two only where a judge failed:\n\n"
    text += f"{_names(masked('judge_failed', ''))}\n\n"
    text += f"NeMo Gym's own: {_names(BaseVerifyResponse.model_fields)}.\n"
    return text


def configuration() -> str:
    """Return the page of all configuration keys."""
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig
    from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig

    from resources_servers.browser_gym.browser.session_providers.rest import RestOptions
    from resources_servers.browser_gym.browser.session_providers.static_cdp import StaticOptions
    from resources_servers.browser_gym.configuration import BrowserGymConfig
    from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
    from responses_api_agents.browser_agent.configuration import BrowserAgentConfig
    from responses_api_agents.browser_agent.cost import Price

    text = (
        "# Configuration\n\nWhat each server may be told in a configuration file, or as "
        "`++name=value` after a command. Meanings are those of the READMEs, beside NeMo Gym's own "
        "keys.\n\n"
    )
    server = _documented("resources_servers/browser_gym/README.md", "key")
    agent = _documented("responses_api_agents/browser_agent/README.md", "key")
    text += "## Resources server: `browser_gym`\n\n"
    text += field_table(
        BrowserGymConfig, leave_out=BaseResourcesServerConfig.model_fields, meanings=server
    )
    text += f"\n`session_provider_options`: [REMOTE_BROWSERS.md]({_SERVER}/REMOTE_BROWSERS.md)\n\n"
    for name, options in (("static_cdp", StaticOptions), ("rest", RestOptions)):
        text += f"### Options of `{name}`\n\n{field_table(options)}\n"
    text += "## Agent: `browser_agent`\n\n"
    text += field_table(
        BrowserAgentConfig, leave_out=BaseResponsesAPIAgentConfig.model_fields, meanings=agent
    )
    text += "\n" + _model(HistoryPolicy, "###") + _model(Price, "###")
    for name, config in _model_servers().items():
        meanings = _documented(f"responses_api_models/{name}/README.md", "setting")
        text += f"## Model server: `{name}`\n\n"
        text += field_table(
            config, leave_out=BaseResponsesAPIModelConfig.model_fields, meanings=meanings
        )
        text += "\n"
    return text


def routes() -> str:
    """Return the page of the routes of the resources server and of the agent."""
    from resources_servers.browser_gym import contract
    from resources_servers.browser_gym.verify_body import (
        BrowserVerifyRequest,
        BrowserVerifyResponse,
    )
    from scripts.docs.servers import agent_app, environment_app

    text = "# Routes\n\n## Resources server\n\n"
    text += (
        f"What they mean together: [the environment's README]({_SERVER}/README.md#routes). Errors "
        "that are not the model's: [failures](failures.md).\n\n"
    )
    text += _routes_of(environment_app().openapi())
    text += f"## Agent\n\n[More]({_AGENT}/README.md#routes).\n\n"
    text += _routes_of(agent_app().openapi())
    text += "## Bodies\n\n"
    bodies = [
        value
        for value in vars(contract).values()
        if isinstance(value, type)
        and issubclass(value, BaseModel)
        and value.__module__ == contract.__name__
    ]
    for model in bodies:
        text += _model(model, "###")
    for model in (BrowserVerifyRequest, BrowserVerifyResponse):
        own = model.__annotations__
        theirs = [name for name in model.model_fields if name not in own]
        text += f"### {model.__name__}\n\n{_prose(model.__doc__)}"
        text += f"{field_table(model, leave_out=theirs)}\nNeMo Gym's: {_names(theirs)}.\n\n"
    return text


def metrics() -> str:
    """Return the page of what is measured."""
    from prometheus_client.parser import text_string_to_metric_families

    from resources_servers.browser_gym.browser.backend import BackendHealth
    from resources_servers.browser_gym.metrics import pass_at_k, rollout_metrics
    from resources_servers.browser_gym.telemetry import Telemetry

    telemetry = Telemetry()
    with telemetry.seeding():
        pass
    telemetry.stepped({"act": 1})
    telemetry.verified("passed")
    told = telemetry.render(BackendHealth(0, 0, 0, "")).decode()
    found: list[tuple[str, ...]] = []
    for family in text_string_to_metric_families(told):
        if family.name.endswith("_created"):
            continue
        names = {name for sample in family.samples for name in sample.labels} - {"le"}
        suffix = "_total" if family.type == "counter" else ""
        found.append((f"`{family.name}{suffix}`", family.type, _names(names), family.documentation))
    text = "# Metrics\n\n## `GET /metrics`\n\nFor Prometheus; counted since the server started.\n\n"
    text += table(("name", "type", "labels", "meaning"), found)
    text += "\n## Of a run\n\n" + _prose(rollout_metrics.__doc__)
    return text + f"\n`pass@<k>`: {_prose(pass_at_k.__doc__).partition(': ')[2]}"


def failures() -> str:
    """Return the table of faults."""
    from resources_servers.browser_gym import faults as module
    from resources_servers.browser_gym.faults import Fault

    text = "# Failures\n\n" + _prose(module.__doc__)
    attributes = attributes_of(Fault)
    text += "".join(f"- `{name}`: {attributes[name]}\n" for name in ("kind", "status", "again"))
    for outcome, heading in (
        ("told", "Told to the model"),
        ("event", "Events"),
        ("masked", "Masked"),
    ):
        found = [fault for fault in Fault if fault.outcome == outcome]
        text += f"\n## {heading}\n\n"
        if outcome != "masked":
            text += table(("name", "what"), [(f"`{f.name}`", f.what) for f in found])
            continue
        text += table(
            ("name", "what", "kind", "status", "again"),
            [
                (f"`{f.name}`", f.what, f"`{f.kind}`", str(f.status or "–"), _yes(f.again))
                for f in found
            ],
        )
    return text


def commands() -> str:
    """Return the page of the command line and of the targets of the Makefile."""
    import typer

    from browser_gym.cli import app

    group: Any = typer.main.get_command(app)
    text = "# Commands\n\n## browser-gym\n\n"
    text += "[More](../../browser_gym/README.md). Each has `--help`.\n\n"
    for name, command in group.commands.items():
        told = re.sub(r"\bExamples?:\s*\n?", "", summary(command.help)).partition("\n`browser-gym")
        examples = re.findall(r"`(browser-gym [^`]*)`", command.help or "")
        text += f"### {name}\n\n{told[0].strip()}\n\n"
        if examples:
            text += "```bash\n" + "\n".join(examples) + "\n```\n\n"
        found = [_parameter(one) for one in command.params if one.name != "help"]
        if found:
            text += table(("argument or option", "default", "meaning"), found) + "\n"
    text += "## make\n\n"
    targets = re.findall(
        r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    return text + table(("target", ""), [(f"`make {name}`", about) for name, about in targets])


PAGES: Mapping[str, Callable[[], str]] = {
    "actions": actions,
    "rows": rows,
    "configuration": configuration,
    "routes": routes,
    "metrics": metrics,
    "failures": failures,
    "commands": commands,
}


def made(name: str) -> str:
    """Return the text of a page as the code has it now."""
    return _NOTE + re.sub(r"\n{3,}", "\n\n", PAGES[name]()).rstrip() + "\n"


def main() -> None:
    """Write the pages that are not what the code makes."""
    for name in PAGES:
        path, text = FOLDER / f"{name}.md", made(name)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"{path.relative_to(ROOT)}: written")


def _model(model: type[BaseModel], level: str) -> str:
    return f"{level} {model.__name__}\n\n{_prose(model.__doc__)}{field_table(model)}\n"


def _model_servers() -> dict[str, type[BaseModel]]:
    from responses_api_models.anthropic_model.app import AnthropicModelConfig
    from responses_api_models.gemini_model.app import GeminiModelConfig
    from responses_api_models.openai_computer_model.app import OpenAIComputerModelConfig
    from responses_api_models.scripted_model.app import ScriptedModelConfig

    return {
        "openai_computer_model": OpenAIComputerModelConfig,
        "anthropic_model": AnthropicModelConfig,
        "gemini_model": GeminiModelConfig,
        "scripted_model": ScriptedModelConfig,
    }


def _documented(readme: str, heading: str) -> dict[str, str]:
    """Return what a README's table that starts with `heading` says of each name, without links."""
    text = (ROOT / readme).read_text("utf-8")
    rows = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    found: dict[str, str] = {}
    for row in rows:
        names, *_, meaning = re.split(r"(?<!\\)\|", row.strip().strip("|"))
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", meaning).strip()
        keys = re.findall(r"`(\w+)`", names)
        if len(keys) > 1:
            plain += f" ({names.strip()})"
        found |= dict.fromkeys(keys, plain)
    return found


def _routes_of(openapi: dict[str, Any]) -> str:
    found: list[tuple[str, ...]] = []
    for path, methods in sorted(openapi["paths"].items()):
        for method, told in methods.items():
            about = summary(told.get("description") or told.get("summary"))
            asked = told.get("requestBody", {}).get("content", {})
            answered = told["responses"].get("200", {}).get("content", {})
            found.append(
                (
                    f"`{method.upper()} {path}`",
                    about.split("\n\n")[0],
                    _body(asked),
                    _body(answered),
                )
            )
    return table(("route", "what", "body", "answer"), found) + "\n"


def _body(content: dict[str, Any]) -> str:
    schema = next(iter(content.values()), {}).get("schema", {})
    kinds = schema.get("anyOf") or schema.get("oneOf") or [schema]
    names = [kind["$ref"].rsplit("/", 1)[-1] for kind in kinds if "$ref" in kind]
    return " or ".join(f"`{name}`" for name in names)


def _parameter(parameter: Any) -> tuple[str, ...]:
    names = [*parameter.opts, *parameter.secondary_opts]
    about = parameter.help or ""
    default = "required" if parameter.required else ""
    if not parameter.required and parameter.default not in (None, False, ()):
        default = f"`{getattr(parameter.default, 'value', parameter.default)}`"
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.human_readable_name]
    return ", ".join(f"`{name}`" for name in names), default, about


def _prose(docstring: str | None) -> str:
    text = summary(docstring)
    return f"{text}\n\n" if text else ""


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
