"""Canonical browser actions: the one vocabulary every provider's actions are translated to.

Coordinates are float CSS pixels of the viewport, origin top left. A missing coordinate means the
current cursor. A coordinate outside the viewport is not clamped here or anywhere else: the page
driver reports it to the model.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

MouseButton = Literal["left", "right", "middle", "back", "forward"]
Modifier = Literal["Control", "Shift", "Alt", "Meta"]

MAX_BATCH = 100  # actions of one step
MAX_WAIT_MS = 60_000
MAX_HOLD_MS = 60_000
MAX_TEXT_LENGTH = 100_000
MAX_SCROLL_PX = 1_000_000
MAX_TAB_INDEX = 10_000
MIN_ZOOM_PX = 10
MAX_QUERY_LENGTH = 1_000


def _no_flag(value: Any) -> Any:
    """Refuse true and false, which would pass for 1 and 0.

    Raises:
        ValueError: it is one.
    """
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


_Number = Annotated[float, BeforeValidator(_no_flag)]
_Whole = Annotated[int, BeforeValidator(_no_flag)]
_Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
_Ref = Annotated[str, Field(min_length=1, max_length=20)]


class Point(BaseModel):
    """A position in CSS pixels of the viewport."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    x: _Number
    y: _Number


class _Action(BaseModel):
    """What all actions share."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _AtOptionalPoint(_Action):
    """An action at a point, at an element that has a ref, or else at the current cursor.

    The element is scrolled into view if need be, and the point is where a click reaches it.
    """

    x: _Number | None = None
    y: _Number | None = None
    ref: _Ref | None = None

    @model_validator(mode="after")
    def _one_place(self) -> _AtOptionalPoint:
        if (self.x is None) != (self.y is None):
            raise ValueError("give both x and y, or neither for the current cursor")
        if self.ref is not None and self.x is not None:
            raise ValueError("give either x and y or a ref")
        return self


class Screenshot(_Action):
    """Look at the page without acting."""

    type: Literal["screenshot"] = "screenshot"


class Region(BaseModel):
    """A rectangle in CSS pixels of the viewport, from its top left to its bottom right corner."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    x0: _Number
    y0: _Number
    x1: _Number
    y1: _Number


class Zoom(_Action):
    """Look at one region of the viewport, enlarged; meant to be the last action of a batch.

    The region must be at least `MIN_ZOOM_PX` wide and high; the page driver tells the model.
    """

    type: Literal["zoom"] = "zoom"
    region: Region


class PageText(_Action):
    """Tell the visible text of the page."""

    type: Literal["page_text"] = "page_text"


class Find(_Action):
    """Tell where on the page a text is."""

    type: Literal["find"] = "find"
    query: str = Field(min_length=1, max_length=MAX_QUERY_LENGTH)


class ListElements(_Action):
    """Tell which interactive elements are on the screen, and give each a ref."""

    type: Literal["list_elements"] = "list_elements"


class ScrollTo(_Action):
    """Scroll the element that `list_elements` gave a ref into view."""

    type: Literal["scroll_to"] = "scroll_to"
    ref: _Ref


class SetValue(_AtOptionalPoint):
    """Set the value of the field at a point, or of the one that `list_elements` gave a ref.

    The value is true or false for a checkbox, true for a radio button; an option's value or label
    for a select, a list of them for a multiple one; `YYYY-MM-DD`, `HH:MM`, `YYYY-MM`, `YYYY-Www`,
    `YYYY-MM-DDTHH:MM` or `#rrggbb` for the inputs that hold those; text or a number for the rest.
    """

    type: Literal["set_value"] = "set_value"
    value: _Text | bool | int | float | Annotated[list[_Text], Field(max_length=1000)]

    @model_validator(mode="after")
    def _point_or_ref(self) -> SetValue:
        if self.x is None and self.ref is None:
            raise ValueError("give either x and y or a ref")
        return self


class Click(_AtOptionalPoint):
    """Press and release a mouse button `count` times, holding it `hold_ms` on the last press."""

    type: Literal["click"] = "click"
    button: MouseButton = "left"
    count: _Whole = Field(default=1, ge=1, le=3)
    modifiers: list[Modifier] = []
    hold_ms: _Whole = Field(default=0, ge=0, le=MAX_HOLD_MS)


class Move(_AtOptionalPoint):
    """Move the pointer to a point or an element."""

    type: Literal["move"] = "move"
    modifiers: list[Modifier] = []

    @model_validator(mode="after")
    def _point_or_ref(self) -> Move:
        if self.x is None and self.ref is None:
            raise ValueError("give either x and y or a ref")
        return self


class MouseDown(_AtOptionalPoint):
    """Press a mouse button and leave it down."""

    type: Literal["mouse_down"] = "mouse_down"
    button: MouseButton = "left"


class MouseUp(_AtOptionalPoint):
    """Release a mouse button."""

    type: Literal["mouse_up"] = "mouse_up"
    button: MouseButton = "left"


