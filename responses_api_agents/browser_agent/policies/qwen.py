"""Qwen's `computer_use`: Qwen2.5-VL, Qwen3-VL and Qwen3.5.

Sources: QwenLM/Qwen3-VL, `cookbooks/utils/agent_function_call.py`, for the tool, its actions and
the JSON call of Qwen2.5-VL and Qwen3-VL; issues 1521, 1741 and 1485 there for coordinates, which
are pixels of the resized image with 2.5, and relative to 1000 with 3. For Qwen3.5, trycua/cua,
`libs/python/agent/cua_agent/loops/qwen35.py`: calls in tags, and `text` as held modifiers.
Positive `pixels` scroll up, and with `hscroll` right. A drag starts at the pointer.
"""

from __future__ import annotations

from typing import ClassVar

from responses_api_agents.browser_agent.policies.base import Action, Answer, Policy, Reading
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.computer_use import (
    action_of,
    read_tool_calls,
    shared_action,
    tool_format,
)
from responses_api_agents.browser_agent.policies.frames import QWEN_25, Frame, Grid, View


class QwenPolicy(Policy):
    """One generation of Qwen."""

    actions: ClassVar[dict[str, str]] = {
        "key": "key: press the keys of `keys` together",
        "type": "type: type `text`",
        "mouse_move": "mouse_move: move the pointer to `coordinate`",
        "left_click": "left_click: click at `coordinate`",
        "left_click_drag": "left_click_drag: drag from where the pointer is to `coordinate`",
        "right_click": "right_click: click the right button at `coordinate`",
        "middle_click": "middle_click: click the middle button at `coordinate`",
        "double_click": "double_click: click twice at `coordinate`",
        "triple_click": "triple_click: click three times at `coordinate`",
        "scroll": "scroll: turn the wheel by `pixels`, up if positive, down if negative",
        "hscroll": "hscroll: turn the wheel by `pixels`, right if positive",
        "wait": "wait: let `time` seconds pass",
        "terminate": "terminate: end the task with `status` success or failure",
        "answer": "answer: end the task with the answer in `text`",
    }

    def __init__(self, name: str, frame: Frame, *, xml: bool = False) -> None:
        """Prepare a generation.

        Args:
            name: of the policy.
            frame: where coordinates lie.
            xml: whether calls are written in tags, or else in JSON.
        """
        super().__init__(name)
        self.frame = frame
        self._xml = xml

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return tool_format(self.actions, view, xml=self._xml, more={})

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        return Reading(*read_tool_calls(text, xml=self._xml))

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        match action_of(call):
            case "type":
                return [{"type": "type", "text": call.text("text")}]
            case "answer":
                return Answer(call.text("text"))
            case "terminate":
                call.text("status")
                return Answer()
        meant = shared_action(call, view, modifiers=self._xml)
        if meant is None:
            raise self.unknown(call.name)
        return meant


POLICIES = (
    QwenPolicy("qwen2_5_vl", QWEN_25),
    QwenPolicy("qwen3_vl", Grid(1000)),
    QwenPolicy("qwen3_5", Grid(1000), xml=True),
)
