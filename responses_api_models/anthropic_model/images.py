"""Image sizes: what a model sees unscaled, and pixels of what was sent to CSS pixels and back.

A model that gets too large an image sees a smaller one (older tools) or refuses it (toolsets), and
aims at what it sees. So an image is made small enough here, and the frame remembers by how much.
"""

import base64
import binascii
import functools
import hashlib
import io
import re
import struct
from dataclasses import dataclass
from typing import Any, Self

from PIL import Image, UnidentifiedImageError

from responses_api_models.anthropic_model.errors import BadRequest

PATCH_PX = 28
# A request with more than 20 images may hold none with a longer side. A conversation grows beyond
# that, and to shrink its earlier screenshots then would move what was aimed at; so it always holds.
MANY_IMAGES_EDGE_PX = 2000
# Anthropic's limit for one image, of base64 text.
MAX_IMAGE_CHARS = 5 * 1024 * 1024
# A redrawn image is no longer than this or than it came, if JPEG helps: who sends it may count the
# bytes of a request, which are limited.
SMALL_IMAGE_CHARS = 256 * 1024
_JPEG_QUALITIES = (90, 75, 50)

_UNREADABLE = (binascii.Error, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError)

_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,", re.ASCII)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER_CHARS = 32  # base64 of the 24 bytes that end with width and height


@dataclass(frozen=True)
class ImageLimits:
    """The largest image a model sees unscaled: longest side in px, and 28-px patches."""

    long_edge: int
    tokens: int

    def allow(self, width: int, height: int) -> bool:
        """Say whether an image of this size in px stays as it is."""
        patches = -(-width // PATCH_PX) * -(-height // PATCH_PX)
        edge = min(self.long_edge, MANY_IMAGES_EDGE_PX)
        return max(width, height) <= edge and patches <= self.tokens

    def fit(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of these proportions that is allowed, at most the given one."""
        if self.allow(width, height):
            return width, height
        longer, shorter = max(width, height), min(width, height)
        low, high = 1, longer
        while low < high:  # the largest allowed longer side
            middle = (low + high + 1) // 2
            if self.allow(middle, max(1, round(shorter * middle / longer))):
                low = middle
            else:
                high = middle - 1
        other = max(1, round(shorter * low / longer))
        return (low, other) if width >= height else (other, low)


@dataclass(frozen=True)
class Frame:
    """A viewport in CSS px, and the size in px of the screenshots that the model gets of it."""

    width: int
    height: int
    sent_width: int
    sent_height: int

    @classmethod
    def of(cls, width: int, height: int, limits: ImageLimits) -> Self:
        """Return the frame of a viewport for a model's limits."""
        return cls(width, height, *limits.fit(width, height))

    def to_css(self, x: float, y: float) -> tuple[float, float]:
        """Return where a pixel of a sent screenshot is in the viewport."""
        return _plain(x * self.width / self.sent_width), _plain(y * self.height / self.sent_height)

    def to_sent(self, x: float, y: float) -> tuple[int, int]:
        """Return the pixel of a sent screenshot that shows a point of the viewport."""
        return round(x * self.sent_width / self.width), round(y * self.sent_height / self.height)


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


def image_block(
    data_url: str, limits: ImageLimits, field: str, *, size: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Return the image block of a data URL, shrunk if need be.

    Args:
        data_url: The image.
        limits: What the model sees unscaled.
        field: Name of the request's field, for the message of an error.
        size: The size in px that the image must have; by default what fits the limits.

    Raises:
        BadRequest: It is no data URL of a PNG, JPEG, WebP or GIF image.
    """
    match = _DATA_URL.match(data_url)
    if match is None:
        raise BadRequest(field, "expected a data URL of a PNG, JPEG, WebP or GIF image")
    media_type, data = match[1], data_url[match.end() :]
    try:
        actual = _size_of(data)
        wanted = size or limits.fit(*actual)
        if actual != wanted or len(data) > MAX_IMAGE_CHARS:
            media_type, data = _redrawn(_Encoded(data), media_type, wanted)
    except (*_UNREADABLE, OSError, ValueError) as error:
        raise BadRequest(field, f"the image cannot be read: {error}") from error
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _size_of(data: str) -> tuple[int, int]:
    """Return width and height, from the header alone where that is easy."""
    head = base64.b64decode(data[:_PNG_HEADER_CHARS], validate=True)
    if head.startswith(_PNG_SIGNATURE) and len(head) == 24:
        return struct.unpack(">II", head[16:24])
    with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
        return image.size


class _Encoded:
    """An image's base64 text that is compared by its digest, so that a cache need not keep it."""

    def __init__(self, data: str) -> None:
        self.data: str | None = data
        self.digest = hashlib.sha256(data.encode()).digest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Encoded) and self.digest == other.digest

    def take(self) -> str:
        """Return the text and forget it."""
        data, self.data = self.data, None
        assert data is not None
        return data


# A conversation sends its screenshots again each turn; 256 are those of several conversations.
@functools.lru_cache(maxsize=256)
def _redrawn(encoded: _Encoded, media_type: str, size: tuple[int, int]) -> tuple[str, str]:
    """Return the media type and base64 of an image in another size, or as JPEG if too long."""
    given = encoded.take()
    longest = min(max(len(given), SMALL_IMAGE_CHARS), MAX_IMAGE_CHARS)
    raw = base64.b64decode(given, validate=True)
    with Image.open(io.BytesIO(raw)) as image:
        image.load()
        if image.size == size:
            drawn: Image.Image = image
        else:
            wide = image.convert("RGB")
            drawn = wide.resize(size, Image.Resampling.LANCZOS)
        if media_type == "image/jpeg":
            data = _saved(drawn, "JPEG", quality=_JPEG_QUALITIES[0])
        else:
            media_type, data = "image/png", _saved(drawn, "PNG", compress_level=1)
        for quality in _JPEG_QUALITIES:
            if len(data) <= longest:
                break
            media_type, data = "image/jpeg", _saved(drawn, "JPEG", quality=quality)
    return media_type, data


def _saved(image: Image.Image, format_name: str, **options: Any) -> str:
    buffer = io.BytesIO()
    if format_name == "JPEG":
        image = image.convert("RGB")
    image.save(buffer, format_name, **options)
    return base64.b64encode(buffer.getvalue()).decode()
