"""What `events.js` reports, checked: pages could report too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from resources_servers.browser_gym.actions import MAX_SCROLL_PX, MAX_TEXT_LENGTH, Modifier

SCRIPT = (Path(__file__).parent / "events.js").read_text(encoding="utf-8")
"""A function of the name of the binding that takes the reports."""
KINDS = ("down", "move", "up", "wheel", "key", "text", "copied", "pasted", "shown")


class Event(BaseModel):
    """Something a person did.

    Attributes:
        kind: one of `KINDS`.
        at: in ms since the epoch.
        x: in CSS px of the frame it was in; of the viewport once the watch knows where that is.
        y: likewise.
        modifiers: that were held.
        button: in the DOM's numbers.
        count: of the presses in a row.
        dx: of the wheel, in px.
        dy: likewise.
        key: in the DOM's words.
        third_level: whether the key was pressed with AltGr.
        text: that was put in, or copied.
        password: whether it went into a field for one.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: str = Field(pattern=f"^({'|'.join(KINDS)})$")
    at: float
    x: float = 0
    y: float = 0
    modifiers: list[Modifier] = []
    button: int = Field(default=0, ge=0, le=4)
    count: int = Field(default=1, ge=0)
    dx: float = Field(default=0, ge=-MAX_SCROLL_PX, le=MAX_SCROLL_PX)
    dy: float = Field(default=0, ge=-MAX_SCROLL_PX, le=MAX_SCROLL_PX)
    key: str = Field(default="", max_length=50)
    third_level: bool = False
    text: str = Field(default="", max_length=MAX_TEXT_LENGTH)
    password: bool = False


def checked(report: Any) -> Event | None:
    """Return a report as an event, None if it is none."""
    try:
        return Event.model_validate(report)
    except ValidationError:
        return None
