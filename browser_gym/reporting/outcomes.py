"""What a rollout row says of how it went and what it took: small enough to keep all of a run."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from browser_gym.reporting.costs import Pricing, tokens_of
from browser_gym.rollouts import Rollout, Row, UnusableInput
from resources_servers.browser_gym.groups import is_masked

SOLVED = 1.0
"""The reward of a solved task."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """How one rollout went.

    Attributes:
        task: its task's name, the same in every run.
        named: whether the name is the task's own, else it is its place in the run's input.
        category: of the task.
        verifier: of the task.
        agent: that played it.
        model: that answered.
        reward: nothing if masked.
        masked: whether the reward is no measurement.
        failure_kind: why it is masked.
        termination: why the episode ended.
        failed_attempts: of the rollout, before this one, by kind.
        steps: replies of the model.
        seconds: all of it, waiting included.
        model_seconds: of these the model took.
        browser_seconds: of these the browser took.
        input_tokens: of the rollout and its failed attempts.
        output_tokens: likewise.
        cost_usd: likewise; None if any of it is not known.
        priced_by_table: whether a price table says so, not the row itself.
    """

    task: str
    named: bool
    category: str
    verifier: str
    agent: str
    model: str
    reward: float
    masked: bool
    failure_kind: str
    termination: str
    failed_attempts: dict[str, int]
    steps: float | None
    seconds: float | None
    model_seconds: float | None
    browser_seconds: float | None
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    priced_by_table: bool

    @property
    def solved(self) -> bool:
        """Whether the task was solved, as far as that is known."""
        return not self.masked and self.reward >= SOLVED


def outcome_of(rollout: Rollout, pricing: Pricing) -> Outcome:
    """Return what a row says.

    Args:
        rollout: the row.
        pricing: what its tokens cost.

    Raises:
        UnusableInput: a field is not what it should be; the message names it.
    """
    row, place = rollout.row, rollout.place
    if not math.isfinite(row["reward"]):
        raise UnusableInput(f"{place}: `reward` is {row['reward']}, not a number")
    response, metadata = _part(row, "response", place), _part(row, "verifier_metadata", place)
    task_id = rollout.task_id
    index = row.get("_ng_task_index")
    if not task_id and index is None:
        raise UnusableInput(
            f"{place}: names no task: it has neither `verifier_metadata.task_id` nor "
            "`_ng_task_index`"
        )
    attempts = _attempts(row, place)
    spent = [tokens_of(usage, place) for usage in (response.get("usage"), *_usages(attempts))]
    known = [tokens for tokens in spent if tokens is not None]
    cost, by_table = pricing.cost(row, attempts, place)
    kinds = Counter(attempt.get("failure_kind") or UNKNOWN for attempt in attempts)
    return Outcome(
        task=task_id or f"#{index}",
        named=bool(task_id),
        category=_word(row.get("category") or metadata.get("category")),
        verifier=_word(metadata.get("verifier")),
        agent=_word(_part(row, "agent_ref", place).get("name")),
        model=_word(response.get("model")),
        reward=float(row["reward"]),
        masked=is_masked(row),
        failure_kind=_word(row.get("failure_kind")),
        termination=_word(row.get("termination_reason")),
        failed_attempts=dict(sorted(kinds.items())),
        steps=_number(row, "num_turns", place),
        seconds=_number(row, "total_seconds", place),
        model_seconds=_number(row, "model_seconds", place),
        browser_seconds=_number(row, "browser_seconds", place),
        input_tokens=sum(tokens.input_tokens for tokens in known) if known else None,
        output_tokens=sum(tokens.output_tokens for tokens in known) if known else None,
        cost_usd=cost,
        priced_by_table=by_table,
    )


def _attempts(row: Row, place: str) -> list[Row]:
    attempts = row.get("attempts") or []
    if not isinstance(attempts, list) or not all(isinstance(one, dict) for one in attempts):
        raise UnusableInput(f"{place}: `attempts` is no list of objects")
    return attempts


def _usages(attempts: list[Row]) -> list[Any]:
    return [attempt.get("usage") for attempt in attempts]


def _word(value: Any) -> str:
    return str(value) if value else ""


def _part(row: Row, key: str, place: str) -> Row:
    value = row.get(key) or {}
    if not isinstance(value, dict):
        raise UnusableInput(f"{place}: `{key}` is no object")
    return value


def _number(row: Row, key: str, place: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnusableInput(f"{place}: `{key}` is {value!r}, not a number")
    return float(value)
