"""Who may have a browser now: a bounded queue in front of a number of slots."""

from __future__ import annotations

import asyncio

from resources_servers.browser_gym.browser.backend import PoolFull

_RETRY_AFTER_S = 1.0
"""A session may end at any time, and who asks again waits in the queue until one does."""


class Slots:
    """As many slots as there may be sessions; who finds none free waits, within bounds."""

    def __init__(self, *, max_sessions: int, queue_limit: int, queue_timeout_s: float) -> None:
        """Make all slots free.

        Args:
            max_sessions: how many slots there are.
            queue_limit: callers that may wait for a slot; one more is refused at once.
            queue_timeout_s: seconds a caller waits for a slot.
        """
        self.max_sessions = max_sessions
        self._queue_limit = queue_limit
        self._queue_timeout_s = queue_timeout_s
        self._free = asyncio.Semaphore(max_sessions)
        self._queued = 0

    @property
    def queued(self) -> int:
        """How many wait for a slot."""
        return self._queued

    @property
    def taken(self) -> int:
        """How many are not free."""
        return self.max_sessions - self._free._value

    async def take(self) -> None:
        """Take a slot; `give_back` frees it.

        Raises:
            PoolFull: too many wait already, or none became free in time.
        """
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._queued >= self._queue_limit:
            raise PoolFull(
                f"all {self.max_sessions} browser sessions are in use and {self._queued} "
                "callers wait already; raise max_sessions or queue_limit, or run fewer "
                "rollouts at once",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._queued += 1
        try:
            await asyncio.wait_for(self._free.acquire(), self._queue_timeout_s)
        except TimeoutError:
            raise PoolFull(
                f"no browser session became free within {self._queue_timeout_s:g} s "
                f"(max_sessions is {self.max_sessions})",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        finally:
            self._queued -= 1

    def give_back(self) -> None:
        """Free a slot that was taken."""
        self._free.release()
