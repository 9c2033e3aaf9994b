"""The demo tasks' solutions, as a Gemini model of the current function set would give them.

The solutions hold the standard actions in pixels; a model answers in predefined functions, on the
grid of 1000 by 1000 that it sees.
"""

from collections.abc import Mapping
from typing import Any

from tests.simulators.gemini_scripts import Json, Policy, SimTurn, call, text
from tests.simulators.solutions import turns_for

WIDTH, HEIGHT = 1280, 720
GRID = 1000
LONGEST_SCROLL_PX = 999


def solve(solutions: Mapping[str, Json]) -> Policy:
    """Follow the solution of the task whose prompt the first content holds."""

    def policy(turn: SimTurn) -> list[Json]:
        parts = turn.body["contents"][0]["parts"]
        said = "\n".join(part.get("text", "") for part in parts)
        turns = turns_for(solutions, said)
        if turn.number >= len(turns):
            return [text("The solution has ended.")]
        return turn_parts(turns[turn.number])

    return policy


def turn_parts(turn: Json) -> list[Json]:
    """Return one turn of a solution as parts."""
    parts = [text(turn[name]) for name in ("message", "answer") if turn.get(name)]
    for action in turn.get("actions", []):
        parts += native_calls(action)
    if function := turn.get("function"):
        parts.append(call(function["name"], **function["arguments"]))
    return parts


def native_calls(action: Json) -> list[Json]:
    """Return the calls that do what a standard action does."""
    match action["type"]:
        case "click":
            name = {"left": "click", "right": "right_click", "wheel": "middle_click"}
            return [call(name[action["button"]], **grid(action), intent="Click it.")]
        case "double_click" | "move":
            return [call(action["type"], **grid(action), intent="Point at it.")]
        case "drag":
            return _drag([grid(point) for point in action["path"]])
        case "scroll":
            return _scroll(action)
        case "type":
            return [call("type", text=action["text"], intent="Fill it in.")]
        case "keypress":
            keys = action["keys"]
            return [call("press_key", key=keys[0]) if len(keys) == 1 else call("hotkey", keys=keys)]
        case "screenshot":
            return [call("take_screenshot", intent="Look.")]
    raise ValueError(f"no solution uses {action['type']!r} actions")


def grid(point: Json) -> Json:
    """Return the grid field whose pixel is nearest to a point."""
    return {"x": _nearest(point["x"], WIDTH), "y": _nearest(point["y"], HEIGHT)}


def _nearest(px: int, size: int) -> int:
    below = px * GRID // size
    return min((below, below + 1), key=lambda value: abs(value * size // GRID - px))


def _drag(path: list[Json]) -> list[Json]:
    if len(path) == 2:
        start, end = path
        names: dict[str, Any] = {f"start_{name}": value for name, value in start.items()}
        return [call("drag_and_drop", **names, **{f"end_{n}": v for n, v in end.items()})]
    first, *between, last = path
    moves = [call("move", **point) for point in [*between, last]]
    return [call("mouse_down", **first), *moves, call("mouse_up", **last)]


def _scroll(action: Json) -> list[Json]:
    dx, dy = action["scroll_x"], action["scroll_y"]
    direction = ("right" if dx > 0 else "left") if dx else ("down" if dy > 0 else "up")
    left, calls = abs(dx or dy), []
    while left > 0:
        amount = min(left, LONGEST_SCROLL_PX)
        fields = {"direction": direction, "magnitude_in_pixels": amount}
        calls.append(call("scroll", **grid(action), **fields))
        left -= amount
    return calls
