"""Browser contexts opened ahead of need, each with a blank page in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from playwright.async_api import BrowserContext, Page

from resources_servers.browser_gym.browser.backend import BrowserSpec, BrowserUnavailable
from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.process import ChromiumProcess, close_context

logger = logging.getLogger(__name__)

# Opening one takes 0.1 s of both cores: the session whose start called for it comes first.
_PAUSE_S = 0.5


@dataclass(eq=False)
class WarmContext:
    """A context nobody has used."""

    process: ChromiumProcess
    context: BrowserContext
    page: Page

    @property
    def usable(self) -> bool:
        """Whether its process lives and takes sessions."""
        return self.process.alive and not self.process.retired


class WarmContexts:
    """The stock of warm contexts.

    They are for the spec asked for last, and only once it was asked for twice running: tasks that
    each want another one would otherwise pay for contexts that nobody takes.
    """

    def __init__(
        self,
        open_one: Callable[[BrowserSpec], Awaitable[WarmContext]],
        wanted: Callable[[], int],
        background: BackgroundTasks,
    ) -> None:
        """Keep an empty stock; `refill` begins to fill it.

        Args:
            open_one: opens a context, or raises BrowserUnavailable and leaves nothing behind.
            wanted: how many there should be now.
            background: runs the filling and the closing.
        """
        self._open_one = open_one
        self._wanted = wanted
        self._background = background
        self._stock: list[WarmContext] = []
        self._spec: BrowserSpec | None = None
        self._asked_twice = False
        self._filling: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def count(self) -> int:
        """How many are ready."""
        return sum(warm.usable for warm in self._stock)

    def count_of(self, process: ChromiumProcess) -> int:
        """How many a process carries."""
        return sum(warm.process is process for warm in self._stock)

    def take(self, spec: BrowserSpec) -> WarmContext | None:
        """Return one for `spec`, of the process with the fewest sessions, to its only user."""
        self._asked_twice = spec == self._spec
        if not self._asked_twice:
            self._spec = spec
            self.drop()
        for warm in [warm for warm in self._stock if not warm.usable]:
            self._drop(warm)
        if not self._stock:
            return None
        warm = min(self._stock, key=lambda warm: (warm.process.sessions, warm.process.index))
        self._stock.remove(warm)
        return warm

    def refill(self) -> None:
        """Begin to open those that are missing, a little later."""
        filling = self._filling is not None and not self._filling.done()
        if self._asked_twice and not filling and not self._closed:
            self._filling = self._background.start(self._fill())

    def drop(self, process: ChromiumProcess | None = None) -> None:
        """Close all, or those of one process."""
        for warm in list(self._stock):
            if process is None or warm.process is process:
                self._drop(warm)

    def close(self) -> None:
        """Close all and open no more."""
        self._closed = True
        if self._filling:
            self._filling.cancel()
        self.drop()

    async def _fill(self) -> None:
        """Open them one by one, so that the sessions in use feel it least."""
        await asyncio.sleep(_PAUSE_S)
        while len(self._stock) < self._wanted() and not self._closed:
            spec = self._spec
            assert spec is not None
            try:
                warm = await self._open_one(spec)
            except BrowserUnavailable as error:
                logger.warning("no warm context: %s", error)
                return  # the next session tries again
            self._stock.append(warm)
            warm.page.on("crash", lambda _, warm=warm: self._drop(warm))
            if self._closed or spec != self._spec or not warm.usable:
                self._drop(warm)

    def _drop(self, warm: WarmContext) -> None:
        if warm in self._stock:
            self._stock.remove(warm)
            self._background.start(close_context(warm.context))
