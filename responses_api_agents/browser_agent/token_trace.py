"""The exact tokens of an episode, as a trainer needs them: segments, each one growing sequence.

The model server puts the prompt's and the reply's token ids on the last item of a reply. A prompt
must start with all the tokens before it, or a trainer would learn from what the model never saw.
Only when the agent itself leaves something out of the conversation may it start anew: then it does
not send the newest ids back, and a new segment begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from responses_api_agents.browser_agent.adapters.base import Item

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_ALL_FIELDS = (*TOKEN_FIELDS, "routed_experts")  # the last is only on items, and seldom


@dataclass(frozen=True)
class Step:
    """One reply of the model.

    Attributes:
        turn: its index among the episode's turns.
        new_prompt_token_ids: of its prompt, behind what its segment has already.
        new_images: references to the images among them, in order.
        generation_token_ids: of the reply.
        generation_log_probs: of these ids, when they were sampled.
    """

    turn: int
    new_prompt_token_ids: list[int]
    new_images: list[str]
    generation_token_ids: list[int]
    generation_log_probs: list[float]


@dataclass
class TokenTrace:
    """Follows an episode's replies.

    Attributes:
        segments: the steps of each.
        drift: how a prompt differs from the tokens before it, if one does, or what a reply's
            tokens lack; that reply and all behind it are left out.
    """

    segments: list[list[Step]] = field(default_factory=list)
    drift: str | None = None
    _tokens: list[int] = field(default_factory=list)
    _images: int = 0

    def add(
        self,
        turn: int,
        request: dict[str, Any],
        response: dict[str, Any],
        refer: Callable[[str], str],
    ) -> bool:
        """Follow a reply; one without token ids is only part of a later prompt.

        Args:
            turn: its index among the episode's turns.
            request: what was asked.
            response: the answer to it.
            refer: returns the reference to an image.

        Returns:
            Whether its tokens follow all those of the replies before it.
        """
        told = newest_with_tokens(response["output"])
        prompt, generated, log_probs = _tokens_of(told)
        if self.drift or not generated:
            return False
        if not prompt or len(generated) != len(log_probs):
            self.drift = (
                f"the reply of turn {turn} has {len(prompt)} token ids of its prompt, and "
                f"{len(generated)} of its own with {len(log_probs)} log probabilities: the model "
                "server must give all three, or ask it for no token ids"
            )
            return False
        before, reply, _ = _tokens_of(newest_with_tokens(request["input"]))
        if not self.segments or (before + reply)[: len(self._tokens)] != self._tokens:
            self.segments.append([])
            self._tokens, self._images = [], 0
        agreed = _common_length(self._tokens, prompt)
        if agreed < len(self._tokens):
            self.drift = (
                f"the prompt of turn {turn} differs from the tokens before it at {agreed} of "
                f"{len(self._tokens)}: the model server makes tokens of the conversation anew; use "
                "vllm_exact_model to train, or ask for no token ids"
            )
            return False
        images = image_urls(request["input"])
        new_images = [refer(url) for url in images[self._images :]]
        step = Step(turn, prompt[agreed:], new_images, generated, log_probs)
        self.segments[-1].append(step)
        self._tokens, self._images = prompt + generated, len(images)
        return len(self.segments) == 1

    def as_json(self) -> list[dict[str, Any]]:
        """Return the segments for a row."""
        return [{"steps": [vars(step) for step in steps]} for steps in self.segments if steps]


def newest_with_tokens(items: Sequence[Item]) -> Item | None:
    """Return the last item with token ids, which stand for all items up to it."""
    return next((i for i in reversed(items) if any(i.get(name) for name in TOKEN_FIELDS)), None)


def without_tokens(item: Item) -> Item:
    """Return an item without token ids."""
    return {key: value for key, value in item.items() if key not in _ALL_FIELDS}


def image_urls(items: Sequence[Item]) -> list[str]:
    """Return the addresses of all images in messages and functions' outputs, in order."""
    return [
        part["image_url"]
        for item in items
        for key in ("content", "output")
        if isinstance(parts := item.get(key), list)
        for part in parts
        if isinstance(part, dict) and part.get("type") == "input_image" and part.get("image_url")
    ]


def _tokens_of(item: Item | None) -> tuple[list[int], list[int], list[float]]:
    """Return an item's token fields; what is missing is empty."""
    prompt, generated, log_probs = ((item or {}).get(name) or [] for name in TOKEN_FIELDS)
    return prompt, generated, log_probs


def _common_length(tokens: list[int], prompt: list[int]) -> int:
    """Return how many of `tokens` the prompt starts with."""
    if prompt[: len(tokens)] == tokens:
        return len(tokens)
    pairs = enumerate(zip(tokens, prompt, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(tokens), len(prompt)))
