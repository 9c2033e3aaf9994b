"""Episodes whose conversation the agent keeps, over real HTTP, and replies that are no answer."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig
from omegaconf import OmegaConf
from pydantic import ValidationError

from responses_api_agents.browser_agent.adapters.openai import OpenAIAdapter
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig, new_adapter
from responses_api_agents.browser_agent.tests.providers import with_included
from responses_api_agents.browser_agent.tests.stack import (
    Stack,
    running_stack,
    served_environment,
    served_script,
)
from tests.documented import first_column
from tests.simulators import openai_scripts as scripts
from tests.simulators.openai_scripts import (
    SimReply,
    click,
    computer_call,
    function_call,
    in_order,
    message,
    reasoning,
    script,
    usage,
)

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
Start = Callable[..., Awaitable[Stack]]

SECOND = click(60, 40)  # the link to the second page
FUNCTIONS = {"adapter": "generic", "computer_tool": "functions"}


@pytest.fixture(scope="module")
def environment() -> Iterator[str]:
    with served_environment(max_sessions=2) as url:
        yield url


@pytest.fixture
async def start(environment: str, tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def _start(policy: scripts.Policy, **config: Any) -> Stack:
            running = running_stack(policy, environment, tmp_path, **config)
            return await stack.enter_async_context(running)

        yield _start


async def test_functions_alone_drive_the_browser(start: Start, site: str) -> None:
    policy = script(
        [reasoning("A miss."), function_call("click", x=2000, y=40), function_call("wait", ms=1)],
        [reasoning("Look."), function_call("screenshot")],
        SimReply(
            [message("The link."), function_call("click", x=60, y=40)],
            usage=usage(2000, 10, cached=1000),
        ),
    )
    stack = await start(policy, **FUNCTIONS, history={"policy": "last_n", "keep": 2})
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["num_turns"], row["final_answer"]) == (1, 4, "Done.")
    bodies = [request.body for request in stack.simulator.requests]
    assert {tool["type"] for tool in bodies[0]["tools"]} == {"function"}
    task, *rest = bodies[-1]["input"]
    assert "[screenshot omitted]" in json.dumps(task)
    assert json.dumps(bodies[-1]["input"]).count("data:image") == 2
    assert [item.get("type") for item in rest[:6]] == [
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert rest[3]["output"].startswith("error: Action failed: click: (2000, 40) is outside")
    assert rest[4]["output"].startswith("error: Not executed")
    costs = [turn["cost_usd"] for turn in row["turns"]]
    assert costs[2] == pytest.approx((1000 * 2.5 + 1000 * 0.25 + 10 * 15) / 1e6)
    assert row["cost_usd"] == pytest.approx(sum(costs))


async def test_thousandths_of_the_screen_reach_the_page(start: Start, site: str) -> None:
    policy = script([function_call("click", x=60 / 1.28, y=40 / 0.72)])
    stack = await start(policy, **FUNCTIONS, coordinates="per_mille")
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 1
    assert row["turns"][0]["calls"][0]["actions"][0]["x"] == pytest.approx(60)


async def test_computer_calls_without_a_stored_conversation(
    start: Start, site: str, tmp_path: Path
) -> None:
    actions = [{"type": "screenshot"}, {"type": "wait"}, {"type": "keypress", "keys": ["HYPER"]}]
    turns = [{"actions": [action]} for action in [*actions, SECOND]] + [{"answer": "Done."}]
    scripts_file = tmp_path / "scripts.json"
    scripts_file.write_text(json.dumps({"T-1": {"prompt": "Do the task.", "turns": turns}}))
    with served_script(scripts_file) as url:
        stack = await start(
            script(), model_url=url, adapter="generic", history={"policy": "last_n", "keep": 1}
        )
        row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["num_turns"], row["cost_usd"]) == (1, 5, None)
    outputs = [i for i in row["response"]["output"] if i["type"] == "computer_call_output"]
    assert [output["output"].get("is_error", False) for output in outputs] == [
        False,
        False,
        True,
        False,
    ]
    assert outputs[3]["output"]["current_url"] == f"{site}/second.html"


async def test_a_conversation_too_long_for_the_model_is_graded(start: Start, site: str) -> None:
    def second_then_too_long(turn: scripts.SimTurn) -> list[scripts.Item]:
        stack.simulator.fail_next(scripts.too_long())
        return [computer_call(SECOND)]

    stack = await start(second_then_too_long)
    row = await stack.run(f"{site}/links.html", check=False)
    assert (row["termination_reason"], row["reward"]) == ("context_window", 1)
    assert row["mask_sample"] is False


@pytest.mark.parametrize("state", ["previous_response_id", "stateless"])
async def test_an_empty_reply_is_nudged_once(start: Start, site: str, state: str) -> None:
    policy = in_order([], [computer_call(SECOND)], [reasoning("Hm.")], [message("Done.")])
    stack = await start(policy, state=state)
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["termination_reason"], row["num_turns"]) == (1, "finished", 4)
    assert [turn.get("nudged", False) for turn in row["turns"]] == [True, False, True, False]
    assert "neither an action nor an answer" in json.dumps(stack.simulator.requests[1].body)


async def test_without_nudges_an_empty_reply_ends_the_run(start: Start, site: str) -> None:
    stack = await start(scripts.empty(), nudges=0, prices={"gpt-5.4": {"input": 1, "output": 1}})
    row = await stack.run(f"{site}/links.html")
    assert (row["termination_reason"], row["num_turns"]) == ("empty_reply", 1)
    assert row["cost_usd"] == pytest.approx(1000 / 1e6)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_config_is_one_agent_of_its_files_name(path: Path) -> None:
    document: Any = OmegaConf.load(path)
    OmegaConf.update(document, "cua_anthropic_api_key", "none")  # there may be none here
    document = OmegaConf.to_container(document, resolve=True)
    agent = document[path.stem]["responses_api_agents"]["browser_agent"]
    assert agent.keys() <= BrowserAgentConfig.model_fields.keys() | {"datasets"}  # NeMo Gym's own
    server = {"host": "127.0.0.1", "port": 1, "name": path.stem}
    config = BrowserAgentConfig.model_validate(agent | server)
    adapter = new_adapter(config)
    assert isinstance(adapter, OpenAIAdapter) == path.stem.startswith("browser_openai_")
    (environment,) = document[f"{path.stem}_environment"]["environment_servers"].values()
    assert environment["agent_server"]["name"] == path.stem
    if agent["model_server"]["name"] != "policy_model":  # which the stack has to name
        servers = with_included(str(path))
        assert agent["model_server"]["name"] in servers
        assert agent["resources_server"]["name"] in servers


def test_the_readme_lists_all_settings() -> None:
    own = BrowserAgentConfig.model_fields.keys() - BaseResponsesAPIAgentConfig.model_fields.keys()
    assert first_column(CONFIGS.parent / "README.md", "key") == own


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"computer_tool": "functions"}, "openai adapter does not offer 'functions'"),
        ({"adapter": "generic", "computer_tool": "computer"}, "generic adapter does not offer"),
        ({"browser_functions": ["fly"]}, "browser_functions: there are close_tab"),
        ({"history": {"kept": 1}}, "history.kept"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    settings = {
        "host": "127.0.0.1",
        "port": 1,
        "entrypoint": "app.py",
        "name": "agent",
        "resources_server": {"type": "resources_servers", "name": "browser_gym"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "model": "m",
    }
    BrowserAgentConfig.model_validate(settings)
    with pytest.raises(ValidationError, match=words):
        BrowserAgentConfig.model_validate(settings | changes)
