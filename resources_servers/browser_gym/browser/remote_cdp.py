"""Browsers elsewhere, reached over CDP: a provider lends them, each session has a context."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import Mapping

from playwright.async_api import Browser, BrowserContext

from resources_servers.browser_gym.browser.admission import Slots
from resources_servers.browser_gym.browser.backend import (
    BackendHealth,
    BrowserError,
    BrowserSpec,
    BrowserUnavailable,
    PoolFull,
)
from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.connections import Connection, Connections
from resources_servers.browser_gym.browser.contexts import open_context
from resources_servers.browser_gym.browser.gateway import Gateway
from resources_servers.browser_gym.browser.process import CLOSE_TIMEOUT_S, close_context
from resources_servers.browser_gym.browser.remote_files import RemoteFiles
from resources_servers.browser_gym.browser.session_providers.contract import (
    RemoteSession,
    SessionProvider,
)
from resources_servers.browser_gym.browser.session_providers.settings import bare_addresses

logger = logging.getLogger(__name__)

PROVIDER_TIMEOUT_S = 120
CONTEXT_TIMEOUT_S = 30
RELEASE_TIMEOUT_S = 10
RELEASE_TRIES = 3
RELEASE_PAUSE_S = 0.5  # before the second try; each further one is twice as long
_SHUTDOWN_TIMEOUT_S = 45
# How often a browser that cannot be connected to is replaced by another before the caller is told.
_CONNECT_TRIES = 3
# Between two requests for a browser if the service does not say.
_PAUSE_S = 2
_SHORTEST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10
_FULL = re.compile(r"\b429\b")
# Of contexts that no session sees.
_BLANK = BrowserSpec(800, 600, "en-US", "UTC")


class RemoteCdp:
    """Hands out contexts of lent browsers.

    Admission is a bounded queue in front of `max_sessions` slots. A service that has no browser
    free, or asks to come again later, is asked again for as long as a caller may queue; nobody asks
    it before the time that it named.

    Everything lent is handed back once, in the background, in tries that are bounded; a slot is
    free only then. What is left after that is logged by its name and counted.
    """

    def __init__(
        self,
        provider: SessionProvider,
        *,
        max_sessions: int,
        queue_limit: int,
        queue_timeout_s: float,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            provider: lends the browsers; closed with this.
            max_sessions: sessions at once.
            queue_limit: callers that may wait for a slot; one more is refused at once.
            queue_timeout_s: seconds a caller waits for a slot, and then for the service.
        """
        self._provider = provider
        self._queue_timeout_s = queue_timeout_s
        self._slots = Slots(
            max_sessions=max_sessions, queue_limit=queue_limit, queue_timeout_s=queue_timeout_s
        )
        self._background = BackgroundTasks()
        self._connections = Connections(self._background)
        self._leases: set[RemoteLease] = set()
        self._waiting = 0
        # The service's last word that it has no browser now, and when it may be asked again.
        self._refusal: BrowserError | None = None
        self._ask_at = 0.0
        self._unreleased = 0
        self._closed = False

    async def start(self) -> None:
        """Start what speaks with browsers; they themselves are asked for when they are needed."""
        await self._connections.start()

    async def acquire(self, spec: BrowserSpec) -> RemoteLease:
        """Return a fresh context; see `BrowserBackend.acquire`."""
        self._refuse_if_closed()
        await self._slots.take()
        try:
            lease = await self._open_in_time(spec)
        except BaseException:
            self._slots.give_back()
            raise
        self._leases.add(lease)
        return lease

    async def health(self) -> BackendHealth:
        """Return occupancy, queue and browsers; their memory is not known here."""
        connections = self._connections.all
        versions = sorted({c.version for c in connections if c.version}) or [
            "version not known yet"
        ]
        return BackendHealth(
            sessions=len(self._leases),
            max_sessions=self._slots.max_sessions,
            queued=self._slots.queued + self._waiting,
            chromium=f"{', '.join(versions)} (remote)",
            browsers=[
                {
                    "index": index,
                    "host": connection.host,
                    "alive": connection.usable,
                    "sessions": connection.users,
                    "retired": connection.retired,
                    "rss_mb": None,
                }
                for index, connection in enumerate(connections)
            ],
            unreleased=self._unreleased,
        )

    async def close(self) -> None:
        """Hand back every browser, each within a bound; safe to call again."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(lease.release() for lease in list(self._leases)))
        await self._background.wait(_SHUTDOWN_TIMEOUT_S)
        await self._connections.close()
        await self._provider.close()
        await self._background.wait(CLOSE_TIMEOUT_S)

    async def _open_in_time(self, spec: BrowserSpec) -> RemoteLease:
        """Try until there is a browser, for as long as a caller may queue."""
        give_up_at = time.monotonic() + self._queue_timeout_s
        unreachable = 0
        while True:
            if self._refusal and self._ask_at > give_up_at:
                raise _again(self._refusal)
            if (pause_s := self._ask_at - time.monotonic()) > 0:
                await self._pause(pause_s)
                continue
            try:
                return await self._open(spec)
            except _Unreachable as error:
                unreachable += 1
                if unreachable == _CONNECT_TRIES or time.monotonic() > give_up_at:
                    raise BrowserUnavailable(str(error)) from error
            except BrowserError as error:
                pause_s = _PAUSE_S if isinstance(error, PoolFull) else None
                if error.retry_after_s is not None:
                    pause_s = error.retry_after_s
                if pause_s is None:
                    raise
                pause_s = min(max(pause_s, _SHORTEST_PAUSE_S), self._queue_timeout_s)
                self._ask_at = max(self._ask_at, time.monotonic() + pause_s)
                self._refusal = error

    async def _pause(self, pause_s: float) -> None:
        self._waiting += 1
        try:
            # Not all at the same moment.
            await asyncio.sleep(pause_s * random.uniform(1, 1.1))
        finally:
            self._waiting -= 1

    async def _open(self, spec: BrowserSpec) -> RemoteLease:
        self._refuse_if_closed()
        session = await self._borrow(spec.labels)
        try:
            connection = self._connections.join(session)
        except Exception as error:  # a provider's endpoint that is no address
            self._background.start(self._release(session, broken=True))
            reason = bare_addresses(str(error))
            raise _Unreachable(f"the remote browser {session.session_id}: {reason}") from error
        try:
            browser, context = await self._open_context(connection, spec)
            self._refuse_if_closed()
        except BaseException as error:
            broken = isinstance(error, BrowserUnavailable)
            self._background.start(self._hand_back(session, connection, broken=broken))
            raise
        files = RemoteFiles(browser, lambda: self._open_blank(browser))
        return RemoteLease(self, session, connection, context, files)

    async def _open_context(
        self, connection: Connection, spec: BrowserSpec
    ) -> tuple[Browser, BrowserContext]:
        try:
            browser = await connection.browser()
        except Exception as error:  # Playwright raises that, too
            reason = bare_addresses(str(error)).splitlines()[0] if str(error) else "no answer"
            text = f"the remote browser {connection.name} cannot be connected to: {reason}"
            if _FULL.search(reason):  # a service that starts a browser for each connection
                raise PoolFull(text) from error
            raise _Unreachable(text) from error
        try:
            context = await _new_context(browser, spec, self._background)
        except Exception as error:
            reason = bare_addresses(str(error)) or "it did not answer in time"
            raise _Unreachable(
                f"the remote browser {connection.name} opened no context: {reason}"
            ) from error
        return browser, context

    async def _open_blank(self, browser: Browser) -> BrowserContext:
        return await _new_context(browser, _BLANK, self._background)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise BrowserUnavailable("the browser supply is shut down")

    async def _borrow(self, labels: Mapping[str, str]) -> RemoteSession:
        """Ask the provider; what it lends after a cancellation or timeout is handed back."""
        asking = asyncio.ensure_future(self._provider.acquire(labels))
        try:
            return await asyncio.wait_for(asyncio.shield(asking), PROVIDER_TIMEOUT_S)
        except BrowserError:
            raise
        except BaseException as error:
            self._background.start(self._return_late(asking))
            if not isinstance(error, Exception):
                raise
            reason = bare_addresses(repr(error))
            raise BrowserUnavailable(f"the session provider failed: {reason}") from error

    async def _return_late(self, asking: asyncio.Future[RemoteSession]) -> None:
        with contextlib.suppress(Exception):  # then nothing was lent
            await self._release(await asking, broken=False)

    def _return(self, lease: RemoteLease, *, closed: bool) -> None:
        self._leases.discard(lease)
        self._background.start(self._free(lease, closed=closed))

    async def _free(self, lease: RemoteLease, *, closed: bool) -> None:
        try:
            await self._hand_back(lease.session, lease.connection, broken=not closed or lease.lost)
        finally:
            self._slots.give_back()

    async def _hand_back(
        self, session: RemoteSession, connection: Connection, *, broken: bool
    ) -> None:
        """Leave a connection, and end the session at its service."""
        try:
            await self._connections.leave(connection, broken=broken)
        finally:
            await self._release(session, broken=broken)

    async def _release(self, session: RemoteSession, *, broken: bool) -> None:
        for number in range(RELEASE_TRIES):
            try:
                async with asyncio.timeout(RELEASE_TIMEOUT_S):
                    await self._provider.release(session.session_id, broken=broken)
            except Exception as error:
                reason = bare_addresses(repr(error))
                logger.warning("ending remote session %s failed: %s", session.session_id, reason)
                pause_s = getattr(error, "retry_after_s", None) or RELEASE_PAUSE_S * 2**number
                if number < RELEASE_TRIES - 1:
                    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))
            else:
                return
        self._unreleased += 1
        logger.error(
            "remote session %s was not ended in %d tries: end it at its service",
            session.session_id,
            RELEASE_TRIES,
        )


class RemoteLease:
    """A context of a lent browser."""

    renderers = None
    gateway: Gateway | None = None  # it would listen on this machine

    def __init__(
        self,
        supply: RemoteCdp,
        session: RemoteSession,
        connection: Connection,
        context: BrowserContext,
        remote_files: RemoteFiles,
    ) -> None:
        self.context = context
        self.remote_files = remote_files
        self.session = session
        self.connection = connection
        self._supply = supply
        self._release: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """Whether the connection to the browser broke, or the driver that holds it."""
        return not self.connection.usable

    async def release(self) -> None:
        """Close the context and hand the browser back; runs once, however often it is called."""
        if self._release is None:
            self._release = asyncio.create_task(self._close())
        await asyncio.shield(self._release)

    async def _close(self) -> None:
        closed = True
        try:
            closed = await close_context(self.context)
        finally:
            self._supply._return(self, closed=closed)


class _Unreachable(BrowserUnavailable):
    """A browser was lent that cannot be used; another one may be."""


async def _new_context(
    browser: Browser, spec: BrowserSpec, background: BackgroundTasks
) -> BrowserContext:
    creating = browser.new_context(**spec.context_options())
    return await open_context(creating, CONTEXT_TIMEOUT_S, background)


def _again(refusal: BrowserError) -> BrowserError:
    """Return the error that a service's refusal is to somebody else."""
    kind = PoolFull if isinstance(refusal, PoolFull) else BrowserUnavailable
    return kind(str(refusal), refusal.retry_after_s)
