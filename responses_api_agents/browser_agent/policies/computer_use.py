"""The `computer_use` tool of Qwen and of the families trained from it: one tool, many actions."""

from __future__ import annotations

import json

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import Action, Answer, wait
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import (
    blocks,
    json_call,
    without_thinking,
    xml_calls,
)
from responses_api_agents.browser_agent.policies.frames import View
from responses_api_agents.browser_agent.policies.held_keys import modifiers_of

TOOL = "computer_use"
_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_FIELDS = {
    "keys": "array",
    "text": "string",
    "coordinate": "array",
    "pixels": "number",
    "time": "number",
    "status": "string",
}


def tool_format(actions: dict[str, str], view: View, *, xml: bool, more: dict[str, str]) -> str:
    """Return how to call the tool, for a system prompt.

    Args:
        actions: what the prompt says of each action.
        view: the screen.
        xml: whether calls are written in tags, or else in JSON.
        more: types of fields beyond those of Qwen's tool, by name.
    """
    tool = {
        "name": TOOL,
        "description": (
            "Mouse, keyboard and browser. The screen is "
            f"{view.columns:g} wide and {view.rows:g} high; coordinates are [x, y] on it, from the "
            "top left."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "action": {
                    "type": "string",
                    "enum": list(actions),
                    "description": "; ".join(actions.values()),
                },
                **{name: {"type": kind} for name, kind in (_FIELDS | more).items()},
            },
            "required": ["action"],
        },
    }
    call = (
        f"<function={TOOL}>\n<parameter=action>\nwait\n</parameter>\n"
        "<parameter=time>\n2\n</parameter>\n</function>"
        if xml
        else json.dumps({"name": TOOL, "arguments": {"action": "wait", "time": 2}})
    )
    return (
        f"# Tools\n\n<tools>\n{json.dumps({'type': 'function', 'function': tool})}\n</tools>\n\n"
        "Say in a few words what you do, then call the tool like this:\n"
        f"{_OPENING}\n{call}\n{_CLOSING}"
    )


def read_tool_calls(text: str, *, xml: bool) -> tuple[list[NativeCall], str]:
    """Return the calls of a reply and the text before them.

    Raises:
        UnusableCall: there is none, or one is not in the format.
    """
    said, inside = blocks(without_thinking(text), _OPENING, _CLOSING)
    if not inside:
        raise UnusableCall(f"the reply holds no call: {_OPENING}…{_CLOSING}")
    if xml:
        return [call for part in inside for call in xml_calls(part)], said
    return [json_call(part) for part in inside], said


def action_of(call: NativeCall) -> str:
    """Return the action of a call of the tool; errors of the call are named after it from then on.

    Raises:
        UnusableCall: another tool is called.
    """
    if call.name != TOOL:
        raise UnusableCall(f"there is no tool {call.name!r:.100}, only {TOOL}")
    call.name = call.text("action")
    return call.name


def shared_action(call: NativeCall, view: View, *, modifiers: bool) -> list[Action] | Answer | None:
    """Return what an action means that all families with the tool have; None if it is another.

    Args:
        call: its name is the action.
        view: the screen.
        modifiers: whether the `text` of a click or a scroll is what is held meanwhile.

    Raises:
        UnusableCall: a field is unusable.
    """
    match call.name:
        case "key":
            return [{"type": "key", "chords": [call.texts("keys")]}]
        case "mouse_move":
            return [{"type": "move", **point(call, view)}]
        case "left_click_drag":
            return [{"type": "drag", "path": [None, point(call, view)]}]
        case "scroll":
            action = {"type": "scroll", "dy": -call.number("pixels")}
        case "hscroll":
            action = {"type": "scroll", "dx": call.number("pixels")}
        case "wait":
            return [wait(call.number("time"))]
        case name if name in _CLICKS:
            button, count = _CLICKS[name]
            action = {"type": "click", "button": button, "count": count}
        case _:
            return None
    if call.has("coordinate"):
        action |= point(call, view)
    if modifiers and call.has("text"):
        action["modifiers"] = modifiers_of(call.text("text").split("+"))
    return [action]


def point(call: NativeCall, view: View) -> Action:
    """Return the point of a call's coordinate.

    Raises:
        UnusableCall: it is missing, or outside the screen.
    """
    return view.point(*call.pair("coordinate"))
