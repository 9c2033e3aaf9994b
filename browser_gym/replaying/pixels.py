"""Compares screenshots."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageChops

from browser_gym.viewer.pictures import read_picture

_UNEQUAL_FROM = 32
"""By how much of 255 a colour of a pixel must differ: less is what JPEG makes of equal pixels."""

Pixels = Image.Image


def read_image(reference: str, folder: Path) -> Pixels | None:
    """Return the image that a row refers to; None if there is none.

    Args:
        reference: as the row has it.
        folder: of the row's file, which paths are relative to.
    """
    picture = read_picture(reference, folder)
    try:
        return decoded(picture.data) if picture else None
    except (OSError, Image.DecompressionBombError):
        return None


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
