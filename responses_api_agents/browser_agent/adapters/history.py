"""A conversation that the client keeps, and what of it is sent: whole turns, pruned by policy.

What is left out follows from the turns so far alone, so the same conversation always gives the
same request. Between two prunings a request starts with the whole one before it, which is what a
provider's prompt cache needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        keep: screenshots that are always sent, unless they are too large.
        batch: screenshots beyond `keep` that may gather (and turns that are dropped at once)
            with `hysteresis`.
        max_turns_kept: the most turns sent; None for all of them. The task is always sent.
        max_image_bytes: the most bytes of images sent, as base64; None for no limit. Providers
            limit a request's size. Screenshots beyond it go whatever the policy, the oldest first
            and down to half of it, so that this happens seldom; the latest one stays.
    """

    model_config = ConfigDict(extra="forbid")

    policy: Literal["all", "last_n", "hysteresis"] = "all"
    keep: int = Field(default=3, ge=1)
    batch: int = Field(default=7, ge=1)
    max_turns_kept: int | None = Field(default=None, ge=1)
    max_image_bytes: int | None = Field(default=15_000_000, ge=1)

    @model_validator(mode="after")
    def _leaves_turns(self) -> HistoryPolicy:
        if self.max_turns_kept is not None and self.max_turns_kept <= self._slack:
            raise ValueError("max_turns_kept: must be more than batch, or no turn would be left")
        return self

    @property
    def _slack(self) -> int:
        return self.batch if self.policy == "hysteresis" else 0

    def screenshots_dropped(self, sizes: Sequence[int], *, others: int = 0) -> int:
        """Return how many screenshots are left out, oldest first.

        Args:
            sizes: of each screenshot, in bytes.
            others: bytes of images that are sent anyway.
        """
        budget = math.inf if self.max_image_bytes is None else self.max_image_bytes
        dropped, total = 0, others
        for count, size in enumerate(sizes, 1):
            total += size
            # Step by step, so that what was left out once is so in every later request.
            wanted = 0 if self.policy == "all" else _dropped(count, self.keep, self._slack)
            most = budget / 2 if total > budget else budget
            while dropped < count - 1 and (dropped < wanted or total > most):
                total -= sizes[dropped]
                dropped += 1
        return dropped

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

    def __init__(
        self, policy: HistoryPolicy, task: list[Item], screenshot: Item, *, omitted_image: str = ""
    ) -> None:
        """Begin a conversation.

        Args:
            policy: what is sent.
            task: the run's input.
            screenshot: the part of `task` that shows the start page.
            omitted_image: what stands for a screenshot that was left out of a computer call's
                output; by default nothing does, and its text says so.
        """
        self._policy = policy
        self._task = list(task)
        self._first = screenshot
        self._omitted_image = omitted_image
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
        first = len(self._first.get("image_url", ""))
        answers = [item for turn in self._turns for item in turn.answers]
        others = sum(image_sizes(self._task)) - first
        to_drop = self._policy.screenshots_dropped([first, *image_sizes(answers)], others=others)
        drop_turns = self._policy.turns_dropped(len(self._turns))
        sent = [self._without_first(item) for item in self._task] if to_drop else [*self._task]
        pruned = iter(without_images(answers, to_drop - 1, self._omitted_image))
        for index, turn in enumerate(self._turns):
            answered = [next(pruned) for _ in turn.answers]
            if index >= drop_turns:
                sent += [*turn.reply, *answered]
        return sent

    def _without_first(self, item: Item) -> Item:
        parts = item.get("content")
        if not isinstance(parts, list) or not any(part is self._first for part in parts):
            return item
        parts = [text_part(OMITTED) if part is self._first else part for part in parts]
        return {**item, "content": parts}


def image_sizes(items: Sequence[Item]) -> list[int]:
    """Return the bytes of each image in messages and outputs, in order; of files 0."""
    return [size for item in items for size in _sizes(item)]


def without_images(items: Sequence[Item], count: int, omitted_image: str = "") -> list[Item]:
    """Return messages and outputs without their first images.

    Args:
        items: messages and outputs.
        count: how many images to leave out.
        omitted_image: see `History`.
    """
    result = []
    for item in items:
        here = min(max(count, 0), len(_sizes(item)))
        result.append(_without(item, here, omitted_image))
        count -= here
    return result


def _parts_key(item: Item) -> str:
    return "output" if item.get("type") == "function_call_output" else "content"


def _sizes(item: Item) -> list[int]:
    if item.get("type") == "computer_call_output":
        url = item["output"].get("image_url")
        return [len(url)] if url else []
    parts = item.get(_parts_key(item))
    if not isinstance(parts, list):  # a text, or an item that holds neither
        return []
    return [len(p.get("image_url") or "") for p in parts if p.get("type") == "input_image"]


def _without(item: Item, count: int, omitted_image: str) -> Item:
    """Return an item without its first `count` images."""
    if count == 0:
        return item
    if item.get("type") == "computer_call_output":
        output = {**item["output"], "image_url": omitted_image}
        if not omitted_image:
            said = output.get("text")
            output["text"] = f"{said}\n{OMITTED}" if said else OMITTED
        return {**item, "output": output}
    key, parts = _parts_key(item), []
    for part in item[_parts_key(item)]:
        if part["type"] == "input_image" and count:
            part, count = text_part(OMITTED), count - 1
        parts.append(part)
    return {**item, key: parts}
