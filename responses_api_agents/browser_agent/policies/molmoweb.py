"""MolmoWeb: one JSON object with a thought and an action.

Source: allenai/molmoweb, `agent/multimodal_agent.py` and `agent/actions.py`. Coordinates and
scroll distances are percent of the screen, those of `gemini_type_text_at` thousandths. `noop` waits
five seconds. The released agent puts the last three steps in words into one prompt with one
screenshot; here they are a conversation. Actions on numbered elements need another observation.
"""

from __future__ import annotations

from typing import ClassVar

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import (
    Action,
    Answer,
    Policy,
    Reading,
    described,
    wait,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import json_object, without_thinking
from responses_api_agents.browser_agent.policies.frames import Grid, View

WAIT_S = 5
_SAME = {
    "mouse_click": "click",
    "mouse_dblclick": "dblclick",
    "mouse_drag_and_drop": "drag_and_drop",
    "keyboard_type": "type",
    "keyboard_press": "keypress",
}


class MolmoWebPolicy(Policy):
    """MolmoWeb."""

    actions: ClassVar[dict[str, str]] = {
        "click": "click: x, y, button (left, right or middle)",
        "dblclick": "dblclick: x, y, button; two clicks",
        "hover_at": "hover_at: x, y, duration in seconds",
        "drag_and_drop": "drag_and_drop: from_x, from_y, to_x, to_y",
        "scroll": "scroll: delta_x, delta_y; right and down are positive",
        "scroll_at": "scroll_at: x, y, delta_x, delta_y",
        "type": "type: text",
        "keypress": "keypress: key, such as Enter or ControlOrMeta+a",
        "gemini_type_text_at": "gemini_type_text_at: x, y (here in thousandths), text, "
        "press_enter, clear_before_typing",
        "goto": "goto: url",
        "browser_nav": "browser_nav: nav_type (go_back, new_tab or tab_focus), index of the tab",
        "noop": "noop: noop_reason; waits five seconds",
        "send_msg_to_user": "send_msg_to_user: msg; ends the task with this answer",
        "report_infeasible": "report_infeasible: infeasibility_reason; ends the task",
    }
    frame = Grid(100)
    screenshots = 1

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            'Reply with one JSON object and nothing else: {"thought": what you do next and why, '
            '"action": {"name": name, parameters…}}\n\nThe actions and their parameters are:\n'
            f"{described(self.actions)}\n\nPositions and distances are percent of the screen, from "
            f"0 at the top left to {view.columns:g} at the bottom right."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        reply = json_object(without_thinking(text))
        fields = reply.get("action", reply)
        if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
            raise UnusableCall("the object holds no action with a name")
        thought = reply.get("thought")
        name = fields.pop("name")
        return Reading([NativeCall(name, fields)], thought if isinstance(thought, str) else "")

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        call.name = _SAME.get(call.name, call.name)
        match call.name:
            case "click" | "dblclick":
                count = 1 if call.name == "click" else 2
                button = call.text("button", "left")
                return [{"type": "click", "button": button, "count": count, **_point(call, view)}]
            case "hover_at":
                return [{"type": "move", **_point(call, view)}, wait(call.number("duration", 1))]
            case "drag_and_drop":
                start = view.point(call.number("from_x"), call.number("from_y"))
                end = view.point(call.number("to_x"), call.number("to_y"))
                return [{"type": "drag", "path": [start, end]}]
            case "scroll":
                return [_scroll(call, view)]
            case "scroll_at":
                return [{**_scroll(call, view), **_point(call, view)}]
            case "type":
                return [{"type": "type", "text": call.text("text")}]
            case "keypress":
                return [{"type": "key", "chords": [_chord(call.text("key"))]}]
            case "gemini_type_text_at":
                return [_type_at(call, view)]
            case "goto":
                return [{"type": "navigate", "url": call.text("url")}]
            case "browser_nav":
                return [_navigation(call)]
            case "noop":
                call.text("noop_reason", "")
                return [wait(WAIT_S)]
            case "send_msg_to_user":
                return Answer(call.text("msg"))
            case "report_infeasible":
                return Answer(call.text("infeasibility_reason", ""))
        raise self.unknown(call.name)


def _point(call: NativeCall, view: View) -> Action:
    return view.point(call.number("x"), call.number("y"))


def _scroll(call: NativeCall, view: View) -> Action:
    return {
        "type": "scroll",
        "dx": call.number("delta_x", 0) * view.width / view.columns,
        "dy": call.number("delta_y", 0) * view.height / view.rows,
    }


def _type_at(call: NativeCall, view: View) -> Action:
    return {
        "type": "type",
        **Grid(1000).view(view.width, view.height).point(call.number("x"), call.number("y")),
        "text": call.text("text"),
        "press_enter": call.flag("press_enter", True),
        "clear_first": call.flag("clear_before_typing", True),
    }


def _chord(key: str) -> list[str]:
    names = [key] if len(key) == 1 else key.split("+")
    if not all(names):
        raise UnusableCall("keypress: 'key' must name keys with + between them")
    return names


def _navigation(call: NativeCall) -> Action:
    kind, index = call.text("nav_type"), call.whole("index", -1)
    match kind:
        case "go_back" | "new_tab":
            return {"type": kind}
        case "tab_focus":
            return {"type": "switch_tab", "index": index}
    raise UnusableCall(f"browser_nav: nav_type is no {kind!r:.100}")


POLICIES = (MolmoWebPolicy("molmoweb"),)
