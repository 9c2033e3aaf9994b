"""Plays the scripts of `tasks.jsonl` over HTTP, as an agent would, and has the result graded.

A script is a list of turns. A turn is one action, or a list of them to run as one batch. Actions
are the canonical ones, but a point may be looked up when its turn comes: `"at"` is a part of a line
that `list_elements` answers, such as `button "Save"`, or `text:` and a text for `find`. An `x` or
`y` beside it replaces that coordinate, and `"by"` is an offset in CSS px.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import RESPONSE, Client
from resources_servers.browser_gym.verification.assertions import Assertion, parse_assertions

HERE = Path(__file__).parent
ROW_ORIGIN = "http://127.0.0.1:8779"
"""Where the rows of `tasks.jsonl` say that the apps are; replaced by where they are served."""

LOOKS = 10
"""How often to look for what is not on the screen yet; some of the apps take long to start."""
LOOK_AGAIN_MS = 300

Turn = dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True)
class AppTask:
    """A task row, a script that solves it and one that must not be rewarded."""

    row: dict[str, Any]
    right: list[Turn]
    wrong: list[Turn]

    @property
    def task_id(self) -> str:
        """The row's name."""
        return self.row["verifier_metadata"]["task_id"]

    @property
    def assertions(self) -> list[Assertion]:
        """The row's assertions, parsed."""
        return parse_assertions(self.row["verifier_metadata"]["assertions"])


def load_tasks(origin: str) -> list[AppTask]:
    """Reads the tasks and their scripts, for apps that are served at `origin`."""
    rows = (HERE / "tasks.jsonl").read_text("utf-8").replace(ROW_ORIGIN, origin)
    scripts = json.loads((HERE / "scripts.json").read_text("utf-8"))
    return [AppTask(row, **scripts[row["verifier_metadata"]["task_id"]]) for row in _lines(rows)]


async def seed(client: Client, task: AppTask) -> str:
    """Opens a session for a task and returns its name."""
    seeded = await client.seed(task.row["verifier_metadata"]["start_url"], **task.row)
    return seeded["env_id"]


async def play(client: Client, env_id: str, script: Sequence[Turn]) -> list[dict[str, Any]]:
    """Runs a script and returns the answer of `/step` to each of its turns.

    Raises:
        AssertionError: An action failed, or what the script looks for is not on the screen.
    """
    answers: list[dict[str, Any]] = []
    for turn in script:
        batch = turn if isinstance(turn, list) else [turn]
        actions = [await _with_points(client, env_id, action) for action in batch]
        answer = await client.step(env_id, *actions)
        assert answer["error"] is None, f"{actions}: {answer['error']}"
        answers.append(answer)
    return answers


async def grade(client: Client, task: AppTask, env_id: str) -> dict[str, Any]:
    """Ends a session and returns the answer of `/verify`."""
    return await client.post("/verify", {**task.row, "response": RESPONSE, "env_id": env_id})


async def _with_points(client: Client, env_id: str, action: dict[str, Any]) -> dict[str, Any]:
    if "path" in action:
        path = [await _with_points(client, env_id, point) for point in action["path"]]
        return {**action, "path": path}
    if "at" not in action:
        return action
    x, y = await locate(client, env_id, action["at"])
    dx, dy = action.get("by", (0, 0))
    rest = {key: value for key, value in action.items() if key not in ("at", "by")}
    return {"x": x + dx, "y": y + dy, **rest}


async def locate(client: Client, env_id: str, target: str) -> tuple[float, float]:
    """Returns the point of the first element or text on the screen that a target names."""
    text = target.removeprefix("text:")
    if text != target:
        looking: dict[str, Any] = {"type": "find", "query": text}
        text = ""
    else:
        looking = {"type": "list_elements"}
    found = ""
    for _ in range(LOOKS):
        answer = await client.step(env_id, looking)
        found = answer["results"][0]["text"] or ""
        for line in found.split("\n"):
            point = re.search(r"at \((-?[\d.]+), (-?[\d.]+)\)", line)
            if point and text in line and "off screen" not in line:
                return float(point[1]), float(point[2])
        await client.step(env_id, {"type": "wait", "ms": LOOK_AGAIN_MS})
    raise AssertionError(f"{target!r} is not on the screen: {found}")


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]
