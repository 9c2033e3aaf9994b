"""A pool of local Chromium processes that hands out isolated browser contexts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from resources_servers.browser_gym.browser.backend import (
    BackendHealth,
    BrowserSpec,
    BrowserUnavailable,
    PoolFull,
)
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    Chromium,
    launch_args,
    running_as_root,
)

logger = logging.getLogger(__name__)

LAUNCH_TIMEOUT_S = 60
CONTEXT_TIMEOUT_S = 30
CLOSE_TIMEOUT_S = 10


class LocalPool:
    """Hands out contexts of a few Chromium processes, least loaded first.

    Admission is a bounded queue in front of `max_sessions` slots. A process that dies is replaced
    at the next acquire; only its own sessions are lost. No lock is held across a launch: those who
    need the same process await one shared launch task.
    """

    def __init__(
        self,
        chromium: Chromium,
        *,
        processes: int,
        max_sessions: int,
        queue_limit: int,
        queue_timeout_s: float,
    ) -> None:
        """Prepare a pool; nothing is started yet.

        Args:
            chromium: the browser to run.
            processes: number of Chromium processes; about one per two cores is enough, since
                image encoding is serial per process.
            max_sessions: contexts open at once, over all processes.
            queue_limit: callers that may wait for a slot; one more is refused at once.
            queue_timeout_s: seconds a caller waits for a slot.
        """
        self._chromium = chromium
        self._max_sessions = max_sessions
        self._queue_limit = queue_limit
        self._queue_timeout_s = queue_timeout_s
        self._args = launch_args(running_as_root())
        self._slots = asyncio.Semaphore(max_sessions)
        self._queued = 0
        self._processes = [_Process(index) for index in range(max(1, processes))]
        self._driver: asyncio.Task[Playwright] | None = None
        self._leases: set[LocalLease] = set()
        self._cleanups: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Start the first Chromium, so that a machine without a working one says so at once."""
        await self._browser(self._processes[0])

    async def acquire(self, spec: BrowserSpec) -> LocalLease:
        """Return a fresh context; see `BrowserBackend.acquire`."""
        if self._closed:
            raise BrowserUnavailable("the browser pool is shut down")
        await self._admit()
        process = min(self._processes, key=lambda p: (p.sessions, p.index))
        process.sessions += 1
        try:
            browser = await self._browser(process)
            context = await self._new_context(browser, spec)
        except BaseException:
            process.sessions -= 1
            self._slots.release()
            raise
        lease = LocalLease(self, process, browser, context)
        self._leases.add(lease)
        return lease

    def health(self) -> BackendHealth:
        """Return occupancy, queue and processes."""
        return BackendHealth(
            sessions=len(self._leases),
            max_sessions=self._max_sessions,
            queued=self._queued,
            browsers=[
                {"index": p.index, "alive": p.alive, "sessions": p.sessions}
                for p in self._processes
            ],
            restarts=sum(max(0, p.launches - 1) for p in self._processes),
        )

    async def close(self) -> None:
        """Close contexts, browsers and the driver, each within a bound; safe to call again."""
        self._closed = True
        await asyncio.gather(*(lease.release() for lease in list(self._leases)))
        launches = [p.launch for p in self._processes if p.launch]
        await asyncio.gather(*(_close_launched(launch) for launch in launches))
        self._drop_driver()
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=CLOSE_TIMEOUT_S)

    async def _admit(self) -> None:
        if self._slots.locked():
            if self._queued >= self._queue_limit:
                raise PoolFull(
                    f"all {self._max_sessions} browser sessions are in use and {self._queued} "
                    "callers wait already; raise max_sessions or queue_limit, or run fewer "
                    "rollouts at once",
                    retry_after_s=self._queue_timeout_s,
                )
            self._queued += 1
            try:
                await asyncio.wait_for(self._slots.acquire(), self._queue_timeout_s)
            except TimeoutError:
                raise PoolFull(
                    f"no browser session became free within {self._queue_timeout_s:g} s "
                    f"(max_sessions is {self._max_sessions})",
                    retry_after_s=self._queue_timeout_s,
                ) from None
            finally:
                self._queued -= 1
        else:
            await self._slots.acquire()

    async def _browser(self, process: _Process) -> Browser:
        """Return the process's browser, launching it if it is not running."""
        if process.launch is None or process.dead:
            process.launches += 1
            process.launch = asyncio.create_task(self._launch(process))
        launch = process.launch
        try:
            # Shared by several sessions: the cancellation of one must not stop the launch.
            return await asyncio.shield(launch)
        except (Error, OSError, TimeoutError) as error:
            if process.launch is launch:
                process.launch = None
                if not any(p.alive for p in self._processes):
                    self._drop_driver()
            raise BrowserUnavailable(
                f"Chromium ({self._chromium.executable}) did not start: {error}"
            ) from error

    async def _launch(self, process: _Process) -> Browser:
        playwright = await self._start_driver()
        browser = await playwright.chromium.launch(
            executable_path=str(self._chromium.executable),
            args=self._args,
            ignore_default_args=list(UNWANTED_PLAYWRIGHT_ARGS),
            chromium_sandbox="--no-sandbox" not in self._args,
            headless=True,
            timeout=LAUNCH_TIMEOUT_S * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        browser.on("disconnected", lambda _: self._on_gone(process))
        return browser

    def _on_gone(self, process: _Process) -> None:
        if not self._closed:
            logger.warning(
                "Chromium %d died with %d sessions; the next one starts another",
                process.index,
                process.sessions,
            )

    async def _start_driver(self) -> Playwright:
        driver = self._driver
        if driver and driver.done() and (driver.exception() or not _has_driver(driver.result())):
            self._drop_driver()
        if self._driver is None:
            self._driver = asyncio.create_task(async_playwright().start())
        return await asyncio.shield(self._driver)

    def _drop_driver(self) -> None:
        """Stop the Playwright driver; the next launch starts another, should this one be broken."""
        if self._driver:
            driver, self._driver = self._driver, None
            self._in_background(_stop_driver(driver))

    async def _new_context(self, browser: Browser, spec: BrowserSpec) -> BrowserContext:
        """Create a context; one that arrives after a cancellation or timeout is closed."""
        creation = asyncio.ensure_future(browser.new_context(**spec.context_options()))
        try:
            return await asyncio.wait_for(asyncio.shield(creation), CONTEXT_TIMEOUT_S)
        except BaseException as error:
            self._in_background(_close_created(creation))
            if isinstance(error, (Error, TimeoutError)):
                raise BrowserUnavailable(f"no browser context could be opened: {error}") from error
            raise

    def _in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    def _return(self, lease: LocalLease) -> None:
        self._leases.discard(lease)
        lease.process.sessions -= 1
        self._slots.release()


class LocalLease:
    """A context of one of the pool's processes."""

    def __init__(
        self, pool: LocalPool, process: _Process, browser: Browser, context: BrowserContext
    ) -> None:
        self.context = context
        self.process = process
        self._browser = browser
        self._pool = pool
        self._release: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """Whether the Chromium behind this context died, or the driver that speaks with it."""
        return not _is_usable(self._browser)

    async def release(self) -> None:
        """Close the context and free the slot; runs once, however often and however cancelled."""
        if self._release is None:
            self._release = asyncio.create_task(self._close())
        await asyncio.shield(self._release)

    async def _close(self) -> None:
        try:
            await _bounded(self.context.close, "closing a browser context")
        finally:
            self._pool._return(self)


class _Process:
    """One Chromium process: its launch, and how many sessions it carries."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.sessions = 0
        self.launches = 0
        self.launch: asyncio.Task[Browser] | None = None

    @property
    def alive(self) -> bool:
        return self._launched is not None and _is_usable(self._launched)

    @property
    def dead(self) -> bool:
        """Whether it was launched and is gone."""
        return self._launched is not None and not _is_usable(self._launched)

    @property
    def _launched(self) -> Browser | None:
        launch = self.launch
        if launch is None or not launch.done() or launch.cancelled() or launch.exception():
            return None
        return launch.result()


def _is_usable(browser: Browser) -> bool:
    return browser.is_connected() and _has_driver(browser)


def _has_driver(owner: Browser | Playwright) -> bool:
    """Whether the Playwright driver of an object lives; without it, nothing of it works again.

    Playwright has no public call for this: a browser whose driver died still calls itself
    connected.
    """
    return owner._impl_obj._connection._closed_error is None


async def _close_created(creation: Awaitable[BrowserContext]) -> None:
    with contextlib.suppress(Error):
        context = await creation
        await _bounded(context.close, "closing an unwanted browser context")


async def _close_launched(launch: asyncio.Task[Browser]) -> None:
    with contextlib.suppress(Error, OSError):
        browser = await launch
        await _bounded(browser.close, "closing Chromium")


async def _stop_driver(starting: asyncio.Task[Playwright]) -> None:
    with contextlib.suppress(Exception):
        driver = await starting
        await asyncio.wait_for(driver.stop(), CLOSE_TIMEOUT_S)


async def _bounded(close: Callable[[], Awaitable[None]], what: str) -> None:
    try:
        await asyncio.wait_for(close(), CLOSE_TIMEOUT_S)
    except Error:
        pass  # what is to be closed is gone already
    except TimeoutError:
        logger.warning("%s took longer than %d s", what, CLOSE_TIMEOUT_S)
