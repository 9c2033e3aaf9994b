"""Members of Anthropic's browser toolset to canonical actions and back."""

from typing import Any

from responses_api_models.anthropic_model import computer_actions as computer
from responses_api_models.anthropic_model.errors import Untranslatable
from responses_api_models.anthropic_model.fields import (
    check_fields,
    milliseconds,
    pair,
    region,
    seconds,
    sent_region,
    text,
)
from responses_api_models.anthropic_model.images import Frame
from responses_api_models.anthropic_model.keys import parse_modifiers, write_modifiers

Json = dict[str, Any]

DEFAULT_SCROLL_AMOUNT = 3
# Results of these hold the state of the tabs instead of text and images.
TAB_MEMBERS = frozenset(("new_tab", "list_tabs", "switch_tab", "close_tab"))
HISTORY = {"back": "go_back", "forward": "go_forward", "reload": "reload"}
_HISTORY_URLS = {name: url for url, name in HISTORY.items()}

# Fields of each member beside `tab_id`: required, optional.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(computer.CLICKS, ({"target"}, {"modifiers"})),
    **dict.fromkeys(("screenshot", "get_page_text", "new_tab", "list_tabs"), (set(), set())),
    **dict.fromkeys(
        ("hover", "mouse_move", "left_mouse_down", "left_mouse_up"), ({"target"}, set())
    ),
    "navigate": ({"url"}, set()),
    "zoom": ({"region"}, set()),
    "left_click_drag": ({"from", "target"}, set()),
    "scroll": ({"target", "scroll_direction"}, {"scroll_amount"}),
    "type": ({"text"}, set()),
    "key": ({"text"}, {"repeat"}),
    "hold_key": ({"text", "duration"}, set()),
    "scroll_to": ({"target"}, set()),
    "form_input": ({"target", "value"}, set()),
    "read_page": (set(), {"filter", "depth", "ref"}),
    "find": ({"query"}, set()),
    "wait": ({"duration"}, set()),
    "switch_tab": (set(), set()),
    "close_tab": (set(), set()),
}


def decode(member: str, fields: Json, frame: Frame) -> Json:
    """Return the canonical action of a member's call; `tab_id` is the caller's to see to.

    A target that is an element gives `ref` in place of `x` and `y`.

    Raises:
        Untranslatable: The member is unknown, or a field is missing, unknown or unusable.
    """
    if member not in FIELDS:
        raise Untranslatable("this browser has no such tool")
    fields = {name: value for name, value in fields.items() if value is not None}
    tab_id = fields.pop("tab_id", None)
    check_fields(fields, *FIELDS[member])
    match member:
        case "screenshot" | "new_tab" | "list_tabs":
            return {"type": member}
        case "get_page_text":
            return {"type": "page_text"}
        case "read_page":
            return {"type": "list_elements"}
        case "find":
            return {"type": "find", "query": text(fields, "query")}
        case "switch_tab" | "close_tab":
            if tab_id is None:
                raise Untranslatable("'tab_id' is missing")
            return {"type": member, "tab_id": text({"tab_id": tab_id}, "tab_id")}
        case "navigate":
            url = text(fields, "url")
            return {"type": HISTORY[url]} if url in HISTORY else {"type": "navigate", "url": url}
        case "zoom":
            return {"type": "zoom", "region": region(fields, frame)}
        case "hover" | "mouse_move":
            return {"type": "move"} | _target(fields, "target", frame)
        case "left_mouse_down" | "left_mouse_up":
            place = _target(fields, "target", frame)
            return {"type": member.removeprefix("left_"), "button": "left"} | place
        case "left_click_drag":
            return {"type": "drag", "path": [_target(fields, n, frame) for n in ("from", "target")]}
        case "scroll":
            fields = {"scroll_amount": DEFAULT_SCROLL_AMOUNT} | fields
            return {"type": "scroll"} | computer.scrolled(fields) | _target(fields, "target", frame)
        case "scroll_to":
            place = _target(fields, "target", frame)
            if "ref" not in place:
                raise Untranslatable("'target' must be of type 'ref'")
            return {"type": "scroll_to"} | place
        case "type":
            return {"type": "type", "text": text(fields, "text")}
        case "key":
            return computer.decode_key(fields)
        case "hold_key":
            return computer.decode_hold_key(fields)
        case "form_input":
            place = _target(fields, "target", frame)
            return {"type": "set_value", "value": fields["value"]} | place
        case "wait":
            return {"type": "wait", "ms": milliseconds(fields)}
        case _:
            button, count = computer.CLICKS[member]
            result = {"type": "click", "button": button, "count": count}
            result |= _target(fields, "target", frame)
            if modifiers := parse_modifiers(text({"modifiers": "", **fields}, "modifiers")):
                result["modifiers"] = modifiers
            return result


