"""What NeMo RL does with a rollout row, by its published rules, as far as our rows decide it.

Written anew from what its NeMo Gym environment, its advantage estimators and its single controller
document and do; it cannot be installed here. Where it would fail a whole batch, this raises.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from PIL import Image

Json = dict[str, Any]
IDS = "generation_token_ids"


class Refused(Exception):
    """NeMo RL would not take the row, and with it not the batch."""


@dataclass(frozen=True)
class Turn:
    """A pair of messages of NeMo RL's log: what is masked, and what is trained on."""

    prompt: list[int]
    generated: list[int]
    log_probs: list[float]
    images: list[Image.Image]


def turns_of(task: Json, row: Json) -> list[Turn]:
    """Return the turns of a row.

    Args:
        task: the row of the dataset.
        row: what the agent answered.

    Raises:
        Refused: the prompts are not contiguous, there is no turn, or a number is none.
    """
    items = row["response"]["output"]
    trained = [item for item in items if item.get(IDS)]
    binned = _images_of_turns(task, row)
    seen: list[int] = []
    turns = []
    for item, images in zip(trained, binned, strict=True):
        prompt, generated = item["prompt_token_ids"], item[IDS]
        if prompt[: len(seen)] != seen:
            raise Refused("not contiguous")
        if any(map(math.isnan, item["generation_log_probs"])):
            raise Refused("a log probability is no number")
        turns.append(Turn(prompt[len(seen) :], generated, item["generation_log_probs"], images))
        seen = prompt + generated
    if not turns:
        raise Refused("no generation data")
    return turns


def is_masked(row: Json) -> bool:
    """Whether the row is left out of the loss; the field at the top is not read."""
    return bool((row.get("instance_config") or {}).get("mask_sample"))


def advantages(group: Sequence[Json], *, masked_count: bool = False) -> list[float]:
    """Return each row's reward less the mean of the others of its group; masked rows get 0.

    Args:
        group: the rows of one task.
        masked_count: whether masked rows are among the others, as in the legacy loops; the single
            controller leaves them out.
    """
    counted = [masked_count or not is_masked(row) for row in group]
    found = []
    for index, row in enumerate(group):
        others = [r["reward"] for i, r in enumerate(group) if counted[i] and i != index]
        baseline = sum(others) / len(others) if others else row["reward"]
        found.append(0.0 if is_masked(row) else row["reward"] - baseline)
    return found


def _images_of_turns(task: Json, row: Json) -> list[list[Image.Image]]:
    """Return the images before each trained item; the first has those of the input too."""
    response = row["response"]
    asked = response.get("agent_input")
    if not isinstance(asked, list) or not asked:
        asked = task["responses_create_params"]["input"]
    binned = []
    waiting = [image for item in asked for image in _images_of(item)]
    for item in response["output"]:
        if item.get(IDS):
            binned.append(waiting)
            waiting = []
        else:
            waiting = waiting + _images_of(item)
    return binned


def _images_of(item: Json) -> list[Image.Image]:
    if item.get("role") == "assistant":
        return []
    if item.get("type") == "function_call_output":
        output = item["output"]
        opened = isinstance(output, str) and output.startswith(("data:image/", "http", "file://"))
        return [_open(output)] if opened else []
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return [_open(part["image_url"]) for part in parts if part.get("type") == "input_image"]


def _open(url: str) -> Image.Image:
    """Open an image as NeMo RL can: from data or an absolute file URL."""
    if url.startswith("data:"):
        return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise Refused(f"{url} cannot be opened from another folder")
    return Image.open(Path(unquote(parts.path)))
