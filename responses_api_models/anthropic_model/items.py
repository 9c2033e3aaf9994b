"""Canonical actions to call items of the Responses format, and back.

The standard actions go as a `computer_call`, exactly or not at all: integer px and no field that
the standard action lacks. All else goes as a `function_call` named after the canonical action.
"""

import json
from typing import Any

from responses_api_models.anthropic_model.errors import Untranslatable
from responses_api_models.anthropic_model.keys import is_modifier, parse_modifiers

Json = dict[str, Any]

# OpenAI's `wait` has no duration; its own sample loop sleeps two seconds.
STANDARD_WAIT_MS = 2000
_BUTTONS = {"left": "left", "right": "right", "middle": "wheel"}
_CANONICAL_BUTTONS = {name: button for button, name in _BUTTONS.items()}
_CANONICAL_BUTTONS |= {name: name for name in ("middle", "back", "forward")}
_KEYS = {"Control": "CTRL", "Shift": "SHIFT", "Alt": "ALT", "Meta": "META"}

CANONICAL_NAMES = {
    *("click", "move", "mouse_down", "mouse_up", "drag", "scroll", "type", "key", "hold_key"),
    *("wait", "navigate", "go_back", "go_forward", "reload", "new_tab", "switch_tab"),
    *("close_tab", "list_tabs", "cursor_position", "screenshot", "zoom", "page_text", "find"),
    *("list_elements", "scroll_to", "set_value"),
}


def call_item(action: Json, call_id: str, native: Json, *, cut_off: bool) -> Json:
    """Return the item of a canonical action.

    Args:
        action: The canonical action.
        call_id: The call's id.
        native: The untouched `tool_use` block.
        cut_off: Whether the reply ended inside the call, which then must not be run.
    """
    standard = None if cut_off else _standard(action)
    if standard is None:
        fields = {name: value for name, value in action.items() if name != "type"}
        return function_item(action["type"], fields, call_id, cut_off=cut_off)
    return {
        "type": "computer_call",
        "id": f"cu_{call_id}",
        "call_id": call_id,
        "action": standard,
        "pending_safety_checks": [],
        "status": "completed",
        "native": native,
    }


def function_item(name: str, arguments: Any, call_id: str, *, cut_off: bool) -> Json:
    """Return a `function_call` item."""
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments, ensure_ascii=False),
        "status": "incomplete" if cut_off else "completed",
    }


def _standard(action: Json) -> Json | None:
    """Return the standard action that says exactly the same, if there is one."""
    rest = {name: value for name, value in action.items() if name not in ("type", "modifiers")}
    keys = [_KEYS[name] for name in action.get("modifiers", ())]
    held = {"keys": keys} if keys else {}
    match action:
        case {"type": "screenshot"}:
            return {"type": "screenshot"}
        case {"type": "type", "text": text} if len(rest) == 1:
            return {"type": "type", "text": text}
        case {"type": "click", "x": int(x), "y": int(y), "count": 1, "button": button}:
            return {"type": "click", "button": _BUTTONS[button], "x": x, "y": y} | held
        case {"type": "click", "x": int(x), "y": int(y), "count": 2, "button": "left"}:
            return {"type": "double_click", "x": x, "y": y} | held
        case {"type": "move", "x": int(x), "y": int(y)}:
            return {"type": "move", "x": x, "y": y} | held
        case {"type": "scroll", "x": int(x), "y": int(y), "dx": int(dx), "dy": int(dy)}:
            return {"type": "scroll", "x": x, "y": y, "scroll_x": dx, "scroll_y": dy} | held
        case {"type": "drag", "path": path} if all(_is_whole(point) for point in path):
            return {"type": "drag", "path": path} | held
        case {"type": "key", "chords": [chord]} if len(rest) == 1 and _is_keypress(chord):
            return {"type": "keypress", "keys": chord}
    return None


def _is_whole(point: Any) -> bool:
    return isinstance(point, dict) and all(isinstance(value, int) for value in point.values())


def _is_keypress(chord: list[str]) -> bool:
    """Say whether a chord is modifiers and one key; other keys are pressed in turn there."""
    return all(map(is_modifier, chord[:-1])) and not is_modifier(chord[-1])


def canonical_actions(item: Json) -> list[Json]:
    """Return the canonical actions of a call item, whoever made it; mostly one.

    Raises:
        Untranslatable: It has none that is known.
    """
    if item["type"] == "function_call":
        if item["name"] not in CANONICAL_NAMES:
            raise Untranslatable(f"{item['name']!r} is no action")
        return [{**arguments_of(item), "type": item["name"]}]
    actions = item.get("actions") or [item.get("action")]
    return [_canonical(action) for action in actions if isinstance(action, dict)]


def arguments_of(item: Json) -> Json:
    """Return the arguments of a `function_call`; those that are no JSON object, under `raw`."""
    try:
        arguments = json.loads(item.get("arguments") or "{}")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"raw": item["arguments"]}


def _canonical(action: Json) -> Json:
    kind = action.get("type")
    result: Json = {name: action[name] for name in ("x", "y", "path", "text") if name in action}
    match kind:
        case "click":
            button = _CANONICAL_BUTTONS.get(action.get("button", "left"))
            result |= {"type": "click", "button": button, "count": 1}
        case "double_click":
            result |= {"type": "click", "button": "left", "count": 2}
        case "scroll":
            dx, dy = action.get("scroll_x", 0), action.get("scroll_y", 0)
            result |= {"type": "scroll", "dx": dx, "dy": dy}
        case "keypress":
            return {"type": "key", "chords": [list(action["keys"])]}
        case "wait":
            return {"type": "wait", "ms": STANDARD_WAIT_MS}
        case "drag" | "move" | "screenshot" | "type":
            result |= {"type": kind}
        case _:
            raise Untranslatable(f"{kind!r} is no action")
    if action.get("keys"):
        result["modifiers"] = parse_modifiers("+".join(action["keys"]))
    return result
