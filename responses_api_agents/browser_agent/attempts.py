"""Running a rollout again that the infrastructure spoiled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0

_KEPT = (
    *("failure_kind", "failure_reason", "termination_reason", "num_turns", "cost_usd"),
    *("model_seconds", "browser_seconds", "queue_seconds", "verify_seconds", "total_seconds"),
    *("env_id", "deliverables_dir"),
)


@dataclass(frozen=True)
class Attempt:
    """One try at a rollout.

    Attributes:
        row: its rollout row.
        again: whether it is masked, and another try may not be.
    """

    row: dict[str, Any]
    again: bool


async def resampled(
    attempt: Callable[[], Awaitable[Attempt]], resamples: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the row of the first attempt that is not to be tried again, and what failed before.

    Args:
        attempt: runs the rollout, each time in a session of its own.
        resamples: how many more attempts there may be.
    """
    failed: list[dict[str, Any]] = []
    while True:
        tried = await attempt()
        if not tried.again or len(failed) == resamples:
            return tried.row, failed
        failed.append(_told(tried.row))
        pause_s = min(FIRST_PAUSE_S * 2 ** (len(failed) - 1), LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s * random.uniform(1, 1.5))


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of an attempt that failed."""
    told = {key: row[key] for key in _KEPT if row.get(key) is not None}
    # What a verifier answers may lack it, which must not cost the next attempt.
    usage = (row.get("response") or {}).get("usage")
    return told if usage is None else told | {"usage": usage}
