"""Keeps pages from the verifier's API, which serves the expected state beside the app itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from playwright.async_api import Browser, Error

from resources_servers.browser_gym.browser.policy import VERIFIER_API
from resources_servers.browser_gym.browser.process import close_within_bound

_TIMEOUT_S = 30

# Chromium asks us only about URLs of this shape: `*` is any text, `?` one character. Wider than
# VERIFIER_API, so that every case and percent-encoding of it is among them.
_SUSPECTS = [
    {"urlPattern": "http*/???/*??/*???_*_?????*"},
    {"urlPattern": "http*;*_*_*"},
    {"urlPattern": "http*%*"},
]


async def guard(browser: Browser) -> None:
    """Refuse requests for the verifier's API in all contexts of a browser, as long as it runs.

    Unlike Playwright's routes this also sees redirects and what shared workers and worklets load.

    Raises:
        playwright.async_api.Error: the browser is gone.
        TimeoutError: it did not answer; like any that cannot be guarded, it is closed.
    """
    try:
        await asyncio.wait_for(_guard(browser), _TIMEOUT_S)
    except (Error, TimeoutError):
        await close_within_bound(browser.close, "closing Chromium")
        raise


async def _guard(browser: Browser) -> None:
    session = await browser.new_browser_cdp_session()
    answers: set[asyncio.Task[None]] = set()

    async def answer(request_id: str, url: str) -> None:
        with contextlib.suppress(Error):  # the page may be gone, or the browser
            if VERIFIER_API.match(url):
                refusal = {"requestId": request_id, "errorReason": "BlockedByClient"}
                await session.send("Fetch.failRequest", refusal)
            else:
                await session.send("Fetch.continueRequest", {"requestId": request_id})

    def on_paused(event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(answer(event["requestId"], event["request"]["url"]))
        answers.add(task)
        task.add_done_callback(answers.discard)

    session.on("Fetch.requestPaused", on_paused)
    await session.send("Fetch.enable", {"patterns": _SUSPECTS})
