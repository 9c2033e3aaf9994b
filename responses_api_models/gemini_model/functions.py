"""Which predefined functions a Gemini model has, and the grid its coordinates are on."""

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

type FunctionSet = Literal["current", "legacy"]

CURRENT_FUNCTIONS = frozenset(
    {
        "click",
        "double_click",
        "triple_click",
        "middle_click",
        "right_click",
        "mouse_down",
        "mouse_up",
        "move",
        "type",
        "drag_and_drop",
        "wait",
        "press_key",
        "key_down",
        "key_up",
        "hotkey",
        "take_screenshot",
        "scroll",
        "go_back",
        "go_forward",
        "navigate",
    }
)
LEGACY_FUNCTIONS = frozenset(
    {
        "open_web_browser",
        "wait_5_seconds",
        "go_back",
        "go_forward",
        "search",
        "navigate",
        "click_at",
        "hover_at",
        "type_text_at",
        "key_combination",
        "scroll_document",
        "scroll_at",
        "drag_and_drop",
    }
)
FUNCTIONS: dict[FunctionSet, frozenset[str]] = {
    "current": CURRENT_FUNCTIONS,
    "legacy": LEGACY_FUNCTIONS,
}
PREDEFINED = CURRENT_FUNCTIONS | LEGACY_FUNCTIONS

GRID = 1000
# No distance or time is larger. Beyond some size numbers overflow in calculations and JSON.
LARGEST = 1e9
_FIRST_CURRENT_VERSION = (3, 5)
# From Gemini 3 on thinking has levels instead of a budget, and calls need their signatures.
FIRST_SIGNING_VERSION = (3, 0)


def model_version(model: str) -> tuple[int, int]:
    """Return a model's version; a name that tells none counts as newer than any."""
    match = re.search(r"\bgemini-(\d+)(?:\.(\d+))?", model)
    return (int(match[1]), int(match[2] or 0)) if match else (999, 0)


def function_set_of(model: str) -> FunctionSet:
    """Return the set of predefined functions a model was trained with."""
    return "current" if model_version(model) >= _FIRST_CURRENT_VERSION else "legacy"


def is_number(value: Any) -> bool:
    """Say whether a value is a number; one beyond all sense, such as 1e308, is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


@dataclass(frozen=True)
class Viewport:
    """The part of the page a screenshot shows, in CSS pixels.

    The model sees it as a grid of 1000 by 1000 fields, numbered from 0 to 999.
    """

    width: int
    height: int

    def x_px(self, value: Any) -> Any:
        """Return a grid column in pixels. What is no number stays: the agent names it."""
        return _to_px(value, self.width)

    def y_px(self, value: Any) -> Any:
        """Return a grid row in pixels. What is no number stays: the agent names it."""
        return _to_px(value, self.height)

    def x_grid(self, px: int) -> int:
        """Return the first grid column that decodes to a pixel, or to the next one if none does."""
        return _to_grid(px, self.width)

    def y_grid(self, px: int) -> int:
        """Return the first grid row that decodes to a pixel, or to the next one if none does."""
        return _to_grid(px, self.height)


def _to_px(value: Any, size: int) -> Any:
    # Google's code cuts off the fraction. It divides first; multiplying first keeps whole results
    # whole (575 of 1000 pixels is 575, not 574). Below the grid stays below the viewport.
    return math.floor(value * size / GRID) if is_number(value) else value


def _to_grid(px: int, size: int) -> int:
    return min(GRID - 1, math.ceil(px * GRID / size))
