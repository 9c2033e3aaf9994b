"""Actions of Anthropic's computer tools, all versions, to canonical actions and back.

A canonical action is a dictionary with `type` and the fields of that action: CSS px, positive dx
and dy to the right and down, milliseconds. What is absent means the pointer's place.
"""

from typing import Any

from responses_api_models.anthropic_model.errors import Untranslatable
from responses_api_models.anthropic_model.fields import (
    check_fields,
    milliseconds,
    pair,
    region,
    seconds,
    sent_region,
    text,
    whole,
)
from responses_api_models.anthropic_model.images import Frame
from responses_api_models.anthropic_model.keys import (
    parse_chord,
    parse_chords,
    parse_modifiers,
    write_chords,
    write_modifiers,
)

Json = dict[str, Any]

NOTCH_PX = 100
CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
CLICK_NAMES = {fields: name for name, fields in CLICKS.items()}
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
PLAIN = ("screenshot", "cursor_position")

# Fields of each action: required, optional.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(CLICKS, (set[str](), {"coordinate", "text", "key"})),
    **dict.fromkeys(("screenshot", "cursor_position"), (set(), set())),
    **dict.fromkeys(("left_mouse_down", "left_mouse_up"), (set(), {"coordinate"})),
    "left_click_drag": ({"coordinate"}, {"start_coordinate", "text", "key"}),
    "mouse_move": ({"coordinate"}, {"text"}),
    "scroll": ({"scroll_direction", "scroll_amount"}, {"coordinate", "text", "key"}),
    "type": ({"text"}, set()),
    "key": ({"text"}, {"repeat"}),
    "hold_key": ({"text", "duration"}, set()),
    "wait": ({"duration"}, set()),
    "zoom": ({"region"}, set()),
}


def decode(action: str, fields: Json, frame: Frame) -> Json:
    """Return the canonical action of a native one.

    Args:
        action: Its name.
        fields: Its input, without the name.
        frame: The viewport and what was sent of it.

    Raises:
        Untranslatable: The action is unknown, or a field is missing, unknown or unusable.
    """
    if action not in FIELDS:
        raise Untranslatable("there is no such action")
    check_fields(fields, *FIELDS[action])
    fields = {name: value for name, value in fields.items() if value is not None}
    held = fields.get("text", fields.get("key"))  # models write modifiers under either name
    match action:
        case "screenshot" | "cursor_position":
            return {"type": action}
        case "left_mouse_down" | "left_mouse_up":
            return {"type": action.removeprefix("left_"), "button": "left"} | _place(fields, frame)
        case "mouse_move":
            result = {"type": "move"} | _place(fields, frame)
        case "left_click_drag":
            start = fields.get("start_coordinate")
            first = None if start is None else pair(start, "start_coordinate", frame)
            path = [first, pair(fields["coordinate"], "coordinate", frame)]
            result = {"type": "drag", "path": path}
        case "scroll":
            result = {"type": "scroll"} | scrolled(fields) | _place(fields, frame)
        case "type":
            return {"type": "type", "text": text(fields, "text")}
        case "key":
            return decode_key(fields)
        case "hold_key":
            return decode_hold_key(fields)
        case "wait":
            return {"type": "wait", "ms": milliseconds(fields)}
        case "zoom":
            return {"type": "zoom", "region": region(fields, frame)}
        case _:
            button, count = CLICKS[action]
            result = {"type": "click", "button": button, "count": count} | _place(fields, frame)
    if held is not None and (modifiers := parse_modifiers(text({"text": held}, "text"))):
        result["modifiers"] = modifiers
    return result


