"""What a simulated OpenAI model answers, and the faults a simulated API can show.

A policy gets a `SimTurn` and returns the output items of one reply, or a `SimReply` when more
than the items matters. Item ids, call ids and statuses left out are filled in by the simulator.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.faults import Fault as Fault
from tests.simulators.faults import cut_connection as cut_connection
from tests.simulators.faults import hang as hang
from tests.simulators.faults import malformed_json as malformed_json

Item = dict[str, Any]


@dataclass(frozen=True)
class SimTurn:
    """What a policy sees."""

    number: int  # how many replies the conversation already holds
    body: dict[str, Any]
    conversation: list[Item]
    tool: str | None  # "computer", "computer_use_preview" or None


@dataclass(frozen=True)
class SimReply:
    """One reply in full."""

    output: list[Item]
    status: str = "completed"
    incomplete_reason: str | None = None
    usage: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # more top-level fields


type Policy = Callable[[SimTurn], list[Item] | SimReply]


# Items ------------------------------------------------------------------------------------------


def click(x: Any, y: Any, button: str = "left") -> Item:
    return {"type": "click", "button": button, "x": x, "y": y}


def type_text(text: str) -> Item:
    return {"type": "type", "text": text}


def computer_call(*actions: Item, pending: Sequence[Item] | None = ()) -> Item:
    """A call of the general tool; `pending=None` leaves `pending_safety_checks` out."""
    call: Item = {"type": "computer_call", "actions": list(actions)}
    if pending is not None:
        call["pending_safety_checks"] = list(pending)
    return call


def preview_call(action: Item, pending: Sequence[Item] = ()) -> Item:
    return {"type": "computer_call", "action": action, "pending_safety_checks": list(pending)}


def function_call(name: str, **arguments: Any) -> Item:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def message(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "role": "assistant", "content": [part]}


def refusal(text: str) -> Item:
    part = {"type": "refusal", "refusal": text}
    return {"type": "message", "role": "assistant", "content": [part]}


def reasoning(summary: str) -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": summary}]}


def usage(input_tokens: int, output_tokens: int, *, cached: int = 0, reasoning: int = 0) -> Item:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input_tokens + output_tokens,
    }


SAFETY_CHECK = {
    "id": "sc_1",
    "code": "malicious_instructions",
    "message": "The page seems to give instructions.",
}


# Policies ---------------------------------------------------------------------------------------


def script(*replies: list[Item] | SimReply) -> Policy:
    """Answer with the replies in order; afterwards with a final message."""

    def policy(turn: SimTurn) -> list[Item] | SimReply:
        return replies[turn.number] if turn.number < len(replies) else [message("Done.")]

    return policy


def in_order(*replies: list[Item] | SimReply) -> Policy:
    """Answer each request with the next reply, whatever its conversation; then a final message.

    For replies that leave no trace in a conversation, such as an empty one. One conversation only.
    """
    waiting = iter(replies)
    return lambda turn: next(waiting, [message("Done.")])


def ga_batch() -> Policy:
    return script([computer_call(click(10, 20), type_text("hi"))])


def ga_lone_screenshot_first() -> Policy:
    return script([computer_call({"type": "screenshot"})], [computer_call(click(10, 20))])


def preview_single() -> Policy:
    return script([preview_call(click(10, 20))], [preview_call(type_text("hi"))])


def message_beside_call() -> Policy:
    return script([message("I click the button."), computer_call(click(10, 20))])


def several_calls() -> Policy:
    return script([computer_call(click(10, 20)), computer_call(type_text("hi"))])


def function_beside_computer() -> Policy:
    return script([computer_call(click(10, 20)), function_call("switch_tab", index=0)])


def safety_checks_pending() -> Policy:
    second = {"id": "sc_2", "code": None, "message": None}
    return script([computer_call(click(10, 20), pending=[SAFETY_CHECK, second])])


def reasoning_items() -> Policy:
    return script(
        [reasoning("Find the button."), computer_call(click(10, 20))],
        [reasoning("It worked."), message("Done.")],
    )


def omitted_safety_checks() -> Policy:
    return script([computer_call(click(10, 20), pending=None)])


def cached_and_reasoning_usage() -> Policy:
    return script(SimReply([message("Done.")], usage=usage(1500, 200, cached=1024, reasoning=128)))


def incomplete() -> Policy:
    """The reply ran out of output tokens while reasoning."""
    return script(SimReply([], status="incomplete", incomplete_reason="max_output_tokens"))


def refused() -> Policy:
    return script([refusal("I cannot help with that.")])


def empty() -> Policy:
    return script([])


# Faults -----------------------------------------------------------------------------------------


def _error(status: int, message: str, kind: str, code: str | None, **headers: str) -> Fault:
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Fault("status", status, body, headers)


def rate_limited(retry_after_s: float) -> Fault:
    message = "Rate limit reached for requests."
    headers = {"retry-after": str(retry_after_s)}
    return _error(429, message, "requests", "rate_limit_exceeded", **headers)


def too_long() -> Fault:
    message = "Your input exceeds the context window of this model."
    return _error(400, message, "invalid_request_error", "context_length_exceeded")


def too_large() -> Fault:
    return _error(413, "The request's payload exceeds 50 MB.", "invalid_request_error", None)


def server_error() -> Fault:
    message = "The server had an error while processing your request."
    return _error(500, message, "server_error", None)


def unavailable() -> Fault:
    return _error(503, "The engine is currently overloaded.", "server_error", None)
