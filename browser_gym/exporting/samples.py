"""The samples a rollout gives, in each format.

All samples name their rollout (`id`, `task_id`, `group`, `rollout`) and have the reward of the
whole rollout, however many of them it gives. The README describes the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from browser_gym.exporting.chat import conversation, split_images, with_last_image_only
from browser_gym.exporting.left_out import LeftOut
from browser_gym.exporting.tokens import NO_TOKENS, Sequence, sequences
from browser_gym.rollouts import Rollout
from resources_servers.browser_gym.groups import is_masked

Format = Literal["whole", "segmented", "stepwise", "sft"]
Sample = dict[str, Any]
Place = Callable[[str], str]
SEVERAL = "several segments"


def samples_of(rollout: Rollout, form: Format, place: Place) -> list[Sample]:
    """Return a rollout's samples.

    Args:
        rollout: the rollout.
        form: of the samples.
        place: returns how a sample refers to an image that the row refers to.

    Raises:
        LeftOut: it has no samples in this format.
    """
    return _MAKERS[form](rollout, place)


def _whole(rollout: Rollout, place: Place) -> list[Sample]:
    found = sequences(rollout.row)
    if len(found) > 1:
        raise LeftOut(SEVERAL, f"it has {len(found)}; the formats segmented and stepwise take them")
    return [_common(rollout) | _tokens(found[0], place)]


def _segmented(rollout: Rollout, place: Place) -> list[Sample]:
    found = sequences(rollout.row)
    return [
        _common(rollout, f"/{index}")
        | {"segment": index, "segments": len(found), "turns": sequence.turns}
        | _tokens(sequence, place)
        for index, sequence in enumerate(found)
    ]


def _stepwise(rollout: Rollout, place: Place) -> list[Sample]:
    chat = conversation(rollout.row)
    alone = _seen_alone(rollout.row) if chat.turns_known else {}
    samples = []
    for turn, reply in zip(chat.turns, chat.replies, strict=True):
        prompt, images = split_images(with_last_image_only(chat.messages[:reply]))
        sample = _common(rollout, f"/{turn}") | {
            "turn": turn,
            "turns": len(chat.replies),
            "prompt": prompt,
            "completion": [chat.messages[reply]],
            "images": [place(image) for image in images],
            "token_ids": None,
            "loss_mask": None,
            "log_probs": None,
        }
        sequence = alone.get(turn)
        if sequence and sequence.images == images:
            sample |= _tokens(sequence, place)
        samples.append(sample)
    return samples


def _sft(rollout: Rollout, place: Place) -> list[Sample]:
    chat = conversation(rollout.row)
    messages, images = split_images(chat.messages[: chat.replies[-1] + 1])
    return [_common(rollout) | {"messages": messages, "images": [place(image) for image in images]}]


def _seen_alone(row: dict[str, Any]) -> dict[int, Sequence]:
    """Return the sequences of segments with one reply: its prompt is all it had, by turn."""
    try:
        found = sequences(row)
    except LeftOut as error:
        if error.reason != NO_TOKENS:
            raise
        return {}
    return {sequence.turns[0]: sequence for sequence in found if len(sequence.turns) == 1}


def _common(rollout: Rollout, part: str = "") -> Sample:
    row = rollout.row
    return {
        "id": f"{rollout.group}/{rollout.rollout}{part}",
        "task_id": rollout.task_id,
        "group": rollout.group,
        "rollout": rollout.rollout,
        "reward": float(row["reward"]),
        "mask_sample": is_masked(row),
        "termination_reason": row.get("termination_reason"),
    }


def _tokens(sequence: Sequence, place: Place) -> Sample:
    return {
        "token_ids": sequence.token_ids,
        "loss_mask": sequence.loss_mask,
        "log_probs": sequence.log_probs,
        "images": [place(image) for image in sequence.images],
    }


_MAKERS: dict[Format, Callable[[Rollout, Place], list[Sample]]] = {
    "whole": _whole,
    "segmented": _segmented,
    "stepwise": _stepwise,
    "sft": _sft,
}
