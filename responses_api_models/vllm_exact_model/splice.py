"""Prompts that continue exactly what a model has seen and sampled. Pure functions on token ids.

A chat template renders a conversation anew for every turn, and what comes of a reply then is not
what was sampled: the tokenizer cuts its text otherwise, and templates strip thoughts and rewrite
calls. So only what follows the last reply is taken from the template; everything before it is
the tokens that stand on the reply.

The engine takes a prompt with one token per image and puts the image's own number in its place.
Here that token is called the pad, the row of them the expansion, and a prompt with one pad per
image the short prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

Range = tuple[int, int]
"""Offset and length of one image's expansion, in tokens."""


class NotContinuable(ValueError):
    """The tokens do not belong to this conversation, or cannot be used. The text says why."""


@dataclass(frozen=True)
class Call:
    """The tokens of one model call.

    Attributes:
        prompt: What the model was given, images expanded.
        generated: What it sampled.
    """

    prompt: list[int]
    generated: list[int]


@dataclass(frozen=True)
class Prompt:
    """What the model is to be given.

    Attributes:
        ids: Images expanded, as the engine must report it.
        short: As the engine is asked for it.
        pad: The token in the place of an image; None if there is none.
    """

    ids: list[int]
    short: list[int]
    pad: int | None


def rendered(ids: list[int], images: Sequence[Range]) -> Prompt:
    """Return a prompt that is used as it was rendered.

    Args:
        ids: The rendered tokens, images expanded.
        images: Where the images are.

    Raises:
        NotContinuable: An image's expansion is not a row of one token.
    """
    pad = _pad(ids, images)
    return Prompt(ids, _shorten(ids, images), pad)


def continued(
    call: Call, ids: list[int], images: Sequence[Range], *, mark: Sequence[int], images_before: int
) -> Prompt:
    """Return a prompt that starts with all that the last call has seen and sampled.

    Args:
        call: The last call of the conversation so far.
        ids: The conversation as it was rendered with the mark in the place of that call's reply,
            images expanded.
        images: Where the images are in `ids`.
        mark: The tokens of the mark.
        images_before: How many images the conversation has before that reply.

    Raises:
        NotContinuable: The call is not one of this conversation.
    """
    after = _end_of(mark, ids)
    tail, tail_images = ids[after:], [(at - after, n) for at, n in images if at >= after]
    if not tail:
        raise NotContinuable("the chat template writes nothing behind a reply")
    if len(images) - len(tail_images) != images_before:
        raise NotContinuable("the chat template moves images to behind a reply")
    pad = _pad(ids, images)
    prefix = call.prompt + call.generated
    short, found = _collapse(prefix, pad)
    if found != images_before:
        raise NotContinuable(f"the tokens hold {found} images and the messages {images_before}")
    # The end of the turn is the model's where it sampled one, else the template's.
    if prefix[-1] == tail[0]:
        tail, tail_images = tail[1:], [(at - 1, n) for at, n in tail_images]
    return Prompt(prefix + tail, short + _shorten(tail, tail_images), pad)


def _pad(ids: Sequence[int], images: Sequence[Range]) -> int | None:
    """Return the token that stands for an image."""
    pads = {token for at, length in images for token in ids[at : at + length]}
    if len(pads) > 1:
        raise NotContinuable("this model's images are not rows of one token")
    return next(iter(pads), None)


def _shorten(ids: list[int], images: Sequence[Range]) -> list[int]:
    """Return tokens with the first one alone of each image."""
    short, done = [], 0
    for at, length in sorted(images):
        short += ids[done : at + 1]
        done = at + length
    return short + ids[done:]


def _collapse(ids: Sequence[int], pad: int | None) -> tuple[list[int], int]:
    """Return tokens with one pad for each row of them, and how many rows there are."""
    short, rows = [], 0
    for token, row in groupby(ids):
        if token == pad:
            short.append(token)
            rows += 1
        else:
            short += row
    return short, rows


def _end_of(mark: Sequence[int], ids: Sequence[int]) -> int:
    """Return where the last occurrence of the mark ends.

    Its first token is not looked for: some tokenizers join it with what is before.
    """
    core = list(mark[1:])
    for at in range(len(ids) - len(core), 0, -1):
        if ids[at] == core[0] and ids[at : at + len(core)] == core:
            return at + len(core)
    raise NotContinuable("the chat template does not write a reply's text as it is")
