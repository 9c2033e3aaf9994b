"""Whose fault is it? What ends a rollout without a valid reward, by kind and reason.

| what happened                                        | failure_kind               |
|------------------------------------------------------|----------------------------|
| no browser: pool full                                | provider_quota_exhausted   |
| no browser or start page                             | provider_unavailable       |
| the session's browser died, or the session is gone   | session_lost               |
| the session expired                                  | session_expired            |
| a server cannot be reached                           | transport_unreachable      |
| a server drops the connection                        | transport_peer_drop        |
| the model's provider: rate limit or quota            | provider_quota_exhausted   |
| the model's provider: 5xx                            | provider_unavailable       |
| the model's provider: times out                      | transport_timeout          |
| the model's provider refuses the request             | agent_request_failed       |
| the task row is unusable                             | agent_request_failed       |
| the verifier cannot answer                           | verifier_error, or the transport_ kind |
| a screenshot cannot be stored                        | persistence_failed         |
| the agent itself has a fault                         | agent_run_error            |

A conversation too long for the model is no failure but an end, see `ContextWindowExceeded`.
What a model does wrong is never here: it is told to the model, and the rollout is graded.
"""

from __future__ import annotations

import aiohttp


class RolloutFailure(Exception):
    """The rollout has no valid reward, and not through the model's doing.

    Attributes:
        kind: a name from NeMo Gym's failure vocabulary.
        reason: for a person.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class ContextWindowExceeded(RolloutFailure):
    """The provider refused the conversation as too long; the rollout ends there and is graded."""


def from_environment(status: int, body: object) -> RolloutFailure:
    """Return the failure of an error answer of the resources server."""
    if isinstance(body, dict) and "failure_kind" in body:
        kind, reason = str(body["failure_kind"]), str(body.get("failure_reason"))
        if kind in ("invalid_task", "operation_conflict"):
            return RolloutFailure("agent_request_failed", f"{kind}: {reason}")
        return RolloutFailure(kind, reason)
    kind = "agent_request_failed" if status < 500 else "provider_unavailable"
    return RolloutFailure(kind, f"the resources server answered HTTP {status}: {_short(body)}")


def from_model(status: int, body: object) -> RolloutFailure:
    """Return the failure of an error answer of the model server."""
    if status == 429:
        kind = "provider_quota_exhausted"
    elif status in (408, 504):
        kind = "transport_timeout"
    elif status >= 500:
        kind = "provider_unavailable"
    else:
        kind = "agent_request_failed"
    error = body.get("error") if isinstance(body, dict) else None
    too_long = isinstance(error, dict) and error.get("code") == "context_length_exceeded"
    failure = ContextWindowExceeded if too_long else RolloutFailure
    return failure(kind, f"the model server answered HTTP {status}: {_short(body)}")


def from_transport(server: str, error: BaseException) -> RolloutFailure:
    """Return the failure of a request that got no answer."""
    if isinstance(error, TimeoutError):
        kind = "transport_timeout"
    elif isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        kind = "transport_peer_drop"
    else:
        kind = "transport_unreachable"
    return RolloutFailure(kind, f"{server}: {type(error).__name__}: {error}")


def _short(body: object) -> str:
    text = str(body)
    return text if len(text) <= 1000 else text[:1000] + "…"
