"""GLM-4.5V and GLM-4.6V on a PC: an explanation in words, and one call in text.

Sources: zai-org/GLM-V, `examples/gui-agent/glm-45v/agent.md`, PC environment; hud-evals/hud-python,
`hud/agents/openai_compatible/tools/glm_computer.py`, for GLM-4.6V, which may call functions
instead. Coordinates are thousandths from 0 to 999. `scroll` counts turns of the wheel, `WAIT` is
five seconds, keys of a chord are joined by `+`. The final answer may be marked as a box. The
documents show four earlier screenshots. They have a `Memory` part that is given back in the next
prompt; here it stays in the conversation. GLM's web environment numbers the elements and is
another one.
"""

from __future__ import annotations

import re
from typing import ClassVar

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import (
    DEFAULT_NOTCHES,
    Action,
    Answer,
    Policy,
    Reading,
    described,
    scroll,
    wait,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import (
    blocks,
    first_code_call,
    without_thinking,
)
from responses_api_agents.browser_agent.policies.frames import Grid, View

WAIT_S = 5
_BOX, _BOX_END = "<|begin_of_box|>", "<|end_of_box|>"
_BUTTONS = {"left_click": "left", "right_click": "right", "middle_click": "middle"}


class GlmPolicy(Policy):
    """GLM-4.5V and GLM-4.6V."""

    actions: ClassVar[dict[str, str]] = {
        "left_click": "left_click(start_box='[x,y]', element_info='…')",
        "right_click": "right_click(start_box='[x,y]', element_info='…')",
        "middle_click": "middle_click(start_box='[x,y]', element_info='…')",
        "hover": "hover(start_box='[x,y]', element_info='…')",
        "left_double_click": "left_double_click(start_box='[x,y]', element_info='…')",
        "left_drag": "left_drag(start_box='[x,y]', end_box='[x,y]', element_info='…')",
        "key": "key(keys='ctrl+c')",
        "type": "type(content='…')",
        "scroll": "scroll(start_box='[x,y]', direction='up or down', step=5, element_info='…')",
        "WAIT": "WAIT(): five seconds",
        "DONE": "DONE(): the task is done; what you explained is the answer",
        "FAIL": "FAIL(): the task cannot be done",
    }
    frame = Grid(1000)
    screenshots = 5
    ignored = ("element_info",)

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Explain in words what you do, then write one call in a line of its own, as in "
            "action(param='…'). Last, write Memory: and a list of what you must remember, [] if "
            f"nothing.\n\nThe calls are:\n{described(self.actions)}\n\nCoordinates are thousandths "
            "of the screen, from 0 to 999. element_info says in words what is meant."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        text = without_thinking(text).partition("\nMemory:")[0]
        said, boxed = blocks(text, _BOX, _BOX_END)
        if boxed:
            return Reading([first_code_call(boxed[-1])], said)
        starts = list(_LINE_WITH_CALL.finditer(text))
        if not starts:
            raise UnusableCall("the reply holds no line with a call such as left_click(…)")
        at = starts[-1].start(1)
        return Reading([first_code_call(text[at:])], text[:at].removesuffix("Action: "))

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        match call.name:
            case name if name in _BUTTONS:
                return [{"type": "click", "button": _BUTTONS[name], **_point(call, view)}]
            case "left_double_click":
                return [{"type": "click", "count": 2, **_point(call, view)}]
            case "hover":
                return [{"type": "move", **_point(call, view)}]
            case "left_drag":
                path = [_point(call, view), view.point(*call.marked_point("end_box"))]
                return [{"type": "drag", "path": path}]
            case "key":
                return [{"type": "key", "chords": [_chord(call.text("keys"))]}]
            case "type":
                return [{"type": "type", "text": call.text("content")}]
            case "scroll":
                place = _point(call, view)
                turns = call.number("step", DEFAULT_NOTCHES)
                return [{**scroll(call.text("direction"), turns), **place}]
            case "WAIT":
                return [wait(WAIT_S)]
            case "DONE" | "FAIL":
                return Answer()
        raise self.unknown(call.name)


_LINE_WITH_CALL = re.compile(
    rf"^[ \t]*(?:Action:[ \t]*)?`*((?:{'|'.join(GlmPolicy.actions)})\()", re.MULTILINE
)


def _chord(keys: str) -> list[str]:
    if keys == "+":
        return ["+"]
    names = [name.strip() for name in keys.split("+")]
    if not all(names):
        raise UnusableCall("key: 'keys' must name keys with + between them")
    return names


def _point(call: NativeCall, view: View) -> Action:
    return view.point(*call.marked_point("start_box"))


POLICIES = (GlmPolicy("glm_v"),)
