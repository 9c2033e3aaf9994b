"""Checks what documents name, without running it: targets, options, modules, files, keys."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from pydantic import BaseModel

from scripts.docs.commands import Block, Command, without_assignments
from scripts.docs.links import ROOT

_INLINE = re.compile(r"`((?:make|browser-gym) [a-z][^`<\n]*)`")
# Ours to describe, and no more: other programs' options are theirs.
_OTHERS = {
    *("cd", "cp", "curl", "echo", "export", "grep", "mv", "source", "ssh"),
    *("uv", "vllm", "post", "post()"),
}
# Folders that no clone has.
_MADE = re.compile(r"(?:results|cache|\.venv|\.venvs|examples/nemo_gym)/|examples/run_grpo")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")


def faults_of(command: Command) -> Iterator[str]:
    """Yield what a command names that is not there."""
    for words in command.simple:
        yield from _faults(without_assignments(words))


def inline_commands(document: Path) -> Iterator[Command]:
    """Yield the commands of make and browser-gym that stand in a document's sentences."""
    text = re.sub(r"^ *```.*?^ *```$", "", document.read_text("utf-8"), flags=re.M | re.S)
    for match in _INLINE.finditer(text):
        yield Command(document, text.count("\n", 0, match.start()) + 1, match[1])


def block_faults(block: Block) -> Iterator[str]:
    """Yield what is wrong with a block of YAML, or with one of JSON that is a task row."""
    if block.language == "yaml":
        yield from _key_faults(yaml.safe_load(block.text))
    elif block.language == "json" and '"responses_create_params"' in block.text:
        yield from _row_faults(json.loads(block.text))


def _faults(words: list[str]) -> Iterator[str]:
    if not words:
        return
    for word in words:
        path = word.removeprefix("./")
        if _PATH.fullmatch(path) and not _MADE.match(path) and not (ROOT / path).exists():
            yield f"there is no {path}"
    program, *arguments = words
    checks: Mapping[str, Callable[[list[str]], Iterator[str]]] = {
        "make": _make_faults,
        "browser-gym": _browser_gym_faults,
        "gym": _gym_faults,
        "python": _python_faults,
        ".venv/bin/python": _python_faults,
    }
    if program in checks:
        yield from checks[program](arguments)
    elif program not in _OTHERS and not (ROOT / program).exists():
        yield f"nobody here knows the program {program}"


def _make_faults(arguments: list[str]) -> Iterator[str]:
    target, *variables = arguments
    recipes = _recipes()
    if target not in recipes:
        yield f"make has no target {target}"
        return
    for variable in variables:
        name, _, value = variable.partition("=")
        if f"$({name})" not in recipes[target]:
            yield f"make {target} does not use {name}"
        program = re.search(r"\$\(PYTHON\) (?:-m ([\w.]+)|(\S+\.py))", recipes[target])
        if name == "ARGS" and program and program[1] not in ("pytest", "browser_gym"):
            yield from _option_faults(program[1] or program[2], value.split())


@cache
def _recipes() -> dict[str, str]:
    text = (ROOT / "Makefile").read_text("utf-8")
    return dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n|#[^\n]*\n)*)", text, re.MULTILINE))


def _browser_gym_faults(arguments: list[str]) -> Iterator[str]:
    import typer

    from browser_gym.cli import app

    group: Any = typer.main.get_command(app)
    name, *rest = arguments
    if name.startswith("-"):
        return
    if name not in group.commands:
        yield f"browser-gym has no command {name}"
        return
    command = group.commands[name]
    if command.context_settings.get("ignore_unknown_options"):
        # A program with options of its own.
        yield from _option_faults(f"browser_gym {name}", rest)
        return
    known = {"--help", "-h"}.union(*(one.opts + one.secondary_opts for one in command.params))
    for word in rest:
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield f"browser-gym {name} has no option {word}"


