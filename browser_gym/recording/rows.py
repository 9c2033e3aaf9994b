"""A recording as rows: of the task, and of the rollout. Pure functions but for the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from browser_gym.recording.proposal import TO_CHECK, proposed
from browser_gym.recording.record import Recording
from browser_gym.recording.watch import Look
from resources_servers.browser_gym.redaction import hide_secrets, without_secrets

Json = dict[str, Any]
Store = Callable[[Look], str]
"""Stores what was seen, and returns how a row refers to it."""

NOT_GRADED = "browser_gym:not_graded"
_NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0} | {
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def task_row(recording: Recording, task_id: str, prompt: str, answer: str) -> Json:
    """Return a task whose assertions hold for what was done, for a person to check."""
    asked, start = recording.asked, recording.start
    metadata = {
        "task_id": task_id,
        "start_url": asked.url,
        "viewport": {"width": asked.width, "height": asked.height},
        "verifier": "local_storage",
        "assertions": proposed(start.storage, recording.left, answer),
        "to_check": f"what a title calls {TO_CHECK.strip()!r} is only what was left behind, not "
        "what the task asks for",
    }
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "verifier_metadata": metadata,
    }


def rollout_row(recording: Recording, task: Json, answer: str, store: Store) -> Json:
    """Return what was done as a rollout of the task that nobody has graded: it is masked."""
    actions = recording.actions
    afters = [*(recorded.before or recording.end for recorded in actions[1:]), recording.end]
    output: list[Json] = []
    turns: list[Json] = []
    for index, (recorded, after) in enumerate(zip(actions, afters, strict=True)):
        action, call_id = recorded.action, f"call_{index}"
        fields = {key: value for key, value in action.items() if key != "type"}
        call = {
            "type": "function_call",
            "id": f"fc_{index}",
            "call_id": call_id,
            "name": action["type"],
            "arguments": json.dumps(fields, ensure_ascii=False),
            "status": "completed",
        }
        reference, url = store(after), hide_secrets(after.url)
        shown = [
            {"type": "input_text", "text": f"current_url: {url}"},
            {"type": "input_image", "image_url": reference, "detail": "auto"},
        ]
        outcome = {"type": "function_call_output", "id": f"out_{index}", "call_id": call_id}
        output += [call, outcome | {"output": shown, "status": "completed"}]
        described = {
            "call_id": call_id,
            "kind": "function",
            "native": call,
            "actions": [action],
            "texts": [],
            "results": [{"type": action["type"], "status": "ok", "error": None, "text": None}],
            "current_url": url,
            "events": [],
            "settled": True,
            "timings_ms": {},
        }
        turns.append(_turn(index, "", [described]) | {"url": url, "screenshot": reference})
    part = {"type": "output_text", "text": answer, "annotations": []}
    message = {"type": "message", "id": "msg_end", "role": "assistant", "status": "completed"}
    output.append(message | {"content": [part]})
    turns.append(_turn(len(turns), answer, []))
    return {
        **task,
        "verifier_metadata": without_secrets(task["verifier_metadata"]),
        "response": {
            "id": "recording",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": "person",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": _NO_USAGE,
        },
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": NOT_GRADED,
        "failure_reason": "recorded from a person, and not graded",
        "final_answer": answer,
        "final_url": hide_secrets(recording.end.url),
        "final_local_storage": recording.left,
        "termination_reason": "finished",
        "first_observation": {
            "url": hide_secrets(recording.start.url),
            "screenshot": store(recording.start),
        },
        "turns": turns,
        "num_turns": len(turns),
        "cost_usd": None,
    }


def _turn(index: int, message: str, calls: list[Json]) -> Json:
    usage = {"input_tokens": 0, "cached_tokens": 0, "cache_write_tokens": 0}
    return {
        "index": index,
        "response_id": "",
        "message": message,
        "reasoning": "",
        "calls": calls,
        "usage": usage | {"output_tokens": 0, "reasoning_tokens": 0},
        "cost_usd": None,
        "timings_ms": {},
    }
