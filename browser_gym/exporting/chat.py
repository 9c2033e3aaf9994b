"""A rollout as a chat: messages of system, user, assistant and tool, in the order of the episode.

The layout is the one that chat templates and trainers take: a message's `content` is a list of
parts, `{"type": "text", "text": …}` and `{"type": "image"}`; the images stand beside the messages,
in order; an assistant's calls are `tool_calls` with their arguments as JSON text, its thoughts
`reasoning_content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from browser_gym.exporting.items import (
    CALLS,
    OUTPUTS,
    Item,
    image_url,
    image_urls,
    is_of_model,
    parts_of,
)
from browser_gym.exporting.left_out import LeftOut

Message = dict[str, Any]
NO_CHAT = "something that chats do not have"
OMITTED = {"type": "text", "text": "[screenshot omitted]"}


@dataclass
class Conversation:
    """A rollout's messages; parts that are images hold their reference as `image`.

    Attributes:
        messages: all of them; a reply that the model was asked again for is not among them.
        replies: the index in `messages` of each reply of the model.
        turns: of each reply, the index in the row's `turns`.
        turns_known: whether these are right; not if a turn has no item of its own.
    """

    messages: list[Message] = field(default_factory=list)
    replies: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    turns_known: bool = True


def conversation(row: dict[str, Any]) -> Conversation:
    """Return a row as a conversation.

    Raises:
        LeftOut: it holds what no chat can say, or no reply of the model.
    """
    chat = Conversation(_first_messages(row))
    runs = [(mine, list(items)) for mine, items in groupby(row["response"]["output"], is_of_model)]
    turns = row.get("turns") or []
    told_apart = len(turns) == sum(mine for mine, _ in runs)
    chat.turns_known = told_apart or not turns
    turn = 0
    for mine, items in runs:
        if not mine:
            chat.messages += [_message(item) for item in items]
            continue
        if not (told_apart and turns[turn].get("nudged")):
            chat.replies.append(len(chat.messages))
            chat.turns.append(turn)
            chat.messages.append(_reply(items))
        turn += 1
    if not chat.replies:
        raise LeftOut("no reply of the model")
    return chat


def split_images(messages: Iterable[Message]) -> tuple[list[Message], list[str]]:
    """Return the messages without their images' references, and these in order."""
    images: list[str] = []
    split = []
    for message in messages:
        images += [part["image"] for part in message["content"] if "image" in part]
        parts = [{"type": "image"} if "image" in part else part for part in message["content"]]
        split.append({**message, "content": parts})
    return split, images


def with_last_image_only(messages: list[Message]) -> list[Message]:
    """Return the messages with words in place of all images but the last."""
    left = sum("image" in part for message in messages for part in message["content"])
    shown = []
    for message in messages:
        parts = []
        for part in message["content"]:
            left -= "image" in part
            parts.append(OMITTED if "image" in part and left else part)
        shown.append({**message, "content": parts})
    return shown


def _first_messages(row: dict[str, Any]) -> list[Message]:
    """Return what the model was asked first: its instructions, the task, the first screenshot."""
    params = row.get("responses_create_params") or {}
    given = params.get("input") or []
    items: list[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_message(item) for item in items]
    if params.get("instructions"):
        messages.insert(0, {"role": "system", "content": [_text(params["instructions"])]})
    first = (row.get("first_observation") or {}).get("screenshot")
    if first and first not in image_urls(items):
        # Rows without token ids hold the input as the task gives it.
        asked = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if asked is None:
            messages.append(asked := {"role": "user", "content": []})
        asked["content"].append({"type": "image", "image": first})
    return messages


def _message(item: Item) -> Message:
    if item.get("type") in OUTPUTS:
        return {"role": "tool", "tool_call_id": item["call_id"], "content": _parts(item)}
    if item.get("type", "message") != "message":
        if is_of_model(item):  # replies in the task's own input
            return _reply([item])
        raise LeftOut(NO_CHAT, f"an item of type {item['type']!r}")
    role = "system" if item["role"] == "developer" else item["role"]
    return {"role": role, "content": _parts(item)}


def _reply(items: list[Item]) -> Message:
    message: Message = {"role": "assistant", "content": []}
    thoughts = [text for item in items if item["type"] == "reasoning" for text in _thoughts(item)]
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    for item in items:
        if item["type"] == "message":
            message["content"] += _parts(item)
    calls = [_call(item) for item in items if item["type"] in CALLS]
    if calls:
        message["tool_calls"] = calls
    return message


def _thoughts(item: Item) -> list[str]:
    parts = [*(item.get("summary") or []), *(item.get("content") or [])]
    return [part["text"] for part in parts if part.get("text")]


def _call(item: Item) -> dict[str, Any]:
    if item["type"] == "function_call":
        name, arguments = item["name"], item["arguments"]
    else:
        actions = item.get("actions") or [item.get("action") or {}]
        set_ones = [{k: v for k, v in action.items() if v is not None} for action in actions]
        name, arguments = "computer", json.dumps({"actions": set_ones}, ensure_ascii=False)
    function = {"name": name, "arguments": arguments}
    return {"id": item["call_id"], "type": "function", "function": function}


def _parts(item: Item) -> list[Item]:
    return [_part(part) for part in parts_of(item)]


def _part(part: Item) -> Item:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return _text(part["text"])
    if kind == "refusal":
        return _text(part["refusal"])
    if url := image_url(part):
        return {"type": "image", "image": url}
    raise LeftOut(NO_CHAT, f"a part of type {kind!r}")


def _text(text: str) -> Item:
    return {"type": "text", "text": text}