def _gym_faults(arguments: list[str]) -> Iterator[str]:
    from nemo_gym.cli.main import build_parser

    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            parsed, overrides = build_parser().parse_known_args(arguments)
    except SystemExit:
        yield told.getvalue().strip().splitlines()[-1]
        return
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if not override.startswith("+") or not _is_key(key):
            yield f"there is no setting {override}"
    agent = getattr(parsed, "agent", None)
    if agent and agent not in _settings():
        yield f"there is no agent {agent}"


def _is_key(key: str) -> bool:
    """Return whether a setting is one of a configuration here, or NeMo Gym's."""
    first, *rest = key.split(".")
    if rest and first in _settings():
        return True
    return first in _settings() or re.search(rf"\b{first}\b", _nemo_gym()) is not None


@cache
def _settings() -> set[str]:
    """Return the names at the top of all configurations, and of what they let be chosen."""
    found: set[str] = set()
    for path in ROOT.glob("**/configs/*.yaml"):
        if ".venv" in path.parts:
            continue
        text = path.read_text("utf-8")
        found |= set(yaml.safe_load(text) or ())
        found |= set(re.findall(r"\$\{(?:oc\.select:)?(\w+)", text))
        if path.name == "env.example.yaml":
            found |= set(re.findall(r"^# (\w+):", text, re.MULTILINE))
    return found


@cache
def _nemo_gym() -> str:
    import nemo_gym

    folder = Path(nemo_gym.__file__).parent
    names = ("global_config.py", "config_types.py", "rollout_collection.py")
    return "".join((folder / name).read_text("utf-8") for name in names)


def _python_faults(arguments: list[str]) -> Iterator[str]:
    if arguments[0] != "-m":
        yield from _option_faults(arguments[0], arguments[1:])
        return
    module, *rest = arguments[1:]
    if importlib.util.find_spec(module) is None:
        yield f"there is no module {module}"
    else:
        yield from _option_faults(module, rest)


def _option_faults(program: str, arguments: list[str]) -> Iterator[str]:
    options = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    if not options:
        return
    known = re.findall(r"(?<![\w-])--?[a-z][\w-]*", _help(program))
    for option in options:
        if option not in known and option != "--help":
            yield f"{program} has no option {option}"


@cache
def _help(program: str) -> str:
    """Return what a program of ours, a module (and its command) or a file, prints for `--help`."""
    program, *command = program.split()
    told = io.StringIO()
    with (
        patch.object(sys, "argv", [program, *command, "--help"]),
        contextlib.redirect_stdout(told),
        contextlib.suppress(SystemExit),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)  # of modules that are imported already
        if program.endswith(".py"):
            runpy.run_path(str(ROOT / program), run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__")
    return told.getvalue()


def _key_faults(value: Any) -> Iterator[str]:
    """Yield the keys of our servers in a configuration that they do not know."""
    from resources_servers.browser_gym.configuration import BrowserGymConfig
    from responses_api_agents.browser_agent.configuration import BrowserAgentConfig

    servers: dict[tuple[str, str], type[BaseModel]] = {
        ("resources_servers", "browser_gym"): BrowserGymConfig,
        ("responses_api_agents", "browser_agent"): BrowserAgentConfig,
    }
    if not isinstance(value, dict):
        return
    for kind, name in servers:
        settings = (value.get(kind) or {}).get(name) if isinstance(value.get(kind), dict) else None
        for key in settings or ():
            if key not in servers[kind, name].model_fields and key != "entrypoint":
                yield f"{name} has no setting {key}"
    for inner in value.values():
        yield from _key_faults(inner)


def _row_faults(row: Any) -> Iterator[str]:
    from resources_servers.browser_gym.task_row import TaskRow
    from resources_servers.browser_gym.verification.errors import InvalidTask
    from resources_servers.browser_gym.verification.verifiers import Verifiers

    try:
        TaskRow.parse(row)
        Verifiers().parse_verifier(row["verifier_metadata"])
    except InvalidTask as error:
        yield str(error)
