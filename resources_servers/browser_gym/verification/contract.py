"""What a verifier gets and gives."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from resources_servers.browser_gym.browser.page_state import Keep, PageState

Storage = Mapping[str, str]
"""One origin's localStorage: {key: text}."""


@dataclass(frozen=True)
class Screenshot:
    """An encoded image of what a session showed, and its media type, such as `image/jpeg`."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Evidence:
    """What a session left behind. A verifier that needs more gets another field with a default.

    Attributes:
        start_origin: Origin the session started at, such as `http://127.0.0.1:8777`; its storage
            is what is graded, wherever the page ended.
        initial: {origin: localStorage} once the first page had loaded.
        final: The same at the end, of every origin the session touched.
        answer: The model's final message, "" if there was none.
        task: What the model was asked to do.
        page: The active tab before it was left, as far as the verifier's `keep` asks for it.
        screenshots: The last different ones, oldest first, as many as `keep` asks for.
    """

    start_origin: str
    initial: Mapping[str, Storage]
    final: Mapping[str, Storage]
    answer: str
    task: str = ""
    page: PageState = field(default_factory=PageState)
    screenshots: tuple[Screenshot, ...] = ()

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
        reward: 1.0 if there is an assertion and all pass, else 0.0; `all_of` and `any_of` combine
            those of their parts.
        partial_credit: Share of the assertions that pass, 0.0 to 1.0.
        assertions: Per assertion `title`, `result` ("pass" or "fail"; "no_verdict" for a part that
            has none where the others decide) and where known `category`, `expected`, `actual`.
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
    """Grades one task.

    Attributes:
        name: What a row calls it.
        keep: What it wants kept of the session beside storage, addresses and the answer.
    """

    name: str

    @property
    def keep(self) -> Keep: ...  # noqa: D102

    async def verify(self, evidence: Evidence) -> Verdict:
        """Grades what a session left behind.

        Raises:
            VerifierError: There is no verdict; never a reason for a reward of 0.
        """
        ...
