"""The demo gym's tasks and the state its apps start from."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from resources_servers.browser_gym.task_row import ClockMode
from resources_servers.browser_gym.verification.assertions import Assertion, parse_assertions

STATIC_DIR = Path(__file__).parent / "static"
TASKS_DIR = Path(__file__).parent / "tasks"

VIEWPORT = {"width": 1280, "height": 720}
"""The only viewport (px) that the apps are laid out for, so it is every task's."""

BROWSER: dict[Literal["clock"], ClockMode] = {"clock": "step"}
"""How every task's browser starts: what apps do in time does not depend on the model's speed."""

Category = Literal["click", "type", "scroll", "drag", "keys", "tabs", "question", "form", "select"]


class Task(BaseModel):
    """One task, as written in a file of `tasks/`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Z]+-\d\d$")
    app: Literal["crm", "board", "shop", "docs", "settings"]
    category: Category
    prompt: str = Field(min_length=1)
    start_path: str = Field(pattern=r"^/")
    assertions: list[dict[str, Any]]

    @model_validator(mode="after")
    def _check_assertions(self) -> "Task":
        parse_assertions(self.assertions)
        if not any("only_changed" in assertion for assertion in self.assertions):
            raise ValueError(
                "assertions: add an only_changed assertion, so that damage done elsewhere counts"
            )
        return self

    def parsed_assertions(self) -> list[Assertion]:
        """Returns the assertions ready to be evaluated."""
        return parse_assertions(self.assertions)


@cache
def load_tasks() -> dict[str, Task]:
    """Reads all tasks once, by id, in the order of the apps' files.

    Raises:
        ValueError: A task is not valid (the message names the field) or an id is used twice.
    """
    tasks: dict[str, Task] = {}
    for path in sorted(TASKS_DIR.glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8")):
            task = Task.model_validate(entry)
            if task.id in tasks:
                raise ValueError(f"{path.name}: the task id {task.id} is used twice")
            tasks[task.id] = task
    return tasks


@cache
def seed_state() -> dict[str, str]:
    """Returns the localStorage {key: JSON text} that the apps store when first opened.

    It stands in for the initial state when a caller of the grading API sends none.
    """
    state: dict[str, str] = {}
    for path in sorted(STATIC_DIR.glob("*/seed.json")):
        for key, value in json.loads(path.read_text(encoding="utf-8")).items():
            state[key] = json.dumps(value, ensure_ascii=False)
    return state
