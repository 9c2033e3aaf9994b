"""One reply of the scripted model, in the format of OpenAI's Responses API."""

import json
import math
from collections.abc import Mapping
from typing import Any

from responses_api_models.scripted_model.script import (
    Place,
    Script,
    Turn,
    UnplaceableRequest,
    find_place,
    item_id,
)

MODEL = "scripted-model"

# Usage is an estimate, so that sums and prices have something to work on: 4 characters a token
# (OpenAI's rule of thumb for English), and for an image what a 1280×720 screenshot costs in
# OpenAI's tile rule (85 tokens and 170 for each of 6 tiles).
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 85 + 6 * 170
# An earlier turn that the request does not repeat: its screenshot, and its call.
TOKENS_PER_EARLIER_TURN = TOKENS_PER_IMAGE + 60
# OpenAI caches a prefix of 1024 tokens or more, in steps of 128.
CACHE_MINIMUM = 1024
CACHE_STEP = 128


def build_reply(
    request: Mapping[str, Any], scripts: Mapping[str, Script], *, token: str, now: int
) -> dict[str, Any]:
    """Give the reply to a request.

    Args:
        request: A Responses request.
        scripts: The scripts by task id.
        token: Random hexadecimal text, new for each reply: it makes the ids unique.
        now: The time, in seconds since the epoch.

    Returns:
        A Responses object.

    Raises:
        UnplaceableRequest: The request is at no place of a script, or lacks a tool it needs.
    """
    tools = request.get("tools") or []
    kinds = {tool.get("type") for tool in tools}
    computer = next((k for k in ("computer", "computer_use_preview") if k in kinds), None)
    place = find_place(request, scripts, single_actions=computer == "computer_use_preview")
    turn = _turn_at(place)
    _check_tools(turn, place, computer, tools)
    output = _items(turn, place.turn, token, single=computer == "computer_use_preview")
    task_id = place.script.task_id if place.script else ""
    return {
        "id": f"resp_{task_id}_{place.turn}_{token}",
        "object": "response",
        "created_at": now,
        "status": "completed",
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": tools,
        "usage": _usage(request, place.turn, output),
    }


def _turn_at(place: Place) -> Turn:
    if place.script is None:
        return Turn(answer="There is no script for this task.")
    if place.turn >= len(place.script.turns):
        return Turn(answer=f"The script of task {place.script.task_id} has ended.")
    return place.script.turns[place.turn]


def _check_tools(
    turn: Turn, place: Place, computer: str | None, tools: list[dict[str, Any]]
) -> None:
    where = f"Turn {place.turn} of task {place.script.task_id if place.script else None}"
    if turn.actions and computer is None:
        raise UnplaceableRequest(f"{where} needs a computer tool, but 'tools' has none.")
    if turn.function is None:
        return
    names = sorted(tool["name"] for tool in tools if tool.get("type") == "function")
    if turn.function["name"] not in names:
        raise UnplaceableRequest(
            f"{where} needs the function '{turn.function['name']}', but 'tools' has {names}."
        )


def _items(turn: Turn, number: int, token: str, *, single: bool) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    text = turn.message if turn.answer is None else turn.answer
    if text is not None:
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": item_id("msg", number, token, 0)}
        items.append(message | {"role": "assistant", "status": "completed", "content": [part]})
    if turn.actions:
        index = len(items)
        call = {
            "type": "computer_call",
            "id": item_id("cu", number, token, index),
            "call_id": item_id("call", number, token, index),
            "status": "completed",
            "pending_safety_checks": [],
        }
        actions = [dict(action) for action in turn.actions]
        items.append(call | ({"action": actions[0]} if single else {"actions": actions}))
    if turn.function is not None:
        index = len(items)
        items.append(
            {
                "type": "function_call",
                "id": item_id("fc", number, token, index),
                "call_id": item_id("call", number, token, index),
                "status": "completed",
                "name": turn.function["name"],
                "arguments": json.dumps(turn.function["arguments"]),
            }
        )
    return items


def _usage(request: Mapping[str, Any], turn: int, output: list[dict[str, Any]]) -> dict[str, Any]:
    sent = _tokens([request.get(name) for name in ("instructions", "input", "tools")])
    earlier = turn * TOKENS_PER_EARLIER_TURN
    if request.get("previous_response_id") is not None:
        sent += earlier
    cached = min(earlier, sent)
    cached = cached - cached % CACHE_STEP if cached >= CACHE_MINIMUM else 0
    given = _tokens(output)
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": given,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + given,
    }


def _tokens(value: Any) -> int:
    characters, images = _weigh(value)
    return math.ceil(characters / CHARACTERS_PER_TOKEN) + images * TOKENS_PER_IMAGE


def _weigh(value: Any) -> tuple[int, int]:
    """Return the characters and the images in a JSON value."""
    if isinstance(value, str) and value.startswith("data:image/"):
        return 0, 1
    if isinstance(value, dict):
        parts = [_weigh(entry) for entry in value.values()]
    elif isinstance(value, list):
        parts = [_weigh(entry) for entry in value]
    else:
        return (0 if value is None else len(str(value))), 0
    return sum(part[0] for part in parts), sum(part[1] for part in parts)
