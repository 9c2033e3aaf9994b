"""Verifiers made of other verifiers: `all_of` and `any_of`."""

import asyncio
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Self

from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.assertions import shown_value
from resources_servers.browser_gym.verification.contract import Evidence, Verdict, Verifier
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError

MAX_PARTS = 20
# What a part takes from the row it stands in, if it does not say otherwise.
_INHERITED = ("task_id", "gym_url", "start_url")

ParsePart = Callable[[dict[str, Any]], Verifier]
"""Reads one part as if it were a row's `verifier_metadata`; raises `InvalidTask`."""


class CombinedVerifier:
    """Grades with several verifiers at the same time and combines their verdicts.

    A part that gives no verdict makes the whole have none, unless the others decide it.
    """

    name: ClassVar[str]
    decisive: ClassVar[float]
    """The reward of one part that decides the whole."""

    def __init__(self, parts: list[Verifier]) -> None:
        self._parts = parts

    @classmethod
    def for_task(cls, task: VerifierMetadata, parse_part: ParsePart) -> Self:
        """Reads the parts in the task's `verifiers`; raises `InvalidTask` if one is wrong."""
        field = "verifier_metadata.verifiers"
        if not isinstance(task.verifiers, list) or not 1 <= len(task.verifiers) <= MAX_PARTS:
            raise InvalidTask(f"{field}: {cls.name} needs a list of 1 to {MAX_PARTS} verifiers")
        row = task.model_dump(include=set(_INHERITED), exclude_none=True)
        return cls(
            [
                _parse_part(f"{field}[{index}]", part, row, parse_part)
                for index, part in enumerate(task.verifiers)
            ]
        )

    @property
    def keep(self) -> Keep:
        """What any part wants kept."""
        return reduce(or_, (part.keep for part in self._parts), KEEP_NOTHING)

    async def verify(self, evidence: Evidence) -> Verdict:
        """Grades with every part; raises `VerifierError` if the parts with a verdict do not do."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_try(part, evidence)) for part in self._parts]
        outcomes = [task.result() for task in tasks]
        verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, VerifierError)]
        decided = any(verdict.reward == self.decisive for verdict in verdicts)
        if failures and not decided:
            raise failures[0]
        assertions: list[dict[str, Any]] = []
        for index, (part, outcome) in enumerate(zip(self._parts, outcomes, strict=True)):
            assertions += _told(f"{index + 1}. {part.name}", outcome)
        reward = self.decisive if decided else 1.0 - self.decisive
        credits_ = [v.partial_credit if isinstance(v, Verdict) else 0.0 for v in outcomes]
        return Verdict(reward, self._share(credits_), assertions)

    def _share(self, shares: list[float]) -> float:
        raise NotImplementedError


class AllOf(CombinedVerifier):
    """Passes if every part does; its partial credit is the mean of theirs."""

    name = "all_of"
    decisive = 0.0

    def _share(self, shares: list[float]) -> float:
        return sum(shares) / len(shares)


class AnyOf(CombinedVerifier):
    """Passes if one part does; its partial credit is the best of theirs."""

    name = "any_of"
    decisive = 1.0

    def _share(self, shares: list[float]) -> float:
        return max(shares)


def _parse_part(field: str, part: Any, row: dict[str, Any], parse_part: ParsePart) -> Verifier:
    if not isinstance(part, dict):
        raise InvalidTask(f"{field}: give a JSON object with a 'verifier'")
    if "verifier" not in part:
        raise InvalidTask(f"{field}.verifier: missing")
    try:
        return parse_part(row | part)
    except InvalidTask as error:
        reason = str(error).removeprefix("verifier_metadata.")
        raise InvalidTask(f"{field}.{reason}") from error


async def _try(part: Verifier, evidence: Evidence) -> Verdict | VerifierError:
    try:
        return await part.verify(evidence)
    except VerifierError as error:
        return error


def _told(name: str, outcome: Verdict | VerifierError) -> list[dict[str, Any]]:
    """A part's assertions under its name; one that stands for the part if it has no verdict."""
    if isinstance(outcome, VerifierError):
        actual = shown_value(f"{outcome.fault.kind}: {outcome}")
        return [{"title": name, "result": "no_verdict", "actual": actual}]
    return [
        assertion | {"title": f"{name}: {assertion['title']}"} for assertion in outcome.assertions
    ]
