"""Reading Responses items. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Item = dict[str, Any]
CALLS = ("function_call", "computer_call")
OUTPUTS = ("function_call_output", "computer_call_output")


def is_of_model(item: Item) -> bool:
    """Whether the model wrote an item."""
    if item.get("type") in ("reasoning", *CALLS):
        return True
    return item.get("type", "message") == "message" and item.get("role") == "assistant"


def image_urls(items: Iterable[Item]) -> list[str]:
    """Return the addresses of the images in items, in order."""
    return [url for item in items for part in parts_of(item) if (url := image_url(part))]


def parts_of(item: Item) -> Iterator[Item]:
    """Yield the parts of a message or of a call's output; a text is one part."""
    content = item.get("output") if item.get("type") in OUTPUTS else item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    elif isinstance(content, dict):  # a computer call's output: a picture and what there is to say
        text, url = content.get("text"), content.get("image_url")
        content = [{"type": "input_text", "text": text}] if text else []
        content += [{"type": "input_image", "image_url": url}] if url else []
    yield from content or []


def image_url(part: Item) -> str | None:
    """Return the address of the image that a part is, if it is one."""
    if part.get("type") not in ("input_image", "computer_screenshot"):
        return None
    return part.get("image_url") or None