def encode(action: Json, frame: Frame) -> tuple[str, Json]:
    """Return the name and the input of the native action that does what a canonical one does.

    Raises:
        Untranslatable: The computer tools have no such action.
    """
    at = {}
    if action.get("x") is not None:
        at = {"coordinate": list(frame.to_sent(action["x"], action["y"]))}
    held = {}
    if action.get("modifiers"):
        held = {"text": write_modifiers(action["modifiers"])}
    match action["type"]:
        case "screenshot" | "cursor_position" as name:
            return name, {}
        case "click":
            return click_name(action), at | held
        case "move":
            return "mouse_move", at | held
        case "mouse_down" | "mouse_up" as name if action.get("button", "left") == "left":
            return f"left_{name}", at
        case "drag" if action.get("button", "left") == "left" and len(action["path"]) == 2:
            first, last = action["path"]
            end = {"coordinate": list(frame.to_sent(last["x"], last["y"]))}
            if first is None:
                return "left_click_drag", end | held
            start = {"start_coordinate": list(frame.to_sent(first["x"], first["y"]))}
            return "left_click_drag", start | end | held
        case "scroll":
            return "scroll", notches(action) | at | held
        case "type":
            return "type", typed(action)
        case "key":
            return "key", encode_key(action)
        case "hold_key":
            return "hold_key", encode_hold_key(action)
        case "wait":
            return "wait", {"duration": seconds(action["ms"])}
        case "zoom":
            return "zoom", {"region": sent_region(action["region"], frame)}
    raise Untranslatable(f"the computer tool has no {action['type']!r} like this")


# What the browser tools have in common with the computer tools ----------------------------------


def click_name(action: Json) -> str:
    """Return the native name of a canonical click."""
    name = CLICK_NAMES.get((action.get("button", "left"), action.get("count", 1)))
    if name is None or action.get("hold_ms"):
        raise Untranslatable("no such click")
    return name


def scrolled(fields: Json) -> Json:
    """Return dx and dy in px of a direction and an amount in notches."""
    direction = fields["scroll_direction"]
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise Untranslatable(
            f"'scroll_direction' must be up, down, left or right, not {direction!r:.100}"
        )
    x, y = DIRECTIONS[direction]
    distance = whole(fields, "scroll_amount") * NOTCH_PX
    return {"dx": x * distance, "dy": y * distance}


def notches(action: Json) -> Json:
    """Return direction and amount in notches of a canonical scroll."""
    dx, dy = action.get("dx", 0), action.get("dy", 0)
    if dx and dy:
        raise Untranslatable("the tools scroll in one direction at a time")
    direction = ("right" if dx > 0 else "left") if dx else ("up" if dy < 0 else "down")
    distance = abs(dx or dy)
    return {
        "scroll_direction": direction,
        "scroll_amount": max(1, round(distance / NOTCH_PX)) if distance else 0,
    }


def typed(action: Json) -> Json:
    """Return the input of a canonical `type`."""
    if action.get("x") is not None or action.get("clear_first") or action.get("press_enter"):
        raise Untranslatable("the tools only type")
    return {"text": action["text"]}


def decode_key(fields: Json) -> Json:
    """Return the canonical `key` of a native one."""
    result: Json = {"type": "key", "chords": parse_chords(text(fields, "text"))}
    if "repeat" in fields:
        result["repeat"] = whole(fields, "repeat")
    return result


def encode_key(action: Json) -> Json:
    """Return the input of a canonical `key`."""
    result: Json = {"text": write_chords(action["chords"])}
    if action.get("repeat") is not None:
        result["repeat"] = action["repeat"]
    return result


def decode_hold_key(fields: Json) -> Json:
    """Return the canonical `hold_key` of a native one."""
    keys = parse_chord(text(fields, "text").strip() or text(fields, "text"))
    if not keys:
        raise Untranslatable("'text' names no key")
    return {"type": "hold_key", "keys": keys, "duration_ms": milliseconds(fields)}


def encode_hold_key(action: Json) -> Json:
    """Return the input of a canonical `hold_key`."""
    return {"text": "+".join(action["keys"]), "duration": seconds(action["duration_ms"])}


def _place(fields: Json, frame: Frame) -> Json:
    if "coordinate" not in fields:
        return {}
    return pair(fields["coordinate"], "coordinate", frame)
