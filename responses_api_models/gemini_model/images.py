"""Images of a request, from data URLs to Gemini's inline data."""

import base64
import re
from collections.abc import Callable
from typing import Any

from responses_api_models.gemini_model.settings import InvalidRequest

Json = dict[str, Any]

_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_HEADER_CHARS = 32  # base64 of the first 24 bytes
# The image types that Gemini documents, and how a file of each begins.
_STARTS: dict[str, Callable[[bytes], bool]] = {
    "image/png": lambda start: start.startswith(b"\x89PNG\r\n\x1a\n") and start[12:16] == b"IHDR",
    "image/jpeg": lambda start: start.startswith(b"\xff\xd8\xff"),
    "image/webp": lambda start: start.startswith(b"RIFF") and start[8:12] == b"WEBP",
    "image/heic": lambda start: start[4:8] == b"ftyp",
    "image/heif": lambda start: start[4:8] == b"ftyp",
}


def inline_image(url: Any, path: str) -> Json:
    """Return a data URL as inline data.

    Args:
        url: The data URL.
        path: Where it is in the request, for errors.

    Raises:
        InvalidRequest: It is none, or not of an image that Gemini takes.
    """
    head = _DATA_URL.match(url) if isinstance(url, str) else None
    if head is None:
        raise InvalidRequest(f"{path}: give the image as a base64 data URL, not {url!r:.60}")
    kind, data = head[1], url[head.end() :]
    if kind not in _STARTS:
        raise InvalidRequest(f"{path}: Gemini takes no {kind}; give one of {', '.join(_STARTS)}")
    if not _BASE64.fullmatch(data) or len(data) % 4:
        raise InvalidRequest(f"{path}: the image is not valid base64")
    if not _STARTS[kind](base64.b64decode(data[:_HEADER_CHARS])):
        raise InvalidRequest(f"{path}: the data is no {kind}")
    return {"inlineData": {"mimeType": kind, "data": data}}
