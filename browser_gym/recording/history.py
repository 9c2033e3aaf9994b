"""How a tab came to where it is, told by its history before and after. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

Move = Literal["navigate", "reload", "go_back", "go_forward"]

# As Chromium calls what a person does in the address bar or the bookmarks.
_BY_PERSON = ("typed", "address_bar", "auto_bookmark", "generated", "keyword", "keyword_generated")


@dataclass(frozen=True)
class Entry:
    """A page of a history.

    Attributes:
        id: of the entry.
        how: it came about, in Chromium's words.
        url: as it was typed, if it was.
    """

    id: int
    how: str
    url: str

    @property
    def by_person(self) -> bool:
        """Whether a person asked for this address."""
        return self.how in _BY_PERSON and self.url.startswith(("http://", "https://"))


@dataclass(frozen=True)
class History:
    """A tab's history, and the index of where it is."""

    entries: tuple[Entry, ...] = ()
    index: int = -1

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """Read the answer of CDP's `Page.getNavigationHistory`."""
        entries = tuple(
            Entry(one["id"], one["transitionType"], one.get("userTypedURL") or one["url"])
            for one in told["entries"]
        )
        return cls(entries, told["currentIndex"])

    @property
    def ids(self) -> tuple[int, ...]:
        """Of its entries."""
        return tuple(entry.id for entry in self.entries)


def moves(before: History, now: History, *, same_document: bool) -> list[tuple[Move, str]]:
    """Return how a tab went from one to the other, and where to; nothing if by a link.

    Args:
        before: the history before.
        now: and after.
        same_document: whether the document is the same, and only its address another.
    """
    url = now.entries[now.index].url
    if now.ids != before.ids:
        known = set(before.ids)
        fresh = [entry for entry in now.entries[: now.index + 1] if entry.id not in known]
        return [("navigate", entry.url) for entry in fresh if entry.by_person]
    if steps := now.index - before.index:
        return [("go_forward" if steps > 0 else "go_back", url)] * abs(steps)
    if now.entries[now.index].how == "reload" and not same_document:
        return [("reload", url)]
    return []
