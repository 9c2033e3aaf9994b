"""What every check of an assertion gets and gives, and how its fields are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from resources_servers.browser_gym.browser.page_state import PageState
from resources_servers.browser_gym.verification.errors import InvalidTask
from resources_servers.browser_gym.verification.json_diff import Path, diff_paths
from resources_servers.browser_gym.verification.storage_document import parse_document


class State:
    """What assertions are judged on: both documents, the answer and the final page."""

    def __init__(
        self,
        initial: Mapping[str, str],
        final: Mapping[str, str],
        answer: str,
        page: PageState | None = None,
    ) -> None:
        self._initial_texts = initial
        self._final_texts = final
        self.answer = answer
        self.page = page or PageState()

    @cached_property
    def initial(self) -> dict[str, Any]:
        """The start origin's localStorage when the session started, its JSON texts parsed."""
        return parse_document(self._initial_texts)

    @cached_property
    def final(self) -> dict[str, Any]:
        """The same at the end."""
        return parse_document(self._final_texts)

    @cached_property
    def changed(self) -> list[Path]:
        """Every place that differs between the two documents, in order."""
        return sorted(diff_paths(self.initial, self.final))


@dataclass(frozen=True)
class Outcome:
    """A check's result, with what was wanted and what was there, both JSON values."""

    passed: bool
    expected: Any
    actual: Any


class Check(Protocol):
    """The part of an assertion that decides."""

    def judge(self, state: State) -> Outcome:
        """Judges the state; raises `VerifierError` if what was kept does not allow it."""
        ...


def required_text(value: Any, field: str) -> str:
    """Returns a field's text; raises `InvalidTask` if it is no text or empty."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidTask(f"{field}: give a text that is not empty")
    return value
