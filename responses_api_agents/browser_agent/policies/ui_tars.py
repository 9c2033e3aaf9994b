"""UI-TARS 1.5: a thought, then calls in text.

Sources: bytedance/UI-TARS, `codes/ui_tars/prompt.py` and `action_parser.py` and
`README_coordinates.md`. Coordinates are pixels of the image that the processor resizes (factor
28, 100 to 16384 patches); a point comes in marks, in parentheses, or as a box, whose centre it
is. A scroll says a direction alone, and is five turns of the wheel there; `wait` is five seconds;
a line break at the end of `type` presses Enter. OSWorld's agent shows the last five screenshots.
"""

from __future__ import annotations

from typing import ClassVar

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import (
    DEFAULT_NOTCHES,
    NO_USER,
    Action,
    Answer,
    Policy,
    Reading,
    described,
    scroll,
    wait,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import code_calls, without_thinking
from responses_api_agents.browser_agent.policies.frames import Resized, View

WAIT_S = 5


class UiTarsPolicy(Policy):
    """UI-TARS 1.5."""

    actions: ClassVar[dict[str, str]] = {
        "click": "click(point='<point>x y</point>')",
        "left_double": "left_double(point='<point>x y</point>')",
        "right_single": "right_single(point='<point>x y</point>')",
        "hover": "hover(point='<point>x y</point>')",
        "drag": "drag(start_point='<point>x y</point>', end_point='<point>x y</point>')",
        "select": "select(start_point=…, end_point=…): drag over text",
        "hotkey": "hotkey(key='ctrl c'): keys in lower case, with spaces between them",
        "press": "press(key='ctrl'): hold a key down for the calls that follow it in this reply",
        "release": "release(key='ctrl'): let it go, in this reply too",
        "type": "type(content='…'): write \\n at its end to press Enter, and \\' for a quote",
        "scroll": "scroll(point='<point>x y</point>', direction='down, up, right or left')",
        "wait": "wait(): five seconds",
        "finished": "finished(content='…'): the task is done, and this is the answer",
        "call_user": "call_user(): only if the user is needed",
    }
    frame = Resized(factor=28, min_pixels=100 * 28 * 28, max_pixels=16384 * 28 * 28)
    screenshots = 5

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Reply in this form, and then no more:\nThought: what you see, and what you do next\n"
            "Action: one call; if a key must be held meanwhile, the calls in lines of their own\n\n"
            f"The calls are:\n{described(self.actions)}\n\n"
            f"The screen is {view.columns:g} px wide and {view.rows:g} px high."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        said, mark, code = f"\n{without_thinking(text)}".rpartition("\nAction:")
        if not mark:
            raise UnusableCall("the reply holds no line that starts with Action:")
        calls = code_calls(code)
        if not calls:
            raise UnusableCall("there is no call behind Action:")
        return Reading(calls, said.strip().removeprefix("Thought:"))

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        return ui_tars_action(self, call, view)


def ui_tars_action(policy: Policy, call: NativeCall, view: View) -> list[Action] | Answer:
    """Return what a call of either generation means.

    Raises:
        UnusableCall: there is no such action, or a field is unusable.
    """
    match call.name:
        case "click" | "left_single":
            return [{"type": "click", **_point(call, view)}]
        case "left_double":
            return [{"type": "click", "count": 2, **_point(call, view)}]
        case "right_single":
            return [{"type": "click", "button": "right", **_point(call, view)}]
        case "hover" | "move_to":
            return [{"type": "move", **_point(call, view)}]
        case "drag" | "select":
            start = view.point(*call.marked_point("start_point", "start_box"))
            end = view.point(*call.marked_point("end_point", "end_box"))
            return [{"type": "drag", "path": [start, end]}]
        case "hotkey":
            return [{"type": "key", "chords": [_keys(call)]}]
        case "press" | "keydown":
            return [{"type": "key_down", "key": call.text("key")}]
        case "release" | "keyup":
            return [{"type": "key_up", "key": call.text("key")}]
        case "mouse_down" | "mouse_up":
            button = call.text("button", "left")
            return [{"type": call.name, "button": button, **_optional_point(call, view)}]
        case "type":
            return [_typed(call.text("content"))]
        case "scroll":
            action = scroll(call.text("direction"), DEFAULT_NOTCHES)
            return [{**action, **_optional_point(call, view)}]
        case "wait":
            return [wait(call.number("time", WAIT_S))]
        case "take_screenshot" | "open_computer":
            return [{"type": "screenshot"}]
        case "finished":
            return Answer(call.text("content", ""))
        case "call_user":
            raise UnusableCall(NO_USER)
        case _:
            raise policy.unknown(call.name)


def _typed(content: str) -> Action:
    text = content.removesuffix("\n")
    return {"type": "type", "text": text, "press_enter": text != content}


def _keys(call: NativeCall) -> list[str]:
    keys = call.text("key").split()
    if not keys:
        raise UnusableCall("hotkey: 'key' names no key")
    return keys


def _point(call: NativeCall, view: View) -> Action:
    return view.point(*call.marked_point("point", "start_box"))


def _optional_point(call: NativeCall, view: View) -> Action:
    return _point(call, view) if call.has("point") or call.has("start_box") else {}


POLICIES = (UiTarsPolicy("ui_tars_1_5"),)
