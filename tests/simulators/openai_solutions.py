"""The demo tasks' solutions, as an OpenAI model with the general computer tool would give them."""

from collections.abc import Mapping
from typing import Any

from tests.simulators.openai_scripts import (
    Item,
    Policy,
    SimTurn,
    computer_call,
    function_call,
    message,
)
from tests.simulators.solutions import turns_for


def solve(solutions: Mapping[str, dict[str, Any]]) -> Policy:
    """Follow the solution of the task whose prompt the conversation holds."""

    def policy(turn: SimTurn) -> list[Item]:
        turns = turns_for(solutions, _said(turn.conversation))
        if turn.number >= len(turns):
            return [message("The solution has ended.")]
        return _items(turns[turn.number])

    return policy


def _said(conversation: list[Item]) -> str:
    """Return the texts of the user's messages."""
    contents = [item["content"] for item in conversation if item.get("role") == "user"]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [content for content in contents if isinstance(content, str)]
    return "\n".join([*texts, *(part.get("text", "") for part in parts)])


def _items(turn: dict[str, Any]) -> list[Item]:
    items = [message(turn[name]) for name in ("message", "answer") if turn.get(name)]
    if actions := turn.get("actions"):
        items.append(computer_call(*actions))
    if function := turn.get("function"):
        items.append(function_call(function["name"], **function["arguments"]))
    return items
