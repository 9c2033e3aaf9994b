"""Responses items as the chat messages that a processor's template takes."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image

Message = dict[str, Any]


def chat_messages(items: list[dict[str, Any]]) -> list[Message]:
    """Return messages with decoded images; for a thread, as decoding takes its time.

    Args:
        items: messages of a request's input, and of replies.
    """
    return [{"role": item["role"], "content": _content(item["content"])} for item in items]


def images_of(messages: list[Message]) -> list[Image.Image]:
    """Return the images of messages, in order."""
    parts = [part for m in messages if isinstance(m["content"], list) for part in m["content"]]
    return [part["image"] for part in parts if part["type"] == "image"]


def _content(content: str | list[dict[str, Any]]) -> str | list[Message]:
    if isinstance(content, str):
        return content
    if all(part["type"] == "output_text" for part in content):
        return "".join(part["text"] for part in content)
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> Message:
    if part["type"] == "input_image":
        return {"type": "image", "image": _decoded(part["image_url"])}
    return {"type": "text", "text": part["text"]}


def _decoded(url: str) -> Image.Image:
    if not url.startswith("data:"):
        raise ValueError(f"an image of a task must be a data URL, not {url[:100]!r}")
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
