"""What a verifier gets and gives."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

Storage = Mapping[str, str]
"""One origin's localStorage: {key: text}."""


@dataclass(frozen=True)
class Evidence:
    """What a session left behind. A verifier that needs more gets another field with a default.

    Attributes:
        start_origin: Origin the session started at, such as `http://127.0.0.1:8777`; its storage
            is what is graded, wherever the page ended.
        initial: {origin: localStorage} once the first page had loaded.
        final: The same at the end, of every origin the session touched.
        answer: The model's final message, "" if there was none.
    """

    start_origin: str
    initial: Mapping[str, Storage]
    final: Mapping[str, Storage]
    answer: str

    @property
    def initial_storage(self) -> Storage:
        """The start origin's localStorage at the start, empty if it had none."""
        return self.initial.get(self.start_origin, {})

    @property
    def final_storage(self) -> Storage:
        """The start origin's localStorage at the end, empty if it has none."""
        return self.final.get(self.start_origin, {})


@dataclass(frozen=True)
class Verdict:
    """What a rollout earned.

    Attributes:
        reward: 1.0 if there is an assertion and all pass, else 0.0.
        partial_credit: Share of the assertions that pass, 0.0 to 1.0.
        assertions: Per assertion `title`, `result` ("pass" or "fail") and where known `category`,
            `expected` and `actual`.
    """

    reward: float
    partial_credit: float
    assertions: list[dict[str, Any]]

    @classmethod
    def of(cls, assertions: list[dict[str, Any]]) -> "Verdict":
        """Sums up judged assertions; none at all earn nothing."""
        passed = sum(assertion["result"] == "pass" for assertion in assertions)
        share = passed / len(assertions) if assertions else 0.0
        return cls(float(share == 1.0), share, assertions)

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict as a JSON object."""
        return asdict(self)


class Verifier(Protocol):
    """Grades one task."""

    name: str

    async def verify(self, evidence: Evidence) -> Verdict:
        """Grades what a session left behind.

        Raises:
            VerifierError: There is no verdict; never a reason for a reward of 0.
        """
        ...
