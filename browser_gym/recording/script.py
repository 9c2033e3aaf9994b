"""Canonical actions as turns of the scripted model, which speaks OpenAI's. Pure functions."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
_FUNCTIONS = ("navigate", "go_back", "go_forward", "reload", "new_tab", "switch_tab", "close_tab")


class NotSayable(Exception):
    """An action that the computer tool does not have; names it."""


def turns_of(actions: list[Json], answer: str) -> list[Json]:
    """Return a script's turns, one per action and the answer.

    Raises:
        NotSayable: the computer tool has no such action.
    """
    return [*(_turn(action) for action in actions), {"answer": answer or "Done."}]


def _turn(action: Json) -> Json:
    kind = action["type"]
    if kind in _FUNCTIONS:
        arguments = {key: value for key, value in action.items() if key != "type"}
        return {"function": {"name": kind, "arguments": arguments}}
    keys = {"keys": action["modifiers"]} if action.get("modifiers") else {}
    button = action.get("button", "left")
    match kind:
        case "click" if action.get("count", 1) == 1:
            button = "wheel" if button == "middle" else button
            return _one({"type": "click", "button": button, **_point(action), **keys})
        case "click" if action["count"] == 2 and button == "left":
            return _one({"type": "double_click", **_point(action), "keys": keys.get("keys")})
        case "drag" if button == "left":
            return _one({"type": "drag", "path": [_point(p) for p in action["path"]], **keys})
        case "scroll":
            amount = {"scroll_x": round(action["dx"]), "scroll_y": round(action["dy"])}
            return _one({"type": "scroll", **_point(action), **amount, **keys})
        case "type":
            return _one({"type": "type", "text": action["text"]})
        case "key":
            chords = action["chords"] * action.get("repeat", 1)
            return {"actions": [{"type": "keypress", "keys": chord} for chord in chords]}
    count = f" {action['count']} times" if action.get("count", 1) > 1 else ""
    raise NotSayable(f"{kind} with the {button} button{count}")


def _one(action: Json) -> Json:
    return {"actions": [action]}


def _point(place: Json) -> Json:
    return {"x": round(place["x"]), "y": round(place["y"])}
