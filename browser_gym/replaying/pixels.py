"""Compares screenshots."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image, ImageChops

_UNEQUAL_FROM = 32
"""By how much of 255 a colour of a pixel must differ: less is what JPEG makes of equal pixels."""

Pixels = Image.Image


@dataclass(frozen=True)
class Unreadable:
    """A reference to an image that cannot be read, and why."""

    reason: str


def read_image(reference: str, folder: Path) -> Pixels | Unreadable:
    """Return the image that a row refers to.

    Args:
        reference: a path, or a `file:` or `data:` address.
        folder: of the row's file, which paths are relative to.
    """
    try:
        if reference.startswith("data:"):
            return decoded(base64.b64decode(reference.partition(",")[2]))
        path = unquote(urlsplit(reference).path) if reference.startswith("file:") else reference
        return decoded((folder / path).read_bytes())
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        return Unreadable(f"{reference[:200]} cannot be read: {error}")


def decoded(data: bytes) -> Pixels:
    """Return an encoded image as RGB pixels.

    Raises:
        OSError: it is none.
    """
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def unequal_share(one: Pixels, other: Pixels) -> float:
    """Return how much of two images is not the same, from 0 to 1; all of it if the sizes differ."""
    if one.size != other.size:
        return 1.0
    red, green, blue = ImageChops.difference(one, other).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return sum(most.histogram()[_UNEQUAL_FROM:]) / (one.width * one.height)
