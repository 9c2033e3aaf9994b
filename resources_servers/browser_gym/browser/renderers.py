"""Stops the renderer processes of a session while nobody acts in it.

A page that animates costs half a core for as long as the model thinks. Stopped processes (SIGSTOP)
cost nothing, notice nothing, and go on when continued. A renderer process belongs to one browser
context for life, so it is enough to find out once whose it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection

import psutil
from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Frame, Page

from resources_servers.browser_gym.browser.policy import origin_of
from resources_servers.browser_gym.browser.tabs import Tabs

logger = logging.getLogger(__name__)

_TRIES = 12
_ANSWER_TIMEOUT_S = 2


class RendererProcesses:
    """The renderer processes of one Chromium, and which session each belongs to.

    Attributes:
        finding: held by the session that looks for its processes; two that look at once would
            take each other's for theirs.
    """

    def __init__(self, browser: Browser, main: psutil.Process) -> None:
        """Know the renderers of `browser`.

        Args:
            browser: a running Chromium.
            main: its main process.
        """
        self._browser = browser
        self._main = main
        self._session: asyncio.Task[CDPSession] | None = None
        self.finding = asyncio.Lock()
        self._owned: set[int] = set()
        self._guard: subprocess.Popen[bytes] | None = None

    async def unowned(self) -> set[int]:
        """Return the process ids of the renderers that no session is known to own.

        Raises:
            playwright.async_api.Error: the browser is gone.
        """
        if self._session is None:
            self._session = asyncio.ensure_future(self._browser.new_browser_cdp_session())
        session = await asyncio.shield(self._session)
        answer = await session.send("SystemInfo.getProcessInfo")
        running = {p["id"] for p in answer["processInfo"] if p["type"] == "renderer"}
        self._owned &= running
        return running - self._owned

    def claim(self, pid: int) -> psutil.Process | None:
        """Note that a session owns a renderer; return it, or None if it has ended."""
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            return None
        self._owned.add(pid)
        return process

    def guard(self) -> None:
        """See to it that stopped processes go on, and so end, if this one is killed.

        A small process of its own waits until the pipe from this one closes, and then continues
        Chromium's process group.
        """
        if self._guard is not None:
            return
        with contextlib.suppress(OSError):
            group = os.getpgid(self._main.pid)
            if group == os.getpgrp():
                return  # Chromium has no group of its own
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", f"read -r _; kill -s CONT -- -{group}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the guard; blocks until it is gone."""
        if self._guard is not None:
            guard, self._guard = self._guard, None
            guard.communicate()


class Freezer:
    """Stops and continues the renderers of one session."""

    def __init__(self, context: BrowserContext, renderers: RendererProcesses) -> None:
        """Follow the pages of `context`, which lives in the Chromium of `renderers`."""
        self._context = context
        self._renderers = renderers
        self._known: dict[int, psutil.Process] = {}
        self._stopped: list[psutil.Process] = []
        self._changed = True
        self._resting = False
        self._finding: asyncio.Task[None] | None = None
        self._ended = False
        context.on("page", self._on_page)
        for page in context.pages:
            self._on_page(page)

    async def stop(self) -> None:
        """Continue the renderers and stop them no more: the session ends."""
        self._ended = True
        self.thaw()
        if self._finding:
            self._finding.cancel()
            await asyncio.wait([self._finding])

    def freeze(self, tabs: Tabs) -> None:
        """Stop the session's renderers until `thaw`, as soon as it is known which they are.

        One that cannot be told from others runs on until the next time.
        """
        if self._ended:
            return
        self._resting = True
        if self._finding:
            return  # it stops them in the end
        if self._changed:
            self._finding = asyncio.create_task(self._find_and_suspend(tabs))
        else:
            self._suspend()

    def thaw(self) -> None:
        """Continue what `freeze` stopped; safe to call again."""
        self._resting = False
        stopped, self._stopped = self._stopped, []
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.resume()

    def _suspend(self) -> None:
        self._renderers.guard()
        for pid, process in list(self._known.items()):
            try:
                process.suspend()
            except psutil.Error:
                del self._known[pid]
            else:
                self._stopped.append(process)

    async def _find_and_suspend(self, tabs: Tabs) -> None:
        # In the background: while many sessions start at once, a step must not wait for its turn.
        found = False
        try:
            async with self._renderers.finding, asyncio.timeout(_ANSWER_TIMEOUT_S):
                self._changed = False
                pids = await self._find(tabs)
                if pids is not None and not self._changed:
                    self._claim(pids)
                    found = True
        except (Error, TimeoutError):
            pass  # a page hangs
        finally:
            self._changed |= not found  # then look again after the next step
            self._finding = None
        if self._resting:
            self._suspend()

    def _on_page(self, page: Page) -> None:
        self._changed = True
        page.on("framenavigated", self._on_navigated)

    def _on_navigated(self, _: Frame) -> None:
        self._changed = True

    def _claim(self, pids: set[int]) -> None:
        for pid in pids:
            if process := self._renderers.claim(pid):
                self._known[pid] = process

    async def _find(self, tabs: Tabs) -> set[int] | None:
        """Return the session's renderers that are new, or None if not all can be told."""
        unowned = await self._renderers.unowned()
        new: set[int] = set()
        for cdp in [tab.cdp for tab in tabs.all if not tab.crashed]:
            if not await self._find_one(cdp, unowned, new):
                return None
        for frame in self._foreign_frames():
            try:
                cdp = await self._context.new_cdp_session(frame)
            except Error:
                continue  # it is drawn by its parent's process
            try:
                if not await self._find_one(cdp, unowned, new):
                    return None
            finally:
                await cdp.detach()
        return new

    async def _find_one(self, cdp: CDPSession, unowned: set[int], new: set[int]) -> bool:
        """Add the process behind a page to `new`, if it is unowned; tell if it could be told."""
        if unowned <= new:
            return True
        pid = await _who_answers(
            lambda: cdp.send("Performance.getMetrics"), unowned | self._known.keys()
        )
        if pid in unowned:
            new.add(pid)
        return pid is not None

    def _foreign_frames(self) -> list[Frame]:
        return [
            frame
            for page in self._context.pages
            for frame in page.frames
            if frame.parent_frame and origin_of(frame.url) != origin_of(frame.parent_frame.url)
        ]


async def _who_answers(ask: Callable[[], Awaitable[object]], pids: Collection[int]) -> int | None:
    """Return the process whose CPU time moves whenever it is asked, or None if it is not clear.

    CDP does not tell a page's process.
    """
    candidates, alone = set(pids), 0
    for _ in range(_TRIES):
        before = {pid: _cpu_s(pid) for pid in candidates}
        await ask()
        candidates = {pid for pid, time_s in before.items() if _cpu_s(pid) > time_s}
        alone += len(candidates) == 1
        if not candidates or alone == 2:
            break
    return candidates.pop() if alone == 2 else None


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process in seconds, as exactly as the system tells; 0 if gone."""
    try:
        if sys.platform == "linux":
            # The id of a process's CPU clock, see clock_getcpuclockid(3): counts nanoseconds, while
            # the process table counts hundredths of a second.
            return time.clock_gettime((~pid << 3) | 2)
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    except (OSError, psutil.Error):
        return 0
