"""Where the runs of an agent wait for a free browser."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from responses_api_agents.browser_agent.failures import NoFreeBrowser

ASKING = 32
"""How many may ask the resources server at a time; its own queue has room for several agents'."""


class BrowserQueue:
    """Lets runs ask for a browser, first come, first served, and a few of them at a time.

    Those few wait at the resources server, which hands a browser on the moment one is free, or ask
    again when it has no more room for callers. So runs follow whatever number of browsers there is
    now, which nobody needs to know here, and no crowd asks at once.
    """

    def __init__(self, timeout_s: float | None) -> None:
        """Make an empty queue.

        Args:
            timeout_s: seconds after which a run is told for good that no browser is free, which
                what the resources server lets it wait may exceed; None for never.
        """
        self._timeout_s = timeout_s
        self._asking = asyncio.Semaphore(ASKING)

    async def ask(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return what `ask` returns, once its turn has come and there is a browser for it.

        Args:
            ask: asks the resources server, and raises NoFreeBrowser while there is none.

        Raises:
            NoFreeBrowser: there was none in time.
        """
        give_up_at = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._asking.acquire()
        except TimeoutError as error:
            raise NoFreeBrowser(
                f"no browser became free within {self._timeout_s:g} s: too many runs wait for one"
            ) from error
        try:
            while True:
                try:
                    return await ask()
                except NoFreeBrowser as full:
                    # Not all at the same moment.
                    pause_s = full.retry_after_s * random.uniform(1, 1.5)
                    if give_up_at is not None and time.monotonic() + pause_s > give_up_at:
                        raise
                await asyncio.sleep(pause_s)
        finally:
            self._asking.release()
