"""What is kept of a session's pages for grading."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Keep:
    """What a verifier wants kept of a session, beside storage, addresses and the answer.

    Attributes:
        text: Whether it wants the final page's visible text.
        selectors: CSS selectors whose matches in the final page it wants.
        screenshots: How many of the last different screenshots it wants.
    """

    text: bool = False
    selectors: tuple[str, ...] = ()
    screenshots: int = 0

    def __or__(self, other: "Keep") -> "Keep":
        """Returns what both want."""
        return Keep(
            self.text or other.text,
            tuple(dict.fromkeys(self.selectors + other.selectors)),
            max(self.screenshots, other.screenshots),
        )


KEEP_NOTHING = Keep()


@dataclass(frozen=True)
class Matches:
    """What a CSS selector matches.

    Attributes:
        count: How many elements.
        texts: The text, or the value of a field, of the first of them.
    """

    count: int
    texts: list[str]


@dataclass(frozen=True)
class PageState:
    """The active tab at the end, before it is left.

    Attributes:
        url: Its address, uncut.
        tabs: The addresses of all tabs.
        text: Its visible text, if it was asked for and could be read.
        found: {CSS selector: what it matches}, likewise.
        problem: Why it could not be read, in words; empty if it could, or was not asked for.
    """

    url: str = ""
    tabs: list[str] = field(default_factory=list)
    text: str | None = None
    found: Mapping[str, Matches] = field(default_factory=dict)
    problem: str = ""
