"""The Playwright driver: a process of its own that speaks with the browsers."""

from __future__ import annotations

import asyncio
import contextlib

from playwright.async_api import Browser, Playwright, async_playwright

from resources_servers.browser_gym.browser.background import BackgroundTasks

_STOP_TIMEOUT_S = 10


class Driver:
    """One driver, started when it is needed, and another one should it break."""

    def __init__(self, background: BackgroundTasks) -> None:
        """Start nothing yet; `background` runs what ends a driver."""
        self._background = background
        self._starting: asyncio.Task[Playwright] | None = None

    async def get(self) -> Playwright:
        """Return the driver, started if there is none that works.

        Raises:
            Exception: it does not start; Playwright has no class of its own for this.
        """
        last = self._starting
        if last and last.done() and (last.exception() or not has_driver(last.result())):
            self.drop()
        if self._starting is None:
            self._starting = asyncio.create_task(async_playwright().start())
        # Shared: the cancellation of one caller must not stop the start.
        return await asyncio.shield(self._starting)

    def drop(self) -> None:
        """Begin to stop the driver; the next `get` starts another."""
        if self._starting:
            starting, self._starting = self._starting, None
            self._background.start(_stop(starting))


def has_driver(owner: Browser | Playwright) -> bool:
    """Whether the Playwright driver of an object lives; without it, nothing of it works again.

    Playwright has no public call for this: a browser whose driver died still calls itself
    connected.
    """
    return owner._impl_obj._connection._closed_error is None


def is_usable(browser: Browser) -> bool:
    """Whether a browser is connected, and the driver that speaks with it lives."""
    return browser.is_connected() and has_driver(browser)


async def _stop(starting: asyncio.Task[Playwright]) -> None:
    with contextlib.suppress(Exception):
        driver = await starting
        await asyncio.wait_for(driver.stop(), _STOP_TIMEOUT_S)
