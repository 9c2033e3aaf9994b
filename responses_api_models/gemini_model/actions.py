"""Gemini's predefined functions and the actions they stand for, both ways.

`decode` reads a call of either function set, `encode` writes one of a given set. An argument that
makes no sense is passed on as it is, so that whoever runs the action can name it to the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from responses_api_models.gemini_model.functions import FunctionSet, Viewport, is_number

Json = dict[str, Any]

DEFAULT_WAIT_S = 1
LEGACY_WAIT_MS = 5000
DEFAULT_SCROLL_PX = 300
DEFAULT_SCROLL_GRID = 800
# `scroll_document` has no amount: most of a screen, so that what was read last stays in view.
DOCUMENT_SCROLL_GRID = 800
CENTRE_GRID = 500

_SIGNS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


@dataclass(frozen=True)
class Defaults:
    """What a call means that leaves something out.

    Attributes:
        press_enter: Whether `type_text_at` presses Enter unless it says otherwise.
        search_url: Where `search` goes.
    """

    press_enter: bool = True
    search_url: str = "https://www.google.com/"


@dataclass(frozen=True)
class Action:
    """What a call asks for.

    Attributes:
        kind: `computer` for a standard action of the Responses API, `function` for any other.
        name: The action's type or the function's name.
        fields: The action's other fields, or the function's arguments.
    """

    kind: Literal["computer", "function"]
    name: str
    fields: Json


def decode(name: str, args: Mapping[str, Any], view: Viewport, defaults: Defaults) -> Action:
    """Return the action of a call of a predefined function.

    Args:
        name: The function, of either set. An unknown one becomes a function of that name.
        args: Its arguments, coordinates on the grid.
        view: The viewport that the grid covers.
        defaults: What missing arguments mean where the documentation leaves a choice.

    Returns:
        The action, coordinates in whole CSS pixels.
    """
    point = _given(x=view.x_px(args.get("x")), y=view.y_px(args.get("y")))
    match name:
        case "click" | "click_at":
            return _pointed("click", point, button="left")
        case "right_click":
            return _pointed("click", point, button="right")
        case "middle_click":
            if _is_point(point):
                return Action("computer", "click", {**point, "button": "wheel"})
            return Action("function", "click", {**point, "button": "middle"})
        case "double_click":
            if _is_point(point):
                return Action("computer", "double_click", point)
            return Action("function", "click", {**point, "button": "left", "count": 2})
        case "triple_click":
            return Action("function", "click", {**point, "button": "left", "count": 3})
        case "mouse_down" | "mouse_up":
            return Action("function", name, {**point, "button": "left"})
        case "move" | "hover_at":
            return _pointed("move", point)
        case "drag_and_drop":
            return _decode_drag(args, view)
        case "scroll":
            return _decode_scroll(args, point, _scroll_px(args, view))
        case "scroll_at":
            amounts = _grid_amounts(args.get("magnitude", DEFAULT_SCROLL_GRID), view)
            return _decode_scroll(args, point, amounts)
        case "scroll_document":
            centre = {"x": view.x_px(CENTRE_GRID), "y": view.y_px(CENTRE_GRID)}
            return _decode_scroll(args, centre, _grid_amounts(DOCUMENT_SCROLL_GRID, view))
        case "type":
            return _decode_type(args)
        case "type_text_at":
            fields = {
                **point,
                **_given(text=args.get("text")),
                "clear_first": args.get("clear_before_typing", True),
                "press_enter": args.get("press_enter", defaults.press_enter),
            }
            return Action("function", "type", fields)
        case "press_key":
            return _decode_keys(args.get("key"))
        case "hotkey" | "key_combination":
            return _decode_keys(args.get("keys"))
        case "key_down" | "key_up":
            return Action("function", name, _given(key=args.get("key")))
        case "wait":
            seconds = args.get("seconds", DEFAULT_WAIT_S)
            ms = round(seconds * 1000) if is_number(seconds) else seconds
            return Action("function", "wait", {"ms": ms})
        case "wait_5_seconds":
            return Action("function", "wait", {"ms": LEGACY_WAIT_MS})
        case "take_screenshot" | "open_web_browser":
            return Action("computer", "screenshot", {})
        case "navigate":
            return Action("function", "navigate", _given(url=args.get("url")))
        case "search":
            return Action("function", "navigate", {"url": defaults.search_url})
        case "go_back" | "go_forward":
            return Action("function", name, {})
        case _:
            return Action("function", name, dict(args))


def encode(action: Action, view: Viewport, functions: FunctionSet) -> tuple[str, Json] | None:
    """Return the call of a predefined function that asks for an action.

    Args:
        action: What to ask for, coordinates in whole CSS pixels.
        view: The viewport that the grid covers.
        functions: The set to choose from.

    Returns:
        The function and its arguments, with no argument left to a default; None if the set has
        no function for the action.
    """
    legacy = functions == "legacy"
    fields = action.fields
    point = _grid_point(fields, view)
    match action.kind, action.name:
        case "computer", "click":
            named = {"left": "click", "right": "right_click", "wheel": "middle_click"}
            name = named.get(fields.get("button", "left"))
            if legacy:
                name = "click_at" if name == "click" else None
            return (name, point) if name and point else None
        case "computer", "double_click":
            return None if legacy or not point else ("double_click", point)
        case "function", "click":
            return (
                None if legacy or not point or fields.get("count") != 3 else ("triple_click", point)
            )
        case "function", "mouse_down" | "mouse_up":
            return None if legacy or not point else (action.name, point)
        case "computer", "move":
            return ("hover_at" if legacy else "move", point) if point else None
        case "computer", "drag":
            return _encode_drag(fields["path"], view, legacy)
        case "computer", "scroll":
            return _encode_scroll(fields, point, view, legacy)
        case "computer", "type":
            return None if legacy else ("type", {"text": fields["text"], "press_enter": False})
        case "function", "type":
            return _encode_type(fields, point, legacy)
        case "computer", "keypress":
            return _encode_keys(fields["keys"], legacy)
        case "function", "key_down" | "key_up":
            return None if legacy else (action.name, dict(fields))
        case "function", "wait":
            return _encode_wait(fields.get("ms"), legacy)
        case "computer", "screenshot":
            return ("open_web_browser" if legacy else "take_screenshot"), {}
        case "function", "navigate" | "go_back" | "go_forward":
            return action.name, dict(fields)
    return None


def _given(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _is_point(fields: Mapping[str, Any]) -> bool:
    values = fields.get("x"), fields.get("y")
    return all(isinstance(value, int) and is_number(value) for value in values)


def _pointed(name: str, point: Json, **fields: Any) -> Action:
    """Return a standard action, or a function where a coordinate is missing or no number."""
    return Action("computer" if _is_point(point) else "function", name, {**point, **fields})


def _decode_drag(args: Mapping[str, Any], view: Viewport) -> Action:
    # The documentation of the current functions has the first pair of names; that of the legacy
    # ones, and Google's sample for both, the second.
    def first(*names: str) -> Any:
        return next((args[name] for name in names if args.get(name) is not None), None)

    path = [
        _given(x=view.x_px(first("start_x", "x")), y=view.y_px(first("start_y", "y"))),
        _given(
            x=view.x_px(first("end_x", "destination_x")),
            y=view.y_px(first("end_y", "destination_y")),
        ),
    ]
    standard = all(_is_point(point) for point in path)
    return Action("computer" if standard else "function", "drag", {"path": path})


def _scroll_px(args: Mapping[str, Any], view: Viewport) -> tuple[Any, Any]:
    """Return how far `scroll` goes across and down.

    The documentation says pixels; Google's sample reads `magnitude`, on the grid.
    """
    if "magnitude_in_pixels" not in args and "magnitude" in args:
        return _grid_amounts(args["magnitude"], view)
    amount = args.get("magnitude_in_pixels", DEFAULT_SCROLL_PX)
    return (amount, amount)


def _grid_amounts(magnitude: Any, view: Viewport) -> tuple[Any, Any]:
    return view.x_px(magnitude), view.y_px(magnitude)


def _decode_scroll(args: Mapping[str, Any], point: Json, amounts: tuple[Any, Any]) -> Action:
    direction = args.get("direction")
    signs = _SIGNS.get(direction.lower()) if isinstance(direction, str) else None
    if signs is None or not all(is_number(amount) for amount in amounts):
        return Action("function", "scroll", {**args, **point})
    dx, dy = (sign * round(amount) for sign, amount in zip(signs, amounts, strict=True))
    if _is_point(point):
        return Action("computer", "scroll", {**point, "scroll_x": dx, "scroll_y": dy})
    return Action("function", "scroll", {**point, "dx": dx, "dy": dy})


def _decode_type(args: Mapping[str, Any]) -> Action:
    text, enter = args.get("text"), args.get("press_enter", False)
    if isinstance(text, str) and enter is False:
        return Action("computer", "type", {"text": text})
    return Action("function", "type", {**_given(text=text), "press_enter": enter})


def _decode_keys(keys: Any) -> Action:
    listed = [keys] if isinstance(keys, str) else keys
    if not isinstance(listed, list) or not all(isinstance(key, str) for key in listed):
        return Action("function", "key", {"chords": [keys]})
    return Action(
        "computer", "keypress", {"keys": [part for key in listed for part in _split(key)]}
    )


def _split(key: str) -> list[str]:
    """Return the keys of a combination such as `control+c`; a last plus is the plus key."""
    if len(key) < 2 or "+" not in key:
        return [key]
    plus = key.endswith("+")
    names = [name for name in key.rstrip("+").split("+") if name]
    return [*names, *(["+"] if plus else [])]


def _grid_point(fields: Mapping[str, Any], view: Viewport) -> Json | None:
    if not _is_point(fields):
        return None
    return {"x": view.x_grid(fields["x"]), "y": view.y_grid(fields["y"])}


def _encode_drag(path: list[Json], view: Viewport, legacy: bool) -> tuple[str, Json] | None:
    if len(path) != 2:
        return None
    (start, end) = (_grid_point(point, view) for point in path)
    if start is None or end is None:
        return None
    names = (
        ("x", "y", "destination_x", "destination_y")
        if legacy
        else (
            "start_x",
            "start_y",
            "end_x",
            "end_y",
        )
    )
    values = (start["x"], start["y"], end["x"], end["y"])
    return "drag_and_drop", dict(zip(names, values, strict=True))


def _encode_scroll(
    fields: Json, point: Json | None, view: Viewport, legacy: bool
) -> tuple[str, Json] | None:
    dx, dy = fields.get("scroll_x", 0), fields.get("scroll_y", 0)
    if point is None or (dx and dy):
        return None
    direction = ("right" if dx > 0 else "left") if dx else ("up" if dy < 0 else "down")
    amount = abs(dx or dy)
    if not legacy:
        return "scroll", {**point, "direction": direction, "magnitude_in_pixels": amount}
    magnitude = view.x_grid(amount) if dx else view.y_grid(amount)
    return "scroll_at", {**point, "direction": direction, "magnitude": magnitude}


def _encode_type(fields: Json, point: Json | None, legacy: bool) -> tuple[str, Json] | None:
    enter = bool(fields.get("press_enter"))
    clear = bool(fields.get("clear_first"))
    if legacy and point:
        flags = {"press_enter": enter, "clear_before_typing": clear}
        return "type_text_at", {**point, "text": fields.get("text"), **flags}
    if legacy or point or clear:
        return None
    return "type", {"text": fields.get("text"), "press_enter": enter}


def _encode_keys(keys: list[str], legacy: bool) -> tuple[str, Json]:
    if legacy:
        return "key_combination", {"keys": "+".join(keys)}
    return ("press_key", {"key": keys[0]}) if len(keys) == 1 else ("hotkey", {"keys": keys})


def _encode_wait(ms: Any, legacy: bool) -> tuple[str, Json] | None:
    if legacy:
        return ("wait_5_seconds", {}) if ms == LEGACY_WAIT_MS else None
    if not is_number(ms):
        return None
    return "wait", {"seconds": ms // 1000 if ms % 1000 == 0 else ms / 1000}
