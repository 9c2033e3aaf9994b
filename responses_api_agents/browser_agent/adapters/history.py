"""A conversation that the client keeps, and what of it is sent: whole turns, pruned by policy.

What is left out follows from the turns so far alone, so the same conversation always gives the
same request. Between two prunings a request starts with the whole one before it, which is what a
provider's prompt cache needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from responses_api_agents.browser_agent.adapters.base import Item
from responses_api_agents.browser_agent.adapters.responses import text_part

OMITTED = "[screenshot omitted]"


class HistoryPolicy(BaseModel):
    """What is sent of a conversation.

    Attributes:
        policy: `all` screenshots; the `last_n`; or with `hysteresis` all until there are more
            than `keep + batch`, then the last `keep`, and so on, which spoils a prompt cache only
            once in a batch.
        keep: screenshots that are always sent.
        batch: screenshots beyond `keep` that may gather (and turns that are dropped at once)
            with `hysteresis`.
        max_turns_kept: the most turns sent; None for all of them. The task is always sent.
    """

    model_config = ConfigDict(extra="forbid")

    policy: Literal["all", "last_n", "hysteresis"] = "all"
    keep: int = Field(default=3, ge=1)
    batch: int = Field(default=7, ge=1)
    max_turns_kept: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _leaves_turns(self) -> HistoryPolicy:
        if self.max_turns_kept is not None and self.max_turns_kept <= self._slack:
            raise ValueError("max_turns_kept: must be more than batch, or no turn would be left")
        return self

    @property
    def _slack(self) -> int:
        return self.batch if self.policy == "hysteresis" else 0

    def screenshots_dropped(self, count: int) -> int:
        """Return how many of `count` screenshots are left out, oldest first."""
        return 0 if self.policy == "all" else _dropped(count, self.keep, self._slack)

    def turns_dropped(self, count: int) -> int:
        """Return how many of `count` turns are left out, oldest first."""
        if self.max_turns_kept is None:
            return 0
        return _dropped(count, self.max_turns_kept - self._slack, self._slack)


def _dropped(count: int, keep: int, slack: int) -> int:
    """Return how many of `count` go if between `keep` and `keep + slack` stay, in batches."""
    step = slack + 1
    return max(0, count - keep) // step * step


@dataclass
class _Turn:
    """A reply and what answers it, which stay or go together."""

    reply: list[Item]
    answers: list[Item] = field(default_factory=list)


class History:
    """One conversation: the task, then turns.

    Every image in an answer counts as a screenshot; of the task's images only the first
    screenshot does.
    """

    def __init__(self, policy: HistoryPolicy, task: list[Item], screenshot: Item) -> None:
        """Begin a conversation.

        Args:
            policy: what is sent.
            task: the run's input.
            screenshot: the part of `task` that shows the start page.
        """
        self._policy = policy
        self._task = list(task)
        self._first = screenshot
        self._turns: list[_Turn] = []

    def add_reply(self, items: list[Item]) -> None:
        """Add a reply; after one that needs no answer (a pause) it is part of the same turn."""
        if self._turns and not self._turns[-1].answers:
            self._turns[-1].reply += items
        else:
            self._turns.append(_Turn(list(items)))

    def add_answers(self, items: list[Item]) -> None:
        """Add what follows the latest reply: outputs of its calls, messages."""
        (self._turns[-1].answers if self._turns else self._task).extend(items)

    def items(self) -> list[Item]:
        """Return the items to send now."""
        shots = 1 + sum(_screenshots(item) for turn in self._turns for item in turn.answers)
        to_drop = self._policy.screenshots_dropped(shots)
        drop_turns = self._policy.turns_dropped(len(self._turns))
        sent = [self._without_first(item) for item in self._task] if to_drop else [*self._task]
        seen = 1
        for index, turn in enumerate(self._turns):
            answers = []
            for item in turn.answers:
                here = _screenshots(item)
                answers.append(_without(item, min(max(to_drop - seen, 0), here)))
                seen += here
            if index >= drop_turns:
                sent += [*turn.reply, *answers]
        return sent

    def _without_first(self, item: Item) -> Item:
        parts = item.get("content")
        if not isinstance(parts, list) or not any(part is self._first for part in parts):
            return item
        parts = [text_part(OMITTED) if part is self._first else part for part in parts]
        return {**item, "content": parts}


def _parts_key(item: Item) -> str:
    return "output" if item["type"] == "function_call_output" else "content"


def _screenshots(item: Item) -> int:
    if item["type"] == "computer_call_output":
        return bool(item["output"]["image_url"])
    parts = item[_parts_key(item)]
    return 0 if isinstance(parts, str) else sum(part["type"] == "input_image" for part in parts)


def _without(item: Item, count: int) -> Item:
    """Return an item without its first `count` screenshots."""
    if count == 0:
        return item
    if item["type"] == "computer_call_output":
        said = item["output"].get("text")
        text = f"{said}\n{OMITTED}" if said else OMITTED
        return {**item, "output": {**item["output"], "image_url": "", "text": text}}
    key, parts = _parts_key(item), []
    for part in item[_parts_key(item)]:
        if part["type"] == "input_image" and count:
            part, count = text_part(OMITTED), count - 1
        parts.append(part)
    return {**item, key: parts}
