"""The screenshots that a row refers to."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_BEGINNINGS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


@dataclass(frozen=True)
class Picture:
    """An encoded image and its media type."""

    data: bytes
    media_type: str


def read_picture(reference: str, folder: Path) -> Picture | None:
    """Return an image that a row refers to; None if there is none.

    Only what is an image is returned: a row could name any file.

    Args:
        reference: the row's: a path, or a `file:` or `data:` address.
        folder: of the row's file, which paths are relative to.
    """
    data = _data(reference) if reference.startswith("data:") else _file(reference, folder)
    media_type = data and _media_type(data)
    return Picture(data, media_type) if data and media_type else None


def picture_file(reference: str, folder: Path) -> Path | None:
    """Return the file of an image that a row refers to; None if there is none, or it is no image.

    Args:
        reference: the row's: a path, or a `file:` address.
        folder: of the row's file, which paths are relative to.
    """
    try:
        path = Path(unquote(urlsplit(reference).path)) if reference[:5] == "file:" else reference
        path = (folder / path).resolve()
        if not path.is_file():  # a pipe or a device would never end
            return None
        with path.open("rb") as file:
            return path if _media_type(file.read(16)) else None
    except (OSError, ValueError, RuntimeError):  # also what is no name of a file at all
        return None


def _file(reference: str, folder: Path) -> bytes | None:
    path = picture_file(reference, folder)
    try:
        return path.read_bytes() if path else None
    except OSError:
        return None


def _data(url: str) -> bytes | None:
    try:
        return base64.b64decode(url.partition(",")[2], validate=True)
    except binascii.Error:
        return None


def _media_type(data: bytes) -> str | None:
    for beginning, media_type in _BEGINNINGS.items():
        if data.startswith(beginning):
            return media_type
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
