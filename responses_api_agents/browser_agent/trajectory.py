"""The record of an episode, and the screenshots beside it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.write_once import write_once
from responses_api_agents.browser_agent.adapters.base import Item, Screen, Usage
from responses_api_agents.browser_agent.failures import RolloutFailure
from responses_api_agents.browser_agent.token_trace import TokenTrace

Storing = Literal["files", "file_urls", "inline"]

_SUFFIXES = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


TerminationReason = Literal[
    "finished",
    "max_steps",
    "time_budget",
    "loop",
    "refusal",
    "truncated_reply",
    "content_filter",
    "context_window",
    "empty_reply",
    "safety_stop",
    "failure",
]


@dataclass
class Record:
    """All that is known of an episode; complete up to where it ended, however it ended.

    Attributes:
        items: the Responses items of the whole conversation after the task, screenshots replaced
            by references.
        turns: one entry per model reply, see the README.
        first: `{url, screenshot}` of the start page.
        asked: the first request, likewise.
        tokens: exactly those of the model, if its server gives them.
        answer: the final message, empty unless the model finished.
        cost_usd: of all replies; None if that of any is not known.
        response: the last response, for its id and model name.
    """

    items: list[Item] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    first: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    tokens: TokenTrace = field(default_factory=TokenTrace)
    termination_reason: TerminationReason = "failure"
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    model_seconds: float = 0
    browser_seconds: float = 0
    queue_seconds: float = 0
    response: dict[str, Any] = field(default_factory=dict)


class Screenshots:
    """Stores each distinct screenshot once and hands out references to it.

    A reference is `<folder name>/<sha256>.<suffix>`, relative to the folder that holds the
    artifact folder: with rollouts in `results/` and artifacts in `results/artifacts/` it is
    relative to the rollout file. With `file_urls` it is the file's absolute `file:` URL, with
    `inline` the data URL itself.
    """

    def __init__(self, folder: Path, storing: Storing) -> None:
        """Store in `folder`, which is made when needed."""
        self._folder = folder
        self._storing = storing
        self._references: dict[str, str] = {}

    async def store(self, screen: Screen) -> str:
        """Store a screenshot if it is new and return its reference.

        Raises:
            RolloutFailure: it could not be written.
        """
        if self._storing == "inline":
            return screen.data_url
        data = base64.b64decode(screen.image)
        name = f"{hashlib.sha256(data).hexdigest()}.{_SUFFIXES[screen.media_type]}"
        reference = f"{self._folder.name}/{name}"
        if self._storing == "file_urls":
            reference = (self._folder / name).resolve().as_uri()
        self._references[screen.data_url] = reference
        try:
            await asyncio.to_thread(write_once, self._folder / name, data)
        except OSError as error:
            reason = f"a screenshot could not be stored in {self._folder}: {error}"
            raise RolloutFailure(Fault.DISK_FULL.kind, reason) from error
        return reference

    def refer(self, value: Any) -> Any:
        """Return JSON data with data URLs of stored screenshots replaced by their references."""
        if isinstance(value, dict):
            return {key: self.refer(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.refer(inner) for inner in value]
        if isinstance(value, str) and value.startswith("data:"):
            return self._references.get(value, value)
        return value


def response_of(record: Record, model: str) -> dict[str, Any]:
    """Return the whole episode as one Responses object: all items in order, usage summed up.

    With exact tokens, its `agent_input` is what was asked first, with the first screenshot: NeMo RL
    looks for the images of the first prompt there before it looks at the task's own row.
    """
    usage = record.usage
    asked = {"agent_input": record.asked["input"]} if record.tokens.segments else {}
    return asked | {
        "id": record.response.get("id") or f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": record.response.get("created_at") or int(time.time()),
        "status": "completed",
        "model": record.response.get("model") or model,
        "output": [_as_output(item, index) for index, item in enumerate(record.items)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def _as_output(item: Item, index: int) -> Item:
    """Return an item as it may stand in `output`, where results need an id and a status."""
    if item["type"] in ("computer_call_output", "function_call_output"):
        return {"id": f"item_{index}", "status": "completed", **item}
    return item
