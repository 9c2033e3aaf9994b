"""Connections to remote browsers, shared by the sessions in one browser."""

from __future__ import annotations

import asyncio
import contextlib

from playwright.async_api import Browser, Error

from resources_servers.browser_gym.browser.backend import BrowserUnavailable
from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.driver import Driver, is_usable
from resources_servers.browser_gym.browser.process import close_within_bound
from resources_servers.browser_gym.browser.session_providers.contract import RemoteSession
from resources_servers.browser_gym.browser.session_providers.settings import host_of

CONNECT_TIMEOUT_S = 30
# How much longer we wait for the driver itself, which ends a connection attempt in time as a rule.
_GRACE_S = 5


class Connection:
    """A connection to one browser, from its first session to its last.

    Attributes:
        name: of the session that the browser was lent for.
        host: where it is.
        users: sessions in it, those being opened included.
        retired: whether it takes no more sessions.
    """

    def __init__(self, session: RemoteSession, driver: Driver) -> None:
        self.name = session.session_id
        self.host = host_of(session.endpoint)
        self.users = 0
        self.retired = False
        self._connecting = asyncio.create_task(_connect(session, driver))
        # Who waits for it is told; nobody may be left when it fails.
        self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def usable(self) -> bool:
        """Whether it stands."""
        browser = self._connected
        return browser is not None and is_usable(browser)

    @property
    def failed(self) -> bool:
        """Whether it did not come about, or has ended."""
        return self._connecting.done() and not self.usable

    @property
    def version(self) -> str | None:
        """The browser's version, once it is known."""
        return self._connected.version if self._connected else None

    async def browser(self) -> Browser:
        """Return the browser once it is connected to.

        Raises:
            playwright.async_api.Error: it cannot be connected to.
            TimeoutError: it does not answer.
        """
        # Shared: the cancellation of one caller must not stop it.
        return await asyncio.shield(self._connecting)

    async def close(self) -> None:
        """Disconnect; Chromium then closes the contexts that were opened over the connection."""
        with contextlib.suppress(Exception):  # whoever waited for it was told
            browser = await self._connecting
            await close_within_bound(browser.close, f"leaving the remote browser {self.name}")

    @property
    def _connected(self) -> Browser | None:
        task = self._connecting
        if not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()


class Connections:
    """One connection for each browser that is in use."""

    def __init__(self, background: BackgroundTasks) -> None:
        """Have none yet; `background` runs what ends the driver."""
        self._driver = Driver(background)
        self._by_name: dict[str, Connection] = {}
        self._retired: set[Connection] = set()

    @property
    def all(self) -> list[Connection]:
        """Those that are in use."""
        return [*self._by_name.values(), *self._retired]

    async def start(self) -> None:
        """Start the driver.

        Raises:
            BrowserUnavailable: it does not start.
        """
        try:
            await self._driver.get()
        except Exception as error:
            raise BrowserUnavailable(f"Playwright's driver did not start: {error}") from error

    def join(self, session: RemoteSession) -> Connection:
        """Return the connection for a session, begun if there is none; `leave` undoes it."""
        connection = self._by_name.get(session.session_id)
        if connection and connection.failed:
            self._retire(connection)
            connection = None
        if connection is None:
            connection = self._by_name[session.session_id] = Connection(session, self._driver)
        connection.users += 1
        return connection

    async def leave(self, connection: Connection, *, broken: bool) -> None:
        """End a session's use of its connection; the last one closes it.

        Args:
            connection: what `join` returned.
            broken: whether no other session should use it.
        """
        connection.users -= 1
        if broken:
            self._retire(connection)
        if not connection.users:
            self._retire(connection)
            self._retired.discard(connection)
            await connection.close()

    async def close(self) -> None:
        """Close all, and the driver."""
        await asyncio.gather(*(connection.close() for connection in self.all))
        self._driver.drop()

    def _retire(self, connection: Connection) -> None:
        connection.retired = True
        if self._by_name.get(connection.name) is connection:
            del self._by_name[connection.name]
            self._retired.add(connection)


async def _connect(session: RemoteSession, driver: Driver) -> Browser:
    async with asyncio.timeout(CONNECT_TIMEOUT_S + _GRACE_S):
        try:
            playwright = await driver.get()
        except Exception as error:
            raise Error(f"Playwright's driver did not start: {error}") from error
        browser = await playwright.chromium.connect_over_cdp(
            session.endpoint,
            headers=dict(session.headers),
            timeout=CONNECT_TIMEOUT_S * 1000,
            no_defaults=True,
        )
    # Pages of the browser's other connections appear in a context that is not ours. Where nobody
    # listens, Playwright dismisses their dialogs, before their owner answers.
    for context in browser.contexts:
        context.on("dialog", lambda _: None)
    return browser
