"""What a simulated Gemini model answers, and the faults a simulated API can show.

A policy gets a `SimTurn` and returns the parts of one candidate, or a `SimReply` when more than
the parts matters. Call ids and thought signatures are filled in by the simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.faults import Fault as Fault
from tests.simulators.faults import cut_connection as cut_connection
from tests.simulators.faults import error_page as error_page
from tests.simulators.faults import hang as hang
from tests.simulators.faults import malformed_json as malformed_json

Json = dict[str, Any]


@dataclass(frozen=True)
class SimTurn:
    """What a policy sees."""

    number: int  # how many replies the conversation already holds
    body: Json
    model: str


@dataclass(frozen=True)
class SimReply:
    """One reply in full. Without parts the candidate has no content."""

    parts: list[Json] | None
    finish_reason: str | None = "STOP"
    usage: Json | None = None
    candidate: Json = field(default_factory=dict)  # more fields of the candidate
    extra: Json = field(default_factory=dict)  # more top-level fields, and changes of them


type Policy = Callable[[SimTurn], list[Json] | SimReply]


# Parts ------------------------------------------------------------------------------------------


def call(name: str, **args: Any) -> Json:
    return {"functionCall": {"name": name, "args": args}}


def unsafe(name: str, decision: str = "require_confirmation", **args: Any) -> Json:
    """A call that the safety system asks to confirm."""
    explanation = "This seems to accept an agreement."
    return call(name, **args, safety_decision={"decision": decision, "explanation": explanation})


def text(value: str) -> Json:
    return {"text": value}


def thought(value: str) -> Json:
    return {"text": value, "thought": True}


def usage(prompt: int, candidates: int, *, thoughts: int = 0, cached: int = 0) -> Json:
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": cached,
        "totalTokenCount": prompt + candidates + thoughts,
    }
    # Google's JSON leaves zeros out.
    return {name: count for name, count in counts.items() if count}


# Policies ---------------------------------------------------------------------------------------


def script(*replies: list[Json] | SimReply) -> Policy:
    """Answer with the replies in order; afterwards with a final text."""

    def policy(turn: SimTurn) -> list[Json] | SimReply:
        return replies[turn.number] if turn.number < len(replies) else [text("Done.")]

    return policy


def in_order(*replies: list[Json] | SimReply) -> Policy:
    """Answer each request with the next reply, whatever its conversation; then a final text.

    For replies that leave no trace in a conversation, such as an empty one. One conversation only.
    """
    waiting = iter(replies)
    return lambda turn: next(waiting, [text("Done.")])


def finished(reason: str | None, *parts: Json, **candidate: Any) -> SimReply:
    """A reply that ended for a reason; without parts it has no content at all."""
    return SimReply(list(parts) or None, finish_reason=reason, candidate=candidate)


def blocked_prompt(reason: str) -> SimReply:
    feedback = {"blockReason": reason, "blockReasonMessage": "The prompt was blocked."}
    return SimReply(None, extra={"candidates": None, "promptFeedback": feedback})


def no_candidates() -> SimReply:
    return SimReply(None, extra={"candidates": None})


# Faults -----------------------------------------------------------------------------------------


def _error(status: int, message: str, name: str, *details: Json, **headers: str) -> Fault:
    error: Json = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = list(details)
    return Fault("status", status, {"error": error}, headers)


def rate_limited(*, retry_after: str | None = None, retry_info: str | None = None) -> Fault:
    """Too many requests; says when to come back in a header, in the body, or not at all."""
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [{"@type": kind, "retryDelay": retry_info}] if retry_info else []
    headers = {"retry-after": retry_after} if retry_after else {}
    message = "You exceeded your current quota."
    return _error(429, message, "RESOURCE_EXHAUSTED", *details, **headers)


def server_error() -> Fault:
    return _error(500, "An internal error has occurred.", "INTERNAL")


def unavailable() -> Fault:
    return _error(503, "The model is overloaded. Please try again later.", "UNAVAILABLE")


def too_long() -> Fault:
    message = (
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    )
    return _error(400, message, "INVALID_ARGUMENT")
