"""Tells a page whose script never lets go from one that is only slow to answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import CDPSession, Error

# What takes no longer is not watched.
_GRACE_S = 0.5
# A page is busy when it has run nothing else for this long. Heavy apps on a loaded machine block
# for a second or two as they start.
BUSY_AFTER_S = 4.0
# How long a page that was busy gets to show that it no longer is.
_RECHECK_S = 0.5
# For what an abandoned piece of work does to clean up, such as releasing a mouse button.
_CLEANUP_S = 5


class PageBusy(Exception):
    """A script of the page runs on and on: the page takes no input and draws nothing."""


class Pulse:
    """Watches one tab's page while something is done with it.

    The page is asked to evaluate nothing at all, once; as long as it has not answered, it is not
    asked again, so that what is known of a page that hangs is kept from one wait to the next.
    """

    def __init__(self, cdp: CDPSession, loading: Callable[[], object]) -> None:
        """Watch the page that `cdp` is attached to.

        Args:
            cdp: a session attached to the page.
            loading: whether the page is on its way to another one. Chromium holds its questions
                back meanwhile, so that it cannot be told from a busy one.
        """
        self._cdp = cdp
        self._loading = loading
        self._question: asyncio.Task[None] | None = None
        self._silent_since = 0.0
        self._abandoned: set[asyncio.Task[object]] = set()

    @property
    def busy(self) -> bool:
        """Whether the page has been found busy and has not answered since."""
        if self._loading():
            self._silent_since = time.monotonic()
        return self._silent and time.monotonic() - self._silent_since >= BUSY_AFTER_S

    async def still_busy(self) -> bool:
        """Give a page that was busy a moment to answer; tell whether it is busy still."""
        if self.busy:
            await self._answer(_RECHECK_S)
        return self.busy

    async def unless_busy[T](self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that needs the page, and give it up once the page is busy.

        Raises:
            PageBusy: the page is busy; if it was so before, `work` is not begun.
        """
        if await self.still_busy():
            raise PageBusy
        task = asyncio.ensure_future(work())
        try:
            await self._wait(task)
            return task.result()
        finally:
            if not task.done():
                await self._abandon(task)

    async def _wait(self, task: asyncio.Task[Any]) -> None:
        while not task.done():
            if not self._silent:
                await asyncio.wait({task}, timeout=_GRACE_S)
                if task.done():
                    return
                self._ask()
            elif self.busy:
                raise PageBusy
            left_s = self._silent_since + BUSY_AFTER_S - time.monotonic()
            await self._answer(max(left_s, 0), or_end_of=task)

    @property
    def _silent(self) -> bool:
        return self._question is not None and not self._question.done()

    def _ask(self) -> None:
        self._question = asyncio.ensure_future(self._evaluate_nothing())
        self._silent_since = time.monotonic()

    async def _evaluate_nothing(self) -> None:
        with contextlib.suppress(Error):  # crashed, closed or between two documents: not busy
            await self._cdp.send("Runtime.evaluate", {"expression": "0"})

    async def _answer(self, timeout_s: float, or_end_of: asyncio.Task[Any] | None = None) -> None:
        waited_for = {task for task in (self._question, or_end_of) if task}
        await asyncio.wait(waited_for, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def _abandon(self, task: asyncio.Task[object]) -> None:
        """Cancel a task; what a busy page does not acknowledge is not waited for."""
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({task}, timeout=_RECHECK_S if self.busy else _CLEANUP_S)
