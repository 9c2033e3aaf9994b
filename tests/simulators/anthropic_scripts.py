"""What a simulated Anthropic model answers, and the faults a simulated API can show.

A policy gets a `SimTurn` and returns the content blocks of one reply, or a `SimReply` when more
than the content matters. Ids and signatures left out are filled in by the simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.faults import Fault as Fault
from tests.simulators.faults import cut_connection as cut_connection
from tests.simulators.faults import hang as hang
from tests.simulators.faults import malformed_json as malformed_json

Block = dict[str, Any]


@dataclass(frozen=True)
class SimTurn:
    """What a policy sees."""

    number: int  # how many replies the conversation already holds
    body: dict[str, Any]
    tool: str | None  # type of the computer or browser tool offered


@dataclass(frozen=True)
class SimReply:
    """One reply in full; `stop_reason` is by default what the content says."""

    content: list[Block]
    stop_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)  # more top-level fields


type Policy = Callable[[SimTurn], list[Block] | SimReply]


# Blocks -----------------------------------------------------------------------------------------


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(words: str) -> Block:
    return {"type": "thinking", "thinking": words}


def redacted() -> Block:
    return {"type": "redacted_thinking"}


def legacy(action: str, **fields: Any) -> Block:
    """A call of one of the older computer tools."""
    return {"type": "tool_use", "name": "computer", "input": {"action": action, **fields}}


def member(name: str, *, family: str = "computer", **fields: Any) -> Block:
    """A call of a toolset's member; `from_` stands for `from`."""
    fields = {key.rstrip("_"): value for key, value in fields.items()}
    return {"type": "tool_use", "name": name, "input": fields, "toolset_name": family}


def function(name: str, **fields: Any) -> Block:
    return {"type": "tool_use", "name": name, "input": fields}


def at(x: int, y: int) -> dict[str, Any]:
    """A target of a browser tool."""
    return {"type": "coordinate", "x": x, "y": y}


def call(tool: str | None, action: str, **fields: Any) -> Block:
    """A call of a computer action by whichever computer tool is offered."""
    if tool == "computer_toolset_20260801":
        return member(action, **fields)
    return legacy(action, **fields)


# Policies ---------------------------------------------------------------------------------------


def script(*replies: list[Block] | SimReply) -> Policy:
    """Answer with the replies in order; afterwards with a final text."""

    def policy(turn: SimTurn) -> list[Block] | SimReply:
        return replies[turn.number] if turn.number < len(replies) else [text("Done.")]

    return policy


def in_order(*replies: list[Block] | SimReply) -> Policy:
    """Answer each request with the next reply, whatever its conversation; then a final text.

    For replies that leave no trace in a conversation, such as an empty one. One conversation only.
    """
    waiting = iter(replies)
    return lambda turn: next(waiting, [text("Done.")])


def clicks(turns: int, *, thoughts: bool = False) -> Policy:
    """Click once a turn, at ever new places, with whichever computer tool is offered."""

    def policy(turn: SimTurn) -> list[Block]:
        if turn.number >= turns:
            return [text("Done.")]
        place = [10 + turn.number, 20 + turn.number]
        first = [thinking(f"thought {turn.number}")] if thoughts else []
        return [*first, call(turn.tool, "left_click", coordinate=place)]

    return policy


# Faults -----------------------------------------------------------------------------------------


def _error(status: int, kind: str, message: str, **headers: str) -> Fault:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Fault("status", status, body, headers)


def rate_limited(retry_after_s: float) -> Fault:
    message = "This request would exceed your organization's rate limit."
    return _error(429, "rate_limit_error", message, **{"retry-after": str(retry_after_s)})


def overloaded() -> Fault:
    return _error(529, "overloaded_error", "Overloaded")


def server_error() -> Fault:
    return _error(500, "api_error", "Internal server error")


def too_long() -> Fault:
    return _error(
        400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
    )


def too_large() -> Fault:
    return _error(413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")
