"""The demo tasks' solutions, which every simulated model can give in its own words."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

DEMO_GYM = Path(__file__).resolve().parents[2] / "resources_servers/browser_gym/demo_gym"
SOLUTIONS = DEMO_GYM / "solutions.json"
UNKNOWN: list[Json] = [{"answer": "I know no solution of this task."}]


def load_solutions() -> dict[str, Json]:
    """Return the solutions by task id."""
    return json.loads(SOLUTIONS.read_text())


def turns_for(solutions: Mapping[str, Json], said: str) -> list[Json]:
    """Return the turns that solve the task whose prompt is in a text."""
    found = [entry for entry in solutions.values() if entry["prompt"] in said]
    return max(found, key=lambda entry: len(entry["prompt"]))["turns"] if found else UNKNOWN
