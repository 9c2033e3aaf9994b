"""OpenAI computer actions and our function tools, to canonical actions. Pure functions.

Action fields and units are those of the Responses API's `computer` and `computer_use_preview`
tools; coordinates are pixels of the screenshot sent, which are CSS pixels here.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from resources_servers.browser_gym.actions import ACTION_MODELS, parse_action
from resources_servers.browser_gym.keys import MODIFIERS, UnknownKeyError, normalize_key

# The API's wait action has no duration; OpenAI's own sample loop sleeps two seconds.
WAIT_MS = 2000
_BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "middle": "middle"} | {
    side: side for side in ("back", "forward")
}

_URL = {"type": "string", "description": "An http or https address."}
_INDEX = {"type": "integer", "minimum": 0, "description": "Position in list_tabs, from 0."}
_FUNCTIONS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "navigate": ("Open an address in the active tab.", {"url": _URL}, ["url"]),
    "go_back": ("Go one step back in the active tab's history.", {}, []),
    "go_forward": ("Go one step forward in the active tab's history.", {}, []),
    "reload": ("Reload the active tab.", {}, []),
    "new_tab": ("Open a tab and switch to it.", {"url": _URL}, []),
    "switch_tab": ("Switch to another open tab.", {"index": _INDEX}, ["index"]),
    "close_tab": ("Close the active tab.", {}, []),
    "list_tabs": ("List the open tabs.", {}, []),
}


MAX_REASON_LENGTH = 500


class UnusableCall(ValueError):
    """A call the environment cannot run; the text is for the model.

    What it repeats of the call may have any length, and would be sent again with every request.
    """

    def __init__(self, reason: str) -> None:
        if len(reason) > MAX_REASON_LENGTH:
            reason = reason[:MAX_REASON_LENGTH] + "…"
        super().__init__(reason)


def browser_function_tools(offered: bool | list[str] = True) -> list[dict[str, Any]]:
    """Return the function tools for what a screenshot without an address bar cannot do.

    Args:
        offered: all of them, none, or those named.
    """
    names = offered if isinstance(offered, list) else (_FUNCTIONS if offered else ())
    return [
        {
            "type": "function",
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
            # Optional arguments are not possible in strict mode.
            "strict": False,
        }
        for name, (description, properties, required) in _FUNCTIONS.items()
        if name in names
    ]


def function_to_canonical(name: str, arguments: str) -> dict[str, Any]:
    """Return the canonical action of a call of one of `browser_function_tools`.

    Raises:
        UnusableCall: unknown function or unusable arguments.
    """
    if name not in _FUNCTIONS:
        raise UnusableCall(f"there is no tool named {name!r}; tools are {', '.join(_FUNCTIONS)}")
    return parse_canonical(name, parse_arguments(name, arguments))


def parse_arguments(name: str, arguments: str) -> dict[str, Any]:
    """Return the arguments of a function call, without those that are null.

    Raises:
        UnusableCall: they are no JSON object.
    """
    try:
        # It refuses what the next request could not hold: NaN, half surrogate pairs, great depth.
        fields = orjson.loads(arguments or "{}")
    except ValueError as error:
        raise UnusableCall(f"{name}: the arguments are not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UnusableCall(f"{name}: the arguments are not a JSON object")
    return {key: value for key, value in fields.items() if value is not None}


def parse_canonical(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical action of this type with these fields.

    Raises:
        UnusableCall: there is no such action, or a field is missing, unknown or out of bounds.
    """
    if name not in ACTION_MODELS:
        raise UnusableCall(f"there is no tool named {name!r}")
    return _checked({**fields, "type": name})


def action_to_canonical(action: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical action of one OpenAI computer action.

    An action that NeMo Gym's types cannot carry as it came (fractional coordinates, an unknown
    type) has the provider's own under `native`; that one counts.

    Raises:
        UnusableCall: unknown type, missing field or unknown key.
    """
    action = action.get("native") or action
    if not isinstance(action, dict):
        raise UnusableCall(f"an action is an object, not {action!r:.100}")
    kind = action.get("type")
    try:
        match kind:
            case "click":
                button = _BUTTONS.get(action.get("button", "left"))
                if button is None:
                    raise UnusableCall(f"click: unknown button {action['button']!r}")
                fields = {"type": "click", "button": button, **_point(action)}
            case "double_click":
                fields = {"type": "click", "count": 2, **_point(action)}
            case "drag":
                path = [_point(point) for point in action["path"]]
                fields = {"type": "drag", "path": path}
            case "keypress":
                return _checked({"type": "key", "chords": _chords(action["keys"])})
            case "move":
                fields = {"type": "move", **_point(action)}
            case "scroll":
                fields = {
                    "type": "scroll",
                    **_point(action),
                    "dx": action.get("scroll_x", 0),
                    "dy": action.get("scroll_y", 0),
                }
            case "type":
                return _checked({"type": "type", "text": action["text"]})
            case "wait":
                return {"type": "wait", "ms": WAIT_MS}
            case "screenshot":
                return {"type": "screenshot"}
            case _:
                raise UnusableCall(f"there is no action of type {kind!r}")
        if keys := action.get("keys"):
            fields["modifiers"] = _modifiers(keys)
    except KeyError as error:
        raise UnusableCall(f"{kind}: {error.args[0]!r} is missing") from error
    except UnusableCall:
        raise
    except (UnknownKeyError, TypeError, ValueError, AttributeError) as error:
        raise UnusableCall(f"{kind}: {error}") from error
    return _checked(fields)


def _point(data: dict[str, Any] | list[float]) -> dict[str, Any]:
    """Return a point, which some replies give as a pair."""
    if isinstance(data, list):
        return dict(zip("xy", data, strict=True))
    return {"x": data["x"], "y": data["y"]}


def _modifiers(keys: list[str]) -> list[str]:
    names = [normalize_key(key) for key in _key_list(keys)]
    for name in names:
        if name not in MODIFIERS:
            raise UnusableCall(f"only modifier keys can be held during an action, not {name!r}")
    return names


def _chords(keys: list[str]) -> list[list[str]]:
    """Return the chords of one keypress: modifiers are held, other keys pressed in turn.

    The API calls `keys` a combination: CTRL, A is one chord. Two plain keys cannot be meant to be
    held together, so they are pressed one after the other, with the modifiers around each.
    """
    if not keys:
        raise UnusableCall("keypress: 'keys' is empty")
    keys = _key_list(keys)
    keys = [part for key in keys for part in _split(key)]
    modifiers = [key for key in keys if _is_modifier(key)]
    others = [key for key in keys if not _is_modifier(key)]
    return [[*modifiers, key] for key in others] or [modifiers]


def _key_list(keys: Any) -> list[str]:
    """Return the keys; a text alone would be taken for a list of its characters."""
    if not isinstance(keys, list):
        raise UnusableCall(f"'keys' is a list, not {keys!r:.100}")
    return keys


def _split(key: str) -> list[str]:
    """Return the keys of one name; some models write a chord as one, "ctrl+a"."""
    if len(key) < 3 or "+" not in key:
        return [key]
    return [*key.removesuffix("+").rstrip("+").split("+"), *(["+"] if key.endswith("+") else [])]


def _is_modifier(key: str) -> bool:
    try:
        return normalize_key(key) in MODIFIERS
    except UnknownKeyError:
        return False  # the environment names it to the model when it is pressed


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        parse_action(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        reason = first["msg"].removeprefix("Value error, ")
        raise UnusableCall(": ".join(filter(None, (fields["type"], place, reason)))) from error
    return fields
