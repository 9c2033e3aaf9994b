"""Opening a browser context so that none is left over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable

from playwright.async_api import Browser, BrowserContext, Error

from resources_servers.browser_gym.browser.backend import BrowserSpec
from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.process import close_context


async def open_context(
    browser: Browser, spec: BrowserSpec, timeout_s: float, background: BackgroundTasks
) -> BrowserContext:
    """Open a context; one that arrives after a cancellation or timeout is closed.

    Args:
        browser: where to.
        spec: what it looks like.
        timeout_s: seconds it may take.
        background: runs the closing.

    Raises:
        playwright.async_api.Error: the browser is gone, or refuses.
        TimeoutError: it did not answer in time.
    """
    creation = asyncio.ensure_future(browser.new_context(**spec.context_options()))
    try:
        return await asyncio.wait_for(asyncio.shield(creation), timeout_s)
    except BaseException:
        background.start(_close_created(creation))
        raise


async def _close_created(creation: Awaitable[BrowserContext]) -> None:
    with contextlib.suppress(Error):
        await close_context(await creation)
