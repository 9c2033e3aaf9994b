"""Token sequences of a rollout: one per segment, each with the tokens the model really saw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from browser_gym.exporting.items import image_urls, is_of_model
from browser_gym.exporting.left_out import LeftOut

PROMPT, GENERATED, LOG_PROBS = "prompt_token_ids", "generation_token_ids", "generation_log_probs"
NO_TOKENS = "no token ids"
UNUSABLE = "unusable token ids"


@dataclass(frozen=True)
class Sequence:
    """One segment of a rollout.

    Attributes:
        turns: the indices of the replies in it.
        token_ids: prompts and replies in order.
        loss_mask: 1 where the model sampled the token, else 0.
        log_probs: of the sampled tokens, as they were sampled; 0 elsewhere.
        images: references to the images behind the image tokens, in order.
    """

    turns: list[int]
    token_ids: list[int]
    loss_mask: list[int]
    log_probs: list[float]
    images: list[str]


def sequences(row: dict[str, Any]) -> list[Sequence]:
    """Return a row's segments as sequences.

    Raises:
        LeftOut: there are no token ids, or they contradict each other.
    """
    segments = row.get("segments") or list(_segments_of_items(row))
    found = [_sequence(segment, f"segments[{i}]") for i, segment in enumerate(segments)]
    if not found:
        raise LeftOut(NO_TOKENS, "the model server gave none, or the rollout has no reply")
    return found


def _sequence(segment: dict[str, Any], place: str) -> Sequence:
    sequence = Sequence([], [], [], [], [])
    for number, step in enumerate(segment["steps"]):
        where = f"{place}.steps[{number}]"
        try:
            prompt, generated = step["new_prompt_token_ids"], step[GENERATED]
            log_probs, images = step[LOG_PROBS], step["new_images"]
        except KeyError as error:
            raise LeftOut(UNUSABLE, f"{where} has no {error}") from error
        if len(generated) != len(log_probs):
            counts = f"{len(generated)} ids, but {len(log_probs)} log probabilities"
            raise LeftOut(UNUSABLE, f"{where} has {counts}")
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in log_probs):
            raise LeftOut(UNUSABLE, f"{where}.{LOG_PROBS} holds what is no finite number")
        if not all(type(token) is int for token in [*prompt, *generated]):
            raise LeftOut(UNUSABLE, f"{where} holds a token id that is no whole number")
        sequence.turns.append(step["turn"])
        sequence.token_ids.extend([*prompt, *generated])
        sequence.loss_mask.extend([0] * len(prompt) + [1] * len(generated))
        sequence.log_probs.extend([0.0] * len(prompt) + [float(value) for value in log_probs])
        sequence.images.extend(images)
    if not any(sequence.loss_mask):
        raise LeftOut(UNUSABLE, f"{place} has no token that the model sampled")
    return sequence


def _segments_of_items(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the segments of a row that has its token ids on its items alone.

    Agents that know no segments give such rows. Where a prompt does not start with the tokens
    before it, a segment begins; its images are then not known, so there may be none.
    """
    items = row["response"].get("output") or []
    given = (row.get("responses_create_params") or {}).get("input") or []
    images = image_urls(given) if isinstance(given, list) else []
    steps: list[dict[str, Any]] = []
    seen: list[int] = []
    turn, in_reply, any_image = -1, False, bool(images)
    for item in items:
        if is_of_model(item) and not in_reply:
            turn += 1
        in_reply = is_of_model(item)
        if not in_reply:
            images += (new := image_urls([item]))
            any_image = any_image or bool(new)
        if not item.get(GENERATED):
            continue
        if item[PROMPT][: len(seen)] != seen:
            if any_image:
                detail = f"the prompt of turn {turn} differs from the tokens before it"
                raise LeftOut(UNUSABLE, f"{detail}, so which images it holds is not known")
            yield {"steps": steps}
            steps, seen = [], []
        steps.append(
            {
                "turn": turn,
                "new_prompt_token_ids": item[PROMPT][len(seen) :],
                "new_images": images,
                GENERATED: item[GENERATED],
                LOG_PROBS: item.get(LOG_PROBS) or [],
            }
        )
        seen, images = item[PROMPT] + item[GENERATED], []
    if steps:
        yield {"steps": steps}
