"""Everything that can go wrong in a rollout, whose fault it is, and what comes of it: one table.

A fault is told to the model, is an event that the model learns of, or masks the rollout: it then
has no valid reward, and `failure_kind` names the fault in NeMo Gym's vocabulary. Whoever raises
takes the kind from here, and every line has a test that produces it.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

Outcome = Literal["told", "event", "masked"]

_PASSING = frozenset(
    {
        "provider_quota_exhausted",
        "provider_unavailable",
        "session_lost",
        "session_expired",
        "transport_unreachable",
        "transport_peer_drop",
        "transport_timeout",
        "verifier_error",
        "judge_failed",
        "judge_unparseable",
    }
)
"""Kinds of what may be over in a while. A rule by kind, as a masked row tells no more."""


class Fault(Enum):
    """A line of the table.

    Attributes:
        what: what happened.
        outcome: `told` to the model, with HTTP 200 and a fresh screenshot, and the episode goes
            on; an `event`, likewise; or `masked`.
        kind: the `failure_kind` of a masked row.
        status: what the resources server answers with if it is asked for something else than a
            verdict meanwhile; `/verify` answers 200 with a masked row.
        again: whether it is worth another try to run the rollout again: not if the task, the
            configuration or the agent is at fault, which then still is.
    """

    BAD_ACTION = "told", "an action cannot be done: unknown key, off the screen, no such tab"
    UNREADABLE_CALL = "told", "a call of the model is no action: not JSON, unknown, a wrong field"
    DEAD_LINK = "told", "an address cannot be opened"

    PAGE_HANGS = "event", "a page lets nothing else run"
    TAB_CRASHED = "event", "a tab crashed, and was loaded again"
    DOWNLOAD_FAILED = "event", "a download failed, also because the disk is full"

    POOL_FULL = "masked", "no browser is free in time", "provider_quota_exhausted", 503
    NO_BROWSER = "masked", "no browser can be started or reached", "provider_unavailable", 503
    START_PAGE = (
        "masked",
        "the start page does not open, or draws nothing in time",
        "provider_unavailable",
        503,
    )
    SERVER_DISK = (
        "masked",
        "the resources server cannot write what a session needs",
        "provider_unavailable",
        503,
    )
    BROWSER_DIED = "masked", "the session's browser died or hangs", "session_lost", 410
    SESSION_GONE = "masked", "the session is unknown or was closed", "session_lost", 410
    SESSION_EXPIRED = "masked", "nobody used the session for too long", "session_expired", 410
    TASK_UNUSABLE = "masked", "the task row cannot be run or graded", "agent_request_failed", 422
    REPEAT_DIFFERS = "masked", "a request is repeated, but differs", "agent_request_failed", 409

    WRONG_TOKEN = "masked", "the agent's token is not the server's", "agent_request_failed", 401
    BODY_TOO_LARGE = "masked", "a request is larger than may be", "agent_request_failed", 413

    SERVER_UNREACHABLE = "masked", "no connection to a server", "transport_unreachable"
    SERVER_DROPPED = "masked", "a server drops the connection", "transport_peer_drop"
    SERVER_SILENT = "masked", "a server does not answer in time", "transport_timeout"
    SERVER_ERROR = "masked", "a server answers with an error of its own", "provider_unavailable"

    MODEL_QUOTA = "masked", "the model's provider is out of quota", "provider_quota_exhausted"
    MODEL_DOWN = "masked", "the model's provider fails", "provider_unavailable"
    MODEL_SILENT = "masked", "the model's provider does not answer in time", "transport_timeout"
    MODEL_REFUSES = "masked", "the model's provider refuses the request", "agent_request_failed"

    VERIFIER_FAILED = "masked", "the verifier fails or its verdict is unusable", "verifier_error"
    VERIFIER_UNREACHABLE = "masked", "no connection to the verifier", "transport_unreachable"
    VERIFIER_DROPPED = "masked", "the verifier drops the connection", "transport_peer_drop"
    VERIFIER_SILENT = "masked", "the verifier does not answer in time", "transport_timeout"
    JUDGE_FAILED = "masked", "the judge cannot be asked, or gives no answer", "judge_failed"
    JUDGE_UNPARSEABLE = "masked", "the judge's answer holds no verdict", "judge_unparseable"

    TOKENS_DRIFTED = (
        "masked",
        "a prompt does not start with the tokens before it",
        "browser_gym:tokens_not_contiguous",
    )

    DISK_FULL = "masked", "a screenshot cannot be stored", "persistence_failed"
    AGENT_FAULT = "masked", "the agent itself has a fault", "agent_run_error"

    def __init__(self, outcome: Outcome, what: str, kind: str = "", status: int = 0) -> None:
        self.outcome = outcome
        self.what = what
        self.kind = kind
        self.status = status
        self.again = kind in _PASSING


def worth_another_try(kind: str) -> bool:
    """Return whether a rollout masked with this `failure_kind` may go well if it is run again."""
    return kind in _PASSING
