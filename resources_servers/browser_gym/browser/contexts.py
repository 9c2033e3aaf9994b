"""Opening a browser context so that none is left over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any

from playwright.async_api import BrowserContext, Error

from resources_servers.browser_gym.browser.background import BackgroundTasks
from resources_servers.browser_gym.browser.process import close_context


async def open_context(
    creating: Coroutine[Any, Any, BrowserContext], timeout_s: float, background: BackgroundTasks
) -> BrowserContext:
    """Open a context; one that arrives after a cancellation or timeout is closed.

    Args:
        creating: opens it.
        timeout_s: seconds it may take.
        background: runs the closing.

    Raises:
        playwright.async_api.Error, OSError: of `creating`.
        TimeoutError: it did not answer in time.
    """
    creation = asyncio.ensure_future(creating)
    try:
        return await asyncio.wait_for(asyncio.shield(creation), timeout_s)
    except BaseException:
        background.start(_close_created(creation))
        raise


async def _close_created(creation: Awaitable[BrowserContext]) -> None:
    with contextlib.suppress(Error, OSError):
        await close_context(await creation)
