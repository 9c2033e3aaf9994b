"""What ends a rollout without a valid reward: `faults.py` of the environment has the whole table.

A conversation too long for the model is no failure but an end, see `ContextWindowExceeded`.
What a model does wrong is never here: it is told to the model, and the rollout is graded.
"""

from __future__ import annotations

import aiohttp

from resources_servers.browser_gym.faults import Fault, worth_another_try


class RolloutFailure(Exception):
    """The rollout has no valid reward, and not through the model's doing.

    Attributes:
        kind: a name from NeMo Gym's failure vocabulary.
        reason: for a person.
        again: whether it is worth another try to run the rollout again.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.again = worth_another_try(kind)


class ContextWindowExceeded(RolloutFailure):
    """The provider refused the conversation as too long; the rollout ends there and is graded."""


class NoFreeBrowser(RolloutFailure):
    """Every browser is in use; whoever raises it to an end has waited for one long enough.

    Attributes:
        retry_after_s: seconds after which the resources server may be asked again.
    """

    def __init__(self, reason: str, retry_after_s: float = 1.0) -> None:
        super().__init__(Fault.POOL_FULL.kind, reason)
        self.again = False
        self.retry_after_s = retry_after_s


def from_environment(status: int, body: object) -> RolloutFailure:
    """Return the failure of a resources server's answer that is an error, or no JSON object."""
    if isinstance(body, dict) and "failure_kind" in body:
        kind, reason = str(body["failure_kind"]), str(body.get("failure_reason"))
        if kind == Fault.POOL_FULL.kind:
            seconds = body.get("retry_after_s")
            return NoFreeBrowser(reason, seconds if isinstance(seconds, float | int) else 1.0)
        return RolloutFailure(kind, reason)
    refused = 400 <= status < 500
    kind = Fault.TASK_UNUSABLE.kind if refused else Fault.SERVER_ERROR.kind
    return RolloutFailure(kind, f"the resources server answered HTTP {status}: {_short(body)}")


def from_model(status: int, body: object) -> RolloutFailure:
    """Return the failure of a model server's answer that is an error, or no JSON object."""
    if status == 429:
        kind = Fault.MODEL_QUOTA.kind
    elif status in (408, 504):
        kind = Fault.MODEL_SILENT.kind
    elif 400 <= status < 500:
        kind = Fault.MODEL_REFUSES.kind
    else:
        kind = Fault.MODEL_DOWN.kind
    error = body.get("error") if isinstance(body, dict) else None
    too_long = isinstance(error, dict) and error.get("code") == "context_length_exceeded"
    failure = ContextWindowExceeded if too_long else RolloutFailure
    return failure(kind, f"the model server answered HTTP {status}: {_short(body)}")


def from_transport(server: str, error: BaseException) -> RolloutFailure:
    """Return the failure of a request that got no answer."""
    if isinstance(error, TimeoutError):
        kind = Fault.SERVER_SILENT.kind
    elif isinstance(error, aiohttp.ClientConnectorError):
        kind = Fault.SERVER_UNREACHABLE.kind
    elif isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        kind = Fault.SERVER_DROPPED.kind
    else:
        kind = Fault.SERVER_UNREACHABLE.kind
    return RolloutFailure(kind, f"{server}: {type(error).__name__}: {error}")


def _short(body: object) -> str:
    details = body.get("detail") if isinstance(body, dict) else None
    if isinstance(details, list) and all(isinstance(d, dict) for d in details):
        # What was wrong and where, without the request itself, which would come back otherwise.
        text = "; ".join(f"{'.'.join(map(str, d.get('loc', [])))}: {d.get('msg')}" for d in details)
    else:
        text = str(body)
    return text if len(text) <= 1000 else text[:1000] + "…"