class Drag(_Action):
    """Press at the first point, move through the path and release at the last point.

    The first point may be null: the current cursor.
    """

    type: Literal["drag"] = "drag"
    path: list[Point | None] = Field(min_length=2, max_length=1000)
    button: MouseButton = "left"
    modifiers: list[Modifier] = []

    @model_validator(mode="after")
    def _only_the_first_may_be_missing(self) -> Drag:
        if None in self.path[1:]:
            raise ValueError("path: only its first point may be missing")
        return self

    @property
    def points(self) -> list[Point]:
        """The points of the path, without a missing first one."""
        return [point for point in self.path if point is not None]


class Scroll(_AtOptionalPoint):
    """Turn the wheel over a point by (dx, dy) pixels; positive is right and down."""

    type: Literal["scroll"] = "scroll"
    dx: _Number = Field(default=0, ge=-MAX_SCROLL_PX, le=MAX_SCROLL_PX)
    dy: _Number = Field(default=0, ge=-MAX_SCROLL_PX, le=MAX_SCROLL_PX)
    modifiers: list[Modifier] = []


class Type(_AtOptionalPoint):
    """Type text into the focused element; with a point or a ref, click there first.

    Given a ref, the text goes behind what is in the field, and what takes no keys (a select, a
    slider, a date) is set as `SetValue` does.
    """

    type: Literal["type"] = "type"
    text: str = Field(max_length=MAX_TEXT_LENGTH)
    clear_first: bool = False
    press_enter: bool = False


class Key(_Action):
    """Press chords one after another; the keys of one chord are held together.

    Key names are those of `keys.normalize_key`: aliases in any case are accepted.
    """

    type: Literal["key"] = "key"
    chords: list[Annotated[list[str], Field(min_length=1, max_length=8)]] = Field(
        min_length=1, max_length=100
    )
    repeat: _Whole = Field(default=1, ge=1, le=100)


class HoldKey(_Action):
    """Hold keys together for `duration_ms`."""

    type: Literal["hold_key"] = "hold_key"
    keys: list[str] = Field(min_length=1, max_length=8)
    duration_ms: _Whole = Field(ge=0, le=MAX_HOLD_MS)


class Wait(_Action):
    """Let `ms` milliseconds pass."""

    type: Literal["wait"] = "wait"
    ms: _Whole = Field(ge=0, le=MAX_WAIT_MS)


class Navigate(_Action):
    """Go to a URL in the active tab; without a scheme, https:// is assumed."""

    type: Literal["navigate"] = "navigate"
    url: str = Field(min_length=1)


class GoBack(_Action):
    """Go one step back in the active tab's history."""

    type: Literal["go_back"] = "go_back"


class GoForward(_Action):
    """Go one step forward in the active tab's history."""

    type: Literal["go_forward"] = "go_forward"


class Reload(_Action):
    """Reload the active tab."""

    type: Literal["reload"] = "reload"


class NewTab(_Action):
    """Open a tab and make it active."""

    type: Literal["new_tab"] = "new_tab"
    url: str | None = None


class SwitchTab(_Action):
    """Make a tab active, by its position or by its id."""

    type: Literal["switch_tab"] = "switch_tab"
    index: _Whole | None = Field(default=None, ge=0, le=MAX_TAB_INDEX)
    tab_id: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> SwitchTab:
        if (self.index is None) == (self.tab_id is None):
            raise ValueError("give exactly one of index and tab_id")
        return self


class CloseTab(_Action):
    """Close a tab (the active one by default) and return to its opener."""

    type: Literal["close_tab"] = "close_tab"
    tab_id: str | None = None


class ListTabs(_Action):
    """Tell which tabs are open."""

    type: Literal["list_tabs"] = "list_tabs"


class CursorPosition(_Action):
    """Tell where the pointer is."""

    type: Literal["cursor_position"] = "cursor_position"


Action = Annotated[
    Screenshot
    | Zoom
    | PageText
    | Find
    | ListElements
    | ScrollTo
    | SetValue
    | Click
    | Move
    | MouseDown
    | MouseUp
    | Drag
    | Scroll
    | Type
    | Key
    | HoldKey
    | Wait
    | Navigate
    | GoBack
    | GoForward
    | Reload
    | NewTab
    | SwitchTab
    | CloseTab
    | ListTabs
    | CursorPosition,
    Field(discriminator="type"),
]

ACTION_MODELS: dict[str, type[BaseModel]] = {
    model.model_fields["type"].default: model for model in get_args(get_args(Action)[0])
}

_action_adapter: TypeAdapter[Action] = TypeAdapter(Action)


def parse_action(data: dict[str, Any]) -> Action:
    """Validate one canonical action.

    Raises:
        pydantic.ValidationError: unknown type, or a field missing, unknown or out of bounds.
    """
    return _action_adapter.validate_python(data)
