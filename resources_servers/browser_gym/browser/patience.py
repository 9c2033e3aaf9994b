"""Bounds how long an action may take: as long as its page answers, within a total."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from resources_servers.browser_gym.browser.errors import ActionError

MOST_TIMES = 4
"""How many times as long as it should an action may take, if the page answers all along."""


class Patience:
    """Ends actions that take too long; one per session.

    An action has one or many parts, such as keys, and the page answers one after another. Each
    answer gives the next part its full time. So a busy machine makes a long action take longer, and
    a page that answers no more still ends it soon.
    """

    def __init__(self) -> None:
        self._limit: asyncio.Timeout | None = None
        self._part_s = self._ends_at = 0.0

    @contextlib.asynccontextmanager
    async def bound(self, part_s: float, whole_s: float) -> AsyncIterator[None]:
        """Bound an action, which is the block.

        Args:
            part_s: how long the page may take to answer one part, in seconds.
            whole_s: how long all parts together should take at most; they may take `MOST_TIMES` as
                long.

        Raises:
            ActionError: one part or all of them took too long.
        """
        most_s = MOST_TIMES * whole_s
        self._part_s, self._ends_at = part_s, asyncio.get_running_loop().time() + most_s
        try:
            async with asyncio.timeout(part_s) as self._limit:
                yield
        except TimeoutError:
            assert self._limit
            if self._limit.when() == self._ends_at:
                raise ActionError(
                    f"the page answers too slowly: the action was stopped after {most_s:.0f} s, "
                    "with a part of it done"
                ) from None
            raise ActionError(f"the page did not respond within {part_s:g} s") from None
        finally:
            self._limit = None

    def renew(self) -> None:
        """Give the action fresh time, as the page answered a part of it."""
        if self._limit and not self._limit.expired():
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(min(now + self._part_s, self._ends_at))