def encode(action: Json, frame: Frame) -> tuple[str, Json]:
    """Return the member and the input that do what a canonical action does.

    Raises:
        Untranslatable: The browser toolset has nothing like it.
    """
    match action["type"]:
        case "screenshot" | "new_tab" | "list_tabs" as member if action.get("url") is None:
            return member, {}
        case "page_text":
            return "get_page_text", {}
        case "list_elements":
            return "read_page", {"filter": "interactive"}
        case "find":
            return "find", {"query": action["query"]}
        case "switch_tab" | "close_tab" as member if action.get("tab_id") is not None:
            return member, {"tab_id": action["tab_id"]}
        case "navigate":
            return "navigate", {"url": action["url"]}
        case "go_back" | "go_forward" | "reload" as name:
            return "navigate", {"url": _HISTORY_URLS[name]}
        case "zoom":
            return "zoom", {"region": sent_region(action["region"], frame)}
        case "move" if not action.get("modifiers"):
            return "mouse_move", {"target": _sent(action, frame)}
        case "mouse_down" | "mouse_up" as name if action.get("button", "left") == "left":
            return f"left_{name}", {"target": _sent(action, frame)}
        case "drag" if len(action["path"]) == 2 and not action.get("modifiers"):
            if action.get("button", "left") != "left" or action["path"][0] is None:
                raise Untranslatable("no such drag")
            first, last = (_sent(point, frame) for point in action["path"])
            return "left_click_drag", {"from": first, "target": last}
        case "scroll" if not action.get("modifiers"):
            return "scroll", {"target": _sent(action, frame)} | computer.notches(action)
        case "scroll_to":
            return "scroll_to", {"target": _sent(action, frame)}
        case "type" if action.get("ref") is None:
            return "type", computer.typed(action)
        case "key":
            return "key", computer.encode_key(action)
        case "hold_key":
            return "hold_key", computer.encode_hold_key(action)
        case "set_value" if action.get("ref") is not None:
            return "form_input", {"target": _sent(action, frame), "value": action["value"]}
        case "wait":
            return "wait", {"duration": seconds(action["ms"])}
        case "click":
            held = {}
            if action.get("modifiers"):
                held = {"modifiers": write_modifiers(action["modifiers"])}
            return computer.click_name(action), {"target": _sent(action, frame)} | held
    raise Untranslatable(f"the browser toolset has no {action['type']!r} like this")


def _target(fields: Json, name: str, frame: Frame) -> Json:
    target = fields[name]
    kind = target.get("type") if isinstance(target, dict) else None
    if kind == "ref":
        return {"ref": text({"ref": None, **target}, "ref")}
    if kind == "coordinate":
        return pair([target.get("x"), target.get("y")], name, frame)
    raise Untranslatable(f"{name!r} must be a target of type 'coordinate' or 'ref'")


def _sent(action: Json, frame: Frame) -> Json:
    if action.get("ref") is not None:
        return {"type": "ref", "ref": action["ref"]}
    if action.get("x") is None:
        raise Untranslatable("the browser toolset needs a target")
    x, y = frame.to_sent(action["x"], action["y"])
    return {"type": "coordinate", "x": x, "y": y}
