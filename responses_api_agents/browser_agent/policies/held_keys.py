"""Keys that a model presses and releases in actions of their own, to canonical actions.

The browser holds keys during an action alone. So a modifier is held during each action up to its
release, or pressed alone if there is none; another key is pressed when it goes down.
"""

from __future__ import annotations

from typing import Any

from resources_servers.browser_gym.keys import MODIFIERS, UnknownKeyError, normalize_key
from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall

_WITH_MODIFIERS = ("click", "move", "drag", "scroll")


def with_held_keys(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return actions in which `key_down` and `key_up` are part of what is between them.

    Args:
        steps: canonical actions, and `key_down` and `key_up` of a `key` that is known.
    """
    held: dict[str, bool] = {}  # whether something was done meanwhile
    actions: list[dict[str, Any]] = []
    for step in steps:
        action = step
        if step["type"] == "key_down" and step["key"] in MODIFIERS:
            held.setdefault(step["key"], False)
            continue
        if step["type"] == "key_up" and held.pop(step["key"], True):
            continue
        if step["type"] in ("key_down", "key_up"):
            action = {"type": "key", "chords": [[step["key"]]]}
        if held and action["type"] == "key":
            action = {**action, "chords": [_chord(held, chord) for chord in action["chords"]]}
        elif held and action["type"] in _WITH_MODIFIERS:
            modifiers = dict.fromkeys([*held, *action.get("modifiers", [])])
            action = {**action, "modifiers": list(modifiers)}
        actions.append(action)
        held = dict.fromkeys(held, True)
    return actions


def check_released(steps: list[dict[str, Any]]) -> None:
    """Check that only keys that are down come up, and that every modifier does.

    Raises:
        UnusableCall: one does not.
    """
    down: dict[str, None] = {}
    for step in steps:
        if step["type"] == "key_down":
            down[step["key"]] = None
        elif step["type"] == "key_up":
            if step["key"] not in down:
                raise UnusableCall(f"{step['key']} is not held, so it cannot be released")
            del down[step["key"]]
    held = [key for key in down if key in MODIFIERS]
    if held:
        raise UnusableCall(
            f"{' and '.join(held)} cannot be held beyond a reply: press, act and release in one"
        )


def known_key(name: str) -> str:
    """Return the W3C name of a key.

    Raises:
        UnusableCall: nobody knows it.
    """
    try:
        return normalize_key(name)
    except UnknownKeyError as error:
        raise UnusableCall(str(error)) from error


def modifiers_of(names: list[str]) -> list[str]:
    """Return the modifiers of these names.

    Raises:
        UnusableCall: one is no modifier.
    """
    keys = [known_key(name) for name in names]
    for key in keys:
        if key not in MODIFIERS:
            raise UnusableCall(f"only modifier keys can be held during an action, not {key!r}")
    return keys


def _chord(held: dict[str, bool], chord: list[str]) -> list[str]:
    """Return a chord with the held modifiers that are not in it yet."""
    folded = {_folded(key) for key in chord}
    return [*(key for key in held if key not in folded), *chord]


def _folded(name: str) -> str:
    try:
        return normalize_key(name)
    except UnknownKeyError:
        return name  # the environment names it to the model when it is pressed
