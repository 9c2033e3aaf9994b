"""What a step tells: what became of its actions, and what the session looks like then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from resources_servers.browser_gym.browser.capture import Image


@dataclass
class ActionResult:
    """What became of one action of a batch.

    Attributes:
        type: the action's type.
        status: `not_run` stands behind the first failure of a batch.
        error: for the model, set when status is `error`.
        text: what the action found out, for actions that answer in words.
    """

    type: str
    status: Literal["ok", "error", "not_run"]
    error: str | None = None
    text: str | None = None


@dataclass
class Observation:
    """What a session looks like after a step.

    Attributes:
        image: the active tab's viewport, or the region of it that the last action zoomed into
            (a `zoom` event says which); None if the page did not draw in time.
        url: of the active tab.
        words: what the page shows in words, if that was asked for instead of an image.
        tabs: `{tab_id, index, url, title, active}` for each tab.
        events: what happened by itself since the last observation; the README lists them.
        settled: whether the page was quiet before the bound.
        timings_ms: `act`, `settle`, `capture`.
    """

    image: Image | None
    url: str
    title: str
    tabs: list[dict[str, Any]]
    events: list[dict[str, Any]]
    settled: bool
    timings_ms: dict[str, float] = field(default_factory=dict)
    words: str | None = None


@dataclass(frozen=True)
class Words:
    """An observation in words instead of an image.

    Attributes:
        max_chars: length of the page's words that is not passed.
        query: only the lines that hold this text.
        pictured: whether a screenshot is taken too, though the model is not shown it.
    """

    max_chars: int
    query: str | None = None
    pictured: bool = False
