"""One Chromium process of the pool, from its launch to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import psutil
from playwright.async_api import Browser, BrowserContext, Error

from resources_servers.browser_gym.browser.driver import is_usable
from resources_servers.browser_gym.browser.renderers import RendererProcesses

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 10
_BYTES_PER_MB = 1_000_000


class ChromiumProcess:
    """One Chromium: its launch, how many sessions it carries, and its end.

    Attributes:
        index: its place in the pool.
        sessions: sessions it carries, those being opened included.
        served: sessions it was chosen for since its launch.
        retired: whether it takes no more sessions.
        launch: the task that starts it, shared by all who need it; None before and after a failure.
        main: the operating system's process, once it runs.
        renderers: those of its processes that draw pages, once it runs.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.sessions = 0
        self.served = 0
        self.retired = False
        self.launch: asyncio.Task[Browser] | None = None
        self.main: psutil.Process | None = None
        self.renderers: RendererProcesses | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs and can be spoken with."""
        return self._launched is not None and is_usable(self._launched)

    @property
    def dead(self) -> bool:
        """Whether it was launched and is gone, or the driver that speaks with it is."""
        return self._launched is not None and not is_usable(self._launched)

    @property
    def _launched(self) -> Browser | None:
        launch = self.launch
        if launch is None or not launch.done() or launch.cancelled() or launch.exception():
            return None
        return launch.result()

    def rss_mb(self) -> float:
        """Return the resident memory of it and its helpers in MB; pages they share count each time.

        Reads the process table (some ms): call it in a thread.
        """
        total = 0
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return round(total / _BYTES_PER_MB, 1)

    async def close(self) -> None:
        """Close it, and kill it if that takes longer than CLOSE_TIMEOUT_S; runs once."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self.launch is None:
            return
        try:
            browser = await self.launch
        except Exception:
            return  # whoever waited for it was told
        await close_within_bound(browser.close, "closing Chromium")
        await asyncio.to_thread(self._kill)
        if self.renderers:
            await asyncio.to_thread(self.renderers.close)

    def _kill(self) -> None:
        """Kill what is left of it; a stopped process ends no other way."""
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _tree(self) -> list[psutil.Process]:
        if self.main is None:
            return []
        try:
            return [self.main, *self.main.children(recursive=True)]
        except psutil.Error:
            return []  # gone


async def main_process(browser: Browser) -> psutil.Process | None:
    """Return the operating system's process of a browser, or None if it does not tell in time."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            session = await browser.new_browser_cdp_session()
            answer = await session.send("SystemInfo.getProcessInfo")
            await session.detach()
        pid = next(p["id"] for p in answer["processInfo"] if p["type"] == "browser")
        return psutil.Process(pid)
    except (Error, TimeoutError, StopIteration, psutil.Error) as error:
        logger.warning("Chromium did not tell its process id: %r", error)
        return None


async def close_within_bound(close: Callable[[], Awaitable[None]], what: str) -> bool:
    """Close something; tell whether it is gone after CLOSE_TIMEOUT_S."""
    try:
        await asyncio.wait_for(close(), CLOSE_TIMEOUT_S)
    except Error:
        pass  # what is to be closed is gone already
    except TimeoutError:
        logger.warning("%s took longer than %g s", what, CLOSE_TIMEOUT_S)
        return False
    except Exception as error:  # of uvloop, or of a listener that failed before
        logger.warning("%s failed: %r", what, error)
        return False
    return True


async def close_context(context: BrowserContext) -> bool:
    """Close a context; tell whether it is gone after CLOSE_TIMEOUT_S."""
    return await close_within_bound(context.close, "closing a browser context")
