"""Canonical actions as plain function tools, for any model whose server finds function calls.

The tools are those of the functions adapter, whose docstring says more. A reply without a call is
the answer.
"""

from __future__ import annotations

from typing import ClassVar

from responses_api_agents.browser_agent.adapters.base import Item
from responses_api_agents.browser_agent.adapters.functions import action_tools, from_per_mille
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    browser_function_tools,
    parse_canonical,
)
from responses_api_agents.browser_agent.policies.base import Action, Answer, Policy, Reading
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import without_thinking
from responses_api_agents.browser_agent.policies.frames import Frame, Grid, Pixels, View

_TOOLS = action_tools(1000, 1000) + browser_function_tools()


class FunctionsPolicy(Policy):
    """Function tools with coordinates in px or in thousandths of the screen."""

    actions: ClassVar[dict[str, str]] = {tool["name"]: tool["description"] for tool in _TOOLS}

    def __init__(self, name: str, frame: Frame) -> None:
        """Prepare the tools.

        Args:
            name: of the policy.
            frame: where coordinates lie.
        """
        super().__init__(name)
        self.frame = frame

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Act by calling the tools. When the task is done, or cannot be done, say so in a short "
            "message without a call; that message is your answer."
        )

    def tools(self, width: int, height: int) -> list[Item]:
        """Return the function tools to offer."""
        view = self.frame.view(width, height)
        return action_tools(int(view.columns), int(view.rows)) + browser_function_tools()

    def read(self, text: str) -> Reading:
        """Take a reply apart: one that holds no function call is the answer."""
        answer = without_thinking(text).strip()
        if not answer:
            raise UnusableCall("the reply holds neither a call nor an answer")
        return Reading([NativeCall("", {"answer": answer})])

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        if not call.name:
            return Answer(call.text("answer"))
        fields = call.take_all()
        action = parse_canonical(call.name, fields)
        if isinstance(self.frame, Grid):
            pixels = from_per_mille(fields, view.width, view.height)
            action = parse_canonical(call.name, pixels)
        return [action]


POLICIES = (
    FunctionsPolicy("functions", Pixels()),
    FunctionsPolicy("functions_per_mille", Grid(1000)),
)
