"""Verdicts that were given or are being found: a repeated request gets the same one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

REMEMBERED = 500
REMEMBERED_S = 3600

Verdict = dict[str, Any]
"""The fields of a row that grading a session adds."""


class Verdicts:
    """The last verdicts on sessions, each a task that goes on if its caller goes away."""

    def __init__(self) -> None:
        """Know none yet."""
        self._given: OrderedDict[str, tuple[str, float, asyncio.Task[Verdict]]] = OrderedDict()

    async def once(
        self,
        session_id: str,
        asked: Any,
        find: Callable[[], Coroutine[Any, Any, Verdict]],
        *,
        is_open: bool,
    ) -> Verdict:
        """Return the verdict on a session, found unless it was or is being found.

        Args:
            session_id: the session's.
            asked: JSON of what the verdict depends on beside the session; the first request counts,
                and another one's verdict is not remembered.
            find: finds it.
            is_open: whether the session is open; of no other one a verdict is remembered.
        """
        text = json.dumps(asked, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()
        known = self._given.get(session_id)
        if known is None and is_open:
            self._forget_old()
            known = key, time.monotonic(), asyncio.create_task(find())
            self._given[session_id] = known
        if known is None or known[0] != key:
            return await find()
        return dict(await asyncio.shield(known[2]))

    async def close(self) -> None:
        """Give up those that are being found."""
        tasks = [task for *_, task in self._given.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget_old(self) -> None:
        oldest = time.monotonic() - REMEMBERED_S
        while self._given:
            _, given_at, task = next(iter(self._given.values()))
            full = len(self._given) >= REMEMBERED
            if not task.done() or not (full or given_at < oldest):
                return
            self._given.popitem(last=False)
