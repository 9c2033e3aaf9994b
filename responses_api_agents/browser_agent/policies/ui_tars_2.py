"""UI-TARS 2 and Seed: calls in tags, several of them in one reply.

Source: trycua/cua, `libs/python/agent/cua_agent/loops/uitars2.py`. Coordinates are relative to
1000. Calls stand in `<seed:tool_call>`, behind the reasoning in `<gui_think>`; all values are
texts. `press` and `release` hold a key, as `mouse_down` and `mouse_up` do a button.
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
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import (
    blocks,
    without_thinking,
    xml_calls,
)
from responses_api_agents.browser_agent.policies.frames import Grid, View
from responses_api_agents.browser_agent.policies.ui_tars import ui_tars_action


class UiTars2Policy(Policy):
    """UI-TARS 2."""

    actions: ClassVar[dict[str, str]] = {
        "click": "click: point",
        "left_double": "left_double: point; two clicks",
        "right_single": "right_single: point; a click with the right button",
        "move_to": "move_to: point",
        "drag": "drag: start_point, end_point",
        "scroll": "scroll: direction (up, down, left or right), point if not at the pointer",
        "mouse_down": "mouse_down: point if not at the pointer, button (left or right)",
        "mouse_up": "mouse_up: point if not at the pointer, button (left or right)",
        "hotkey": "hotkey: key; keys in lower case, with spaces between them",
        "press": "press: key; hold it down for the functions that follow it in this reply",
        "release": "release: key; let it go, in this reply too",
        "type": "type: content; a line break at its end presses Enter",
        "wait": "wait: time in seconds",
        "take_screenshot": "take_screenshot: look again",
        "open_computer": "open_computer: look at the screen",
        "finished": "finished: content; the task is done, and this is the answer",
        "call_user": "call_user: content; only if the user is needed",
    }
    frame = Grid(1000)
    screenshots = 5

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Think first, then call one or more functions:\n<gui_think> what you see, and what you "
            "do next </gui_think>\n<seed:tool_call><function=NAME><parameter=NAME>value"
            "</parameter></function></seed:tool_call>\n\nThe functions and their parameters are:\n"
            f"{described(self.actions)}\n\nA point is <point>x y</point>, from 0 0 at the top left "
            f"to {view.columns:g} {view.rows:g} at the bottom right of the screen."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        opening, closing = "<seed:tool_call>", "</seed:tool_call>"
        said, inside = blocks(without_thinking(text), opening, closing)
        if not inside:
            raise UnusableCall(f"the reply holds no call: {opening}…{closing}")
        said = said.replace("<gui_think>", "").replace("</gui_think>", "")
        return Reading([call for part in inside for call in xml_calls(part)], said)

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        return ui_tars_action(self, call, view)


POLICIES = (UiTars2Policy("ui_tars_2"),)
