"""Tasks that run on behalf of no caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


class BackgroundTasks:
    """Holds the tasks it starts until they end: the event loop alone would lose them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def start[T](self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Run `work`; its end is not waited for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, timeout_s: float) -> None:
        """Wait for those that still run, at most `timeout_s`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
