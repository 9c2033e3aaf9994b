"""A pool of local Chromium processes that hands out isolated browser contexts."""

from __future__ import annotations

import asyncio
import logging

from playwright.async_api import Browser, BrowserContext, Error

from resources_servers.browser_gym.browser.admission import Slots
from resources_servers.browser_gym.browser.backend import (
    BackendHealth,
    BrowserSpec,
    BrowserUnavailable,
)
from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    Chromium,
    launch_args,
    running_as_root,
)
from resources_servers.browser_gym.browser.contexts import open_context
from resources_servers.browser_gym.browser.driver import Driver
from resources_servers.browser_gym.browser.gateway import Gateways
from resources_servers.browser_gym.browser.process import (
    CLOSE_TIMEOUT_S,
    ChromiumProcess,
    close_context,
    main_process,
)
from resources_servers.browser_gym.browser.renderers import RendererProcesses
from resources_servers.browser_gym.browser.verifier_guard import guard
from resources_servers.browser_gym.browser.warm import WarmContext, WarmContexts

logger = logging.getLogger(__name__)

LAUNCH_TIMEOUT_S = 60
CONTEXT_TIMEOUT_S = 30

# Warm contexts for the next sessions, beside those for a burst.
_SPARE = 2


class LocalPool:
    """Hands out contexts of a few Chromium processes, least loaded first.

    Admission is a bounded queue in front of `max_sessions` slots. A process that dies is replaced
    at the next acquire; only its own sessions are lost. No lock is held across a launch: those who
    need the same process await one shared launch task.

    A process is retired after a number of sessions, past a size, or when it no longer answers: it
    takes no new sessions, another takes its place at once, and it is closed when its last session
    ends.

    Warm contexts are opened ahead of need: for a burst of sessions as many as were open at once
    before and are not now, and two at least for the next ones.
    """

    def __init__(
        self,
        chromium: Chromium,
        *,
        processes: int,
        max_sessions: int,
        queue_limit: int,
        queue_timeout_s: float,
        warm_contexts: int = 0,
        recycle_after_sessions: int = 0,
        recycle_above_mb: int = 0,
    ) -> None:
        """Prepare a pool; nothing is started yet.

        Args:
            chromium: the browser to run.
            processes: number of Chromium processes; about one per two cores is enough, since
                image encoding is serial per process.
            max_sessions: contexts open at once, over all processes.
            queue_limit: callers that may wait for a slot; one more is refused at once.
            queue_timeout_s: seconds a caller waits for a slot.
            warm_contexts: most contexts kept open ahead of need, over all processes; 0 for none.
            recycle_after_sessions: sessions after which a process is replaced; 0 for never.
            recycle_above_mb: resident memory, of a Chromium and its helpers, above which it is
                replaced once a session on it has ended; 0 for never.
        """
        self._chromium = chromium
        self._args = launch_args(running_as_root())
        self._slots = Slots(
            max_sessions=max_sessions, queue_limit=queue_limit, queue_timeout_s=queue_timeout_s
        )
        self._warm_contexts = warm_contexts
        self._recycle_after = recycle_after_sessions
        self._recycle_above_mb = recycle_above_mb
        self._processes = [ChromiumProcess(index) for index in range(max(1, processes))]
        self._retired: set[ChromiumProcess] = set()
        self._restarts = 0
        self._recycled = 0
        self._background = BackgroundTasks()
        self._warm = WarmContexts(self._open_warm, self._warm_wanted, self._background)
        self._driver = Driver(self._background)
        self.gateways = Gateways()
        self._leases: set[LocalLease] = set()
        self._peak = 0
        self._closed = False

    async def start(self) -> None:
        """Start the first Chromium, so that a machine without a working one says so at once."""
        await self._browser(self._processes[0])

    async def acquire(self, spec: BrowserSpec) -> LocalLease:
        """Return a fresh context; see `BrowserBackend.acquire`."""
        if self._closed:
            raise BrowserUnavailable("the browser pool is shut down")
        await self._slots.take()
        warm = self._warm.take(spec)
        process = warm.process if warm else self._choose()
        process.sessions += 1
        process.served += 1
        if self._recycle_after and process.served >= self._recycle_after:
            self._recycle(process)
        self._warm.refill()
        try:
            context = warm.context if warm else await self._open_context(process, spec)
        except BaseException:
            self._leave(process)
            self._slots.give_back()
            raise
        lease = LocalLease(self, process, context)
        self._leases.add(lease)
        self._peak = max(self._peak, len(self._leases))
        return lease

    async def health(self) -> BackendHealth:
        """Return occupancy, queue, processes and their memory."""
        processes = [*self._processes, *self._retired]
        memory = await asyncio.to_thread(lambda: [process.rss_mb() for process in processes])
        return BackendHealth(
            sessions=len(self._leases),
            max_sessions=self._slots.max_sessions,
            queued=self._slots.queued,
            chromium=f"{self._chromium.version} ({self._chromium.source})",
            warm=self._warm.count,
            browsers=[
                {
                    "index": process.index,
                    "alive": process.alive,
                    "sessions": process.sessions,
                    "retired": process.retired,
                    "rss_mb": rss_mb,
                }
                for process, rss_mb in zip(processes, memory, strict=True)
            ],
            rss_mb=round(sum(memory), 1),
            restarts=self._restarts,
            recycled=self._recycled,
        )

    async def close(self) -> None:
        """Close contexts, browsers and the driver, each within a bound; safe to call again."""
        self._closed = True
        self._warm.close()
        await asyncio.gather(*(lease.release() for lease in list(self._leases)))
        processes = [*self._processes, *self._retired]
        await asyncio.gather(*(process.close() for process in processes))
        self._driver.drop()
        self.gateways.close()
        await self._background.wait(CLOSE_TIMEOUT_S)

    def _choose(self) -> ChromiumProcess:
        """Return the least loaded process, after replacing it if it died."""

        def load(process: ChromiumProcess) -> tuple[int, int]:
            return process.sessions + self._warm.count_of(process), process.index

        process = min(self._processes, key=load)
        if process.dead:
            self._restarts += 1
            self._retire(process)
        return self._processes[process.index]

    def _recycle(self, process: ChromiumProcess) -> None:
        self._recycled += 1
        self._retire(process)

    async def _recycle_if_large(self, process: ChromiumProcess) -> None:
        rss_mb = await asyncio.to_thread(process.rss_mb)
        if rss_mb > self._recycle_above_mb and not process.retired and not self._closed:
            logger.info("Chromium %d has grown to %g MB and is replaced", process.index, rss_mb)
            self._recycle(process)

    def _retire(self, process: ChromiumProcess) -> None:
        """Give a process no more sessions, put another in its place and close it when idle."""
        process.retired = True
        self._processes[process.index] = ChromiumProcess(process.index)
        self._retired.add(process)
        self._warm.drop(process)
        self._close_if_idle(process)

    def _suspect(self, process: ChromiumProcess) -> None:
        """Retire a process that did not answer in time, unless sessions still live on it.

        A frozen Chromium keeps its connection; with no sessions it would be chosen for ever.
        """
        self._warm.drop(process)
        if any(lease.process is process for lease in self._leases):
            return
        if not process.retired:
            logger.warning("Chromium %d does not answer and is replaced", process.index)
            self._restarts += 1
            self._retire(process)
        # Those who still wait for a context of it would wait in vain.
        self._background.start(self._close_retired(process))

    def _leave(self, process: ChromiumProcess) -> None:
        process.sessions -= 1
        self._close_if_idle(process)

    def _close_if_idle(self, process: ChromiumProcess) -> None:
        if process.retired and not process.sessions:
            self._background.start(self._close_retired(process))

    async def _close_retired(self, process: ChromiumProcess) -> None:
        await process.close()
        self._retired.discard(process)

    def _warm_wanted(self) -> int:
        return min(self._warm_contexts, max(_SPARE, self._peak - len(self._leases)))

    async def _open_warm(self, spec: BrowserSpec) -> WarmContext:
        process = self._choose()
        context = await self._open_context(process, spec)
        try:
            # The page is what takes long: it starts a renderer process.
            page = await asyncio.wait_for(context.new_page(), CONTEXT_TIMEOUT_S)
        except BaseException as error:
            self._background.start(close_context(context))
            if isinstance(error, TimeoutError):
                self._suspect(process)
            if isinstance(error, (Error, TimeoutError)):
                raise BrowserUnavailable(f"no page could be opened: {error}") from error
            raise
        return WarmContext(process, context, page)

    async def _browser(self, process: ChromiumProcess) -> Browser:
        """Return the process's browser, launching it if it is not running."""
        if process.launch is None:
            process.launch = asyncio.create_task(self._launch(process))
        launch = process.launch
        try:
            # Shared by several sessions: the cancellation of one must not stop the launch.
            return await asyncio.shield(launch)
        except Exception as error:  # Playwright has no class of its own for a driver that dies
            if process.launch is launch:
                process.launch = None
                if not any(p.alive for p in [*self._processes, *self._retired]):
                    self._driver.drop()
            raise BrowserUnavailable(
                f"Chromium ({self._chromium.executable}) did not start: {error}"
            ) from error

    async def _launch(self, process: ChromiumProcess) -> Browser:
        playwright = await self._driver.get()
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
        await guard(browser)
        process.main = await main_process(browser)
        if process.main:
            process.renderers = RendererProcesses(browser, process.main)
        return browser

    def _on_gone(self, process: ChromiumProcess) -> None:
        self._warm.drop(process)
        if not self._closed and not (process.retired and not process.sessions):
            logger.warning(
                "Chromium %d died with %d sessions; the next one starts another",
                process.index,
                process.sessions,
            )

    async def _open_context(self, process: ChromiumProcess, spec: BrowserSpec) -> BrowserContext:
        """Create a context, or leave nothing behind."""
        browser = await self._browser(process)
        creating = self.gateways.open_context(browser, spec.context_options(), spec.direct)
        try:
            return await open_context(creating, CONTEXT_TIMEOUT_S, self._background)
        except TimeoutError as error:
            self._suspect(process)
            raise BrowserUnavailable("no browser context could be opened in time") from error
        except Exception as error:  # uvloop's, too, of a driver that has just died
            raise BrowserUnavailable(f"no browser context could be opened: {error}") from error

    def _return(self, lease: LocalLease, *, closed: bool) -> None:
        self._leases.discard(lease)
        self._slots.give_back()
        self.gateways.close_lost()
        if not closed:
            self._suspect(lease.process)
        self._leave(lease.process)
        if self._recycle_above_mb:
            self._background.start(self._recycle_if_large(lease.process))
        self._warm.refill()


class LocalLease:
    """A context of one of the pool's processes."""

    remote_files = None

    def __init__(self, pool: LocalPool, process: ChromiumProcess, context: BrowserContext) -> None:
        self.context = context
        self.gateway = pool.gateways.of(context)
        self.process = process
        self._pool = pool
        self._release: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """Whether the Chromium behind this context died, or the driver that speaks with it."""
        return not self.process.alive

    @property
    def renderers(self) -> RendererProcesses | None:
        """The renderer processes of the Chromium behind this context; see `BrowserLease`."""
        return self.process.renderers

    async def release(self) -> None:
        """Close the context and free the slot; runs once, however often and however cancelled."""
        if self._release is None:
            self._release = asyncio.create_task(self._close())
        await asyncio.shield(self._release)

    async def _close(self) -> None:
        closed = True
        try:
            closed = await close_context(self.context)
        finally:
            self._pool._return(self, closed=closed)
