"""A small tokenizer and chat template for the vLLM simulator, with the traits that break prompts.

One text has many tokenizations, and a model need not sample the one that `encode` would give. The
template leaves thoughts out of earlier turns, strips replies, and writes calls in its own way.
"""

import base64
import functools
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from PIL import Image

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|image_pad|>",
    "<|vision_end|>",
)
# Tokens of their own that are written as text.
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
WORDS = ("th", "he", "the", "cl", "ick", "click", "scroll", "do", "ne", "done", "  ", "\n\n", "Re")
PARTS = [bytes([value]) for value in range(256)] + [word.encode() for word in (*WORDS, *MARKS)]
IDS = {part: token for token, part in enumerate(PARTS)}
SPECIAL_IDS = {text: len(PARTS) + index for index, text in enumerate(SPECIALS)}
VOCABULARY = len(PARTS) + len(SPECIALS)
END, PAD = SPECIAL_IDS["<|im_end|>"], SPECIAL_IDS["<|image_pad|>"]
PIXELS_A_TOKEN = 28
_TOKENS = IDS | {text.encode(): token for text, token in SPECIAL_IDS.items()}
_LONGEST_FIRST = sorted((part for part in _TOKENS if len(part) > 1), key=len, reverse=True)
_PIECES = re.compile(b"|".join(map(re.escape, _LONGEST_FIRST)) + b"|.", re.DOTALL)

Json = dict[str, Any]


def encode(text: str) -> list[int]:
    """Return a text's tokens: special ones wherever they are written, else the longest that fit."""
    return [_TOKENS[part] for part in _PIECES.findall(text.encode())]


def decode(ids: Sequence[int], *, skip_special: bool = True) -> str:
    """Return the text of tokens."""
    parts = [
        PARTS[token]
        if token < len(PARTS)
        else b""
        if skip_special
        else SPECIALS[token - len(PARTS)].encode()
        for token in ids
    ]
    return b"".join(parts).decode(errors="replace")


@functools.cache
def image_tokens(url: str) -> int:
    """Return how many tokens an image has.

    Raises:
        ValueError: It is no data URL of an image.
    """
    try:
        image = Image.open(io.BytesIO(base64.b64decode(url.split(";base64,")[1], validate=True)))
    except (IndexError, OSError, ValueError) as error:
        raise ValueError(f"Failed to load image: {error}") from error
    return -(-image.width // PIXELS_A_TOKEN) * -(-image.height // PIXELS_A_TOKEN)


def chat_text(messages: list[Json], tools: list[Json] | None) -> str:
    """Return a conversation as the template writes it, with one pad per image."""
    text = ""
    if tools:
        text += f"<|im_start|>system\n# Tools\n{json.dumps(tools)}<|im_end|>\n"
    asked = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for index, message in enumerate(messages):
        body = _content(message.get("content"))
        if message["role"] == "assistant":
            thought = message.get("reasoning") or ""
            body = body.strip()
            if thought and index > asked:
                body = f"<think>\n{thought.strip()}\n</think>\n\n{body}"
            for call in message.get("tool_calls") or []:
                body += f"\n<tool_call>\n{_call(call['function'])}\n</tool_call>"
        if message["role"] == "tool":
            text += f"<|im_start|>user\n<tool_response>\n{body}\n</tool_response><|im_end|>\n"
        else:
            text += f"<|im_start|>{message['role']}\n{body}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return content or ""
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    return "".join(part["text"] if part["type"] == "text" else image for part in content)


def _call(function: Json) -> str:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return json.dumps({"name": function["name"], "arguments": arguments})


def expand(ids: list[int], sizes: list[int]) -> tuple[list[int], list[Json]]:
    """Return a prompt with its first pads expanded, as vLLM does, and where.

    Raises:
        LookupError: There are fewer pads than images.
    """
    whole: list[int] = []
    ranges: list[Json] = []
    for token in ids:
        if token == PAD and len(ranges) < len(sizes):
            ranges.append({"offset": len(whole), "length": sizes[len(ranges)]})
            whole += [PAD] * sizes[len(ranges) - 1]
        else:
            whole.append(token)
    if len(ranges) < len(sizes):
        raise LookupError(
            f"Failed to apply prompt replacement for mm_items['image'][{len(ranges)}]"
        )
    return whole, ranges
