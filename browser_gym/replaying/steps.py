"""What of a rollout row is played again, and what must come of it. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from browser_gym.environment import CannotRun
from browser_gym.viewer.texts import record, records
from resources_servers.browser_gym.actions import MAX_BATCH
from resources_servers.browser_gym.redaction import HIDDEN
from resources_servers.browser_gym.task_row import SECRET_FIELDS, VerifierMetadata
from resources_servers.browser_gym.verification.errors import InvalidTask

Json = dict[str, Any]

_TASK_FIELDS = ("task_id", "gym_url", "start_url", "viewport", "browser")
# Grades nothing: seeding asks for a verifier, and ending a session for a verdict.
_NO_GRADING = {
    "verifier": "answer",
    "assertions": [{"title": "not graded", "answer_equals": "-"}],
}


@dataclass(frozen=True)
class Step:
    """A batch of actions, and what the row says came of it.

    Attributes:
        turn: number of the model's reply, from 0; None for the start page.
        call: index among the calls of the reply.
        actions: canonical ones.
        statuses: of the actions.
        url: of the active tab afterwards.
        screenshot: reference to what was seen afterwards, if the row has it: of the calls of one
            reply it has that of the last.
    """

    turn: int | None
    call: int
    actions: list[Json] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    url: str = ""
    screenshot: str = ""


def steps_of(row: Json) -> list[Step]:
    """Return the start page and the batches that were run, in order.

    Raises:
        CannotRun: the row has none, or they are malformed.
    """
    turns = row.get("turns")
    if not isinstance(turns, list):
        raise CannotRun("has no `turns`: only rollouts of browser_agent can be replayed")
    first = row.get("first_observation") or {}
    screenshot = str(first.get("screenshot") or "")
    steps = [Step(None, 0, url=str(first.get("url") or ""), screenshot=screenshot)]
    try:
        for number, turn in enumerate(turns):
            # A call without results was not run, as one before it failed.
            run = [i for i, call in enumerate(turn["calls"]) if call.get("results")]
            for index in run:
                call = turn["calls"][index]
                actions = call["actions"] or [{"type": "screenshot"}]
                if records(actions) != actions:
                    raise TypeError("`actions` is no list of objects")
                step = Step(
                    number,
                    index,
                    actions[:MAX_BATCH],
                    [str(result["status"]) for result in call["results"]],
                    str(call["current_url"]),
                    str(turn.get("screenshot") or "") if index == run[-1] else "",
                )
                steps.append(step)
    except (KeyError, TypeError, AttributeError) as error:
        raise CannotRun(f"`turns` is malformed: {type(error).__name__}: {error}") from error
    return steps


def task_of(row: Json, tasks: dict[str, Json], *, graded: bool) -> Json:
    """Return the `verifier_metadata` to seed a row's session with.

    Args:
        row: the rollout's.
        tasks: `verifier_metadata` by task id of rows that hide nothing, where given.
        graded: whether the outcome is graded; if not, the task's verifier is not asked.

    Raises:
        CannotRun: it cannot be opened, as the row does not have all of it.
    """
    metadata = row.get("verifier_metadata") or {}
    metadata = tasks.get(metadata.get("task_id") or "", metadata)
    browser = record(metadata.get("browser"))
    secret = {key: value for key, value in metadata.items() if key.endswith("_url")}
    secret["browser"] = {key: browser[key] for key in SECRET_FIELDS if key in browser}
    if hidden := _hidden(secret, "verifier_metadata"):
        raise CannotRun(
            f"the row does not tell {hidden}, which is secret: give the task file it was collected "
            "with, --tasks FILE"
        )
    if not graded:
        metadata = {k: metadata[k] for k in _TASK_FIELDS if k in metadata} | _NO_GRADING
    try:
        if VerifierMetadata.parse(metadata).start_url is None:
            raise CannotRun("verifier_metadata.start_url: missing, so there is no page to start on")
    except InvalidTask as error:
        raise CannotRun(str(error)) from error
    return metadata


def _hidden(value: Any, place: str) -> str | None:
    """Return where a value holds a hidden secret, None if nowhere."""
    if isinstance(value, dict):
        inner = [(f"{place}.{key}", one) for key, one in value.items()]
    elif isinstance(value, list):
        inner = [(f"{place}.{index}", one) for index, one in enumerate(value)]
    else:
        return place if isinstance(value, str) and HIDDEN in value else None
    return next((found for name, one in inner if (found := _hidden(one, name))), None)
