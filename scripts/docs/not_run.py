"""What `make test-docs` does not run of the documents, and what it needs for the rest."""

from __future__ import annotations

import re

from scripts.docs.commands import Command

_KEY = "asks a provider's API: needs a key and costs money"
_ENGINE = "needs an engine with a model, mostly on a GPU; make test-vllm runs one on a CPU"
_TRAINER = "needs GPUs and the trainer's own environment"
_PLACEHOLDER = "has a place for an id that the reader fills in"

NOT_RUN: dict[str, str] = {
    r"^docs/reference/": "examples of --help, with files and addresses of the reader's own",
    r"make test\b": "the tests themselves",
    r"(make rl-example|results/rl_example/)": "takes minutes; tests/test_rl_example.py is short",
    r"(OPENAI_API_KEY|configs/openai\.yaml)": _KEY,
    r"results/(openai|tutorial_real|apps)": _KEY,
    r"(vllm_exact\.yaml|vllm serve|--agent browser_policy_agent)": _ENGINE,
    r"(/path/to/|recipes/verl/run\.sh|run_grpo)": _TRAINER,
    r"cd \$BROWSER_GYM": _TRAINER,
    r'"env_id": "…"': _PLACEHOLDER,
    r"gym eval reverify": "leaves the servers that it starts running",
    r"browser-gym (export|replay)": "needs rollouts of the reader's own, with their screenshots",
    r"browser-gym record": "needs a display",
    r"(10\.0\.0\.5|BROWSER_GYM_AUTH_TOKEN=…)": "needs a second machine",
}
"""Why commands are not run, by an expression that is found in them or in where they stand."""

SERVERS: dict[str, str] = {
    "gym env start": "servers ready! ",
    "docs/examples/web_gym.py": "Uvicorn running on",
    "browser-gym gym": "The demo gym is at",
    "browser-gym view": "Ctrl-C ends it",
    "browser-gym watch": "Ctrl-C ends it",
}
"""Commands that run until they are interrupted, and what they print when they are ready.

With `--output` or `--once`, they end by themselves.
"""

_STACK = "gym env start --config resources_servers/browser_gym/configs/browser_gym.yaml"
STARTED_BEFORE: dict[str, str] = {
    "README.md": "browser-gym gym",
    "browser_gym/README.md": _STACK,
    "docs/how-to/masked_rollouts.md": _STACK,
    "docs/how-to/several_machines.md": "browser-gym gym",
    "resources_servers/browser_gym/README.md": _STACK,
}
"""Servers that a document takes for granted."""

_ROLLOUTS = "resources_servers/browser_gym/data/example_rollouts.jsonl"
FILES: dict[str, str] = dict.fromkeys(
    ("results/run.jsonl", "results/old.jsonl", "results/new.jsonl"), _ROLLOUTS
) | {
    "results/my_tasks.jsonl": "resources_servers/browser_gym/data/example.jsonl",
    "results/my_scripts.json": "resources_servers/browser_gym/demo_gym/solutions.json",
}
"""What stands for files of the reader's own; taken away afterwards."""


def reason_not_to_run(command: Command) -> str | None:
    """Return why a command is not run, None if it is."""
    reasons = (reason for found, reason in NOT_RUN.items() if re.search(found, str(command)))
    return next(reasons, None)


def ready_text(command: str) -> str | None:
    """Return what a server prints when it is ready; None for a command that ends by itself."""
    if "--output" in command or "--once" in command:
        return None
    return next((text for found, text in SERVERS.items() if found in command), None)
