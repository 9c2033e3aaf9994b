"""Holo3 and Holo3.1: one JSON object with a note, a thought and a flat call.

Sources: https://hub.hcompany.ai/agent-loop and /element-localization, which leave the set of tools
to whoever runs the model. Those here are named there (`click`, `write`, `answer`) or in
hcompai/surfer-h-cli, `src/surfer_h_cli/skills/navigation_step.py` (`scroll`, `go_back`, `refresh`,
`wait`). Coordinates are relative to 1000, and three screenshots are the most. Holo3.1 may call the
tools as functions instead. The model is trained under constrained decoding: `text.format` of the
run's parameters can hold a schema. Holo1 names an element and finds it in a second request, which
is another loop than this one.
"""

from __future__ import annotations

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
from responses_api_agents.browser_agent.policies.formats import json_object, without_thinking
from responses_api_agents.browser_agent.policies.frames import Grid, View

WAIT_S = 2


class HoloPolicy(Policy):
    """Holo3."""

    actions: ClassVar[dict[str, str]] = {
        "click": "click: element, x, y",
        "double_click": "double_click: element, x, y",
        "write": "write: element, x, y, content, press_enter (true or false); clicks there, "
        "empties the field and types",
        "key": "key: keys; a list of keys to press together",
        "scroll": "scroll: direction (up, down, left or right)",
        "go_back": "go_back: to the page before",
        "refresh": "refresh: load the page again",
        "wait": "wait: two seconds",
        "answer": "answer: content; ends the task",
    }
    frame = Grid(1000)
    screenshots = 3
    ignored = ("element",)

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Reply with one JSON object and nothing else:\n<output_format>\n"
            '{"note": what to remember of this screen, or null, "thought": what you do next and '
            'why, "tool_call": {"tool_name": name, parameters…}}\n</output_format>\n\n'
            f"The tools and their parameters are:\n{described(self.actions)}\n\nelement says in "
            f"words what is meant; x and y are whole numbers from 0 at the top left to "
            f"{view.columns:g} at the bottom right of the screen."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        reply = json_object(without_thinking(text))
        fields = reply.get("tool_call")
        if not isinstance(fields, dict) or not isinstance(fields.get("tool_name"), str):
            raise UnusableCall("the object holds no tool_call with a tool_name")
        thought = reply.get("thought")
        name = fields.pop("tool_name")
        return Reading([NativeCall(name, fields)], thought if isinstance(thought, str) else "")

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        match call.name:
            case "click":
                return [{"type": "click", **_point(call, view)}]
            case "double_click":
                return [{"type": "click", "count": 2, **_point(call, view)}]
            case "write":
                text, enter = call.text("content"), call.flag("press_enter", False)
                return [
                    {
                        "type": "type",
                        **_point(call, view),
                        "text": text,
                        "clear_first": True,
                        "press_enter": enter,
                    }
                ]
            case "key":
                return [{"type": "key", "chords": [call.texts("keys")]}]
            case "scroll":
                return [scroll(call.text("direction"), DEFAULT_NOTCHES)]
            case "go_back":
                return [{"type": "go_back"}]
            case "refresh":
                return [{"type": "reload"}]
            case "wait":
                return [wait(WAIT_S)]
            case "answer":
                return Answer(call.text("content"))
        raise self.unknown(call.name)


def _point(call: NativeCall, view: View) -> Action:
    return view.point(call.number("x"), call.number("y"))


POLICIES = (HoloPolicy("holo3"),)
