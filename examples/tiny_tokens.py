"""The tokens of the tiny policy: bytes, what surrounds messages, and a few pieces of replies.

A reply is a click on a cell of a grid, or the answer that ends the task, in Qwen3-VL's format. As
every piece of it is one token, the text of a reply has only one spelling in tokens, and a
conversation that grows by messages grows by tokens too.
"""

from __future__ import annotations

from typing import Any

COLUMNS, ROWS = 4, 2
"""The cells of the screen that can be clicked."""

SYSTEM, USER, ASSISTANT, IMAGE, END = range(256, 261)
"""Tokens below these are bytes; these begin a message, stand for an image, and end a message."""

_CALL = '<tool_call>\n{"name": "computer_use", "arguments": '
_CALL_END = "}\n</tool_call>"
_PIECES = (
    f'{_CALL}{{"action": "left_click", "coordinate": [',
    f'{_CALL}{{"action": "answer", "text": "Done."}}{_CALL_END}',
    *(
        f"{(2 * column + 1) * 500 // COLUMNS}, {(2 * row + 1) * 500 // ROWS}]}}{_CALL_END}"
        for row in range(ROWS)
        for column in range(COLUMNS)
    ),
)
TEXTS = dict(enumerate(_PIECES, END + 1))
"""The text of each token that only replies have; coordinates are thousandths of the screen."""

CLICK, DONE = END + 1, END + 2
CELLS = range(DONE + 1, DONE + 1 + COLUMNS * ROWS)
"""The middle of each cell, row by row."""


def options(before: int | None) -> range:
    """Return the tokens that may follow one of a reply; None is its beginning."""
    if before is None:
        return range(CLICK, DONE + 1)
    return CELLS if before == CLICK else range(END, END + 1)


def text_of(reply: list[int]) -> str:
    """Return the text of a reply's tokens, of which the last one ends it."""
    return "".join(TEXTS[token] for token in reply if token != END)


def tokens_of(reply: str) -> list[int]:
    """Return the tokens of a reply's text: its pieces, and bytes where none fits."""
    tokens: list[int] = []
    while reply:
        fitting = (token for token, text in TEXTS.items() if reply.startswith(text))
        if (token := next(fitting, None)) is None:
            tokens += reply[0].encode()
            reply = reply[1:]
        else:
            tokens.append(token)
            reply = reply.removeprefix(TEXTS[token])
    return tokens


def prompt_of(messages: list[dict[str, Any]]) -> tuple[list[int], list[str]]:
    """Return a chat's tokens up to where the reply begins, and the URLs of its images in order.

    Args:
        messages: of the Chat Completions API: texts, and images in messages of users.

    Raises:
        ValueError: a role or a part is of another kind.
    """
    tokens: list[int] = []
    images: list[str] = []
    for message in messages:
        role = message["role"]
        content: Any = message.get("content") or ""
        if role == "assistant" and isinstance(content, str):
            tokens += [ASSISTANT, *tokens_of(content), END]
            continue
        if role not in ("system", "user"):
            raise ValueError(f"messages of the role {role!r} cannot be read")
        tokens.append(SYSTEM if role == "system" else USER)
        parts: list[Any] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for part in parts:
            if part["type"] == "text":
                tokens += part["text"].encode()
            elif part["type"] == "image_url":
                tokens.append(IMAGE)
                images.append(part["image_url"]["url"])
            else:
                raise ValueError(f"parts of the type {part['type']!r} cannot be read")
        tokens.append(END)
    return [*tokens, ASSISTANT], images
