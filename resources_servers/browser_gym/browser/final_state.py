"""Reads what a session leaves behind: storage, and where its pages were."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.async_api import BrowserContext, Error, Frame

from resources_servers.browser_gym.browser.capture import (
    STORAGE_TIMEOUT_S,
    Image,
    Storage,
    read_storage,
    shown_text,
    valid_unicode,
)
from resources_servers.browser_gym.browser.final_page import read_page
from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep, PageState
from resources_servers.browser_gym.browser.tabs import Tabs

More = Literal["session_storage", "cookies", "indexed_db"]
"""What is read beside localStorage if asked for."""

_LEAVE_TIMEOUT_MS = 3_000

_READ_SCRIPT = """
async ({databases}) => ({
  origin: self.origin,
  items: Object.entries(sessionStorage),
  databases: databases ? (await indexedDB.databases()).map(({name}) => name) : [],
})
"""


@dataclass(frozen=True)
class FinalState:
    """What a session left behind.

    Attributes:
        start_origin: origin of the start page after its redirects.
        initial: localStorage by origin, right after the start page had loaded.
        final: the same at the end.
        url: of the active tab at the end.
        page: the active tab before it was left, as far as it is wanted.
        screenshots: the last different ones that are wanted, oldest first.
    """

    start_origin: str
    initial: Storage
    final: Storage
    url: str
    page: PageState = field(default_factory=PageState)
    screenshots: tuple[Image, ...] = ()


async def read_final(
    context: BrowserContext,
    tabs: Tabs,
    start_origin: str,
    initial: Storage,
    *,
    leave: bool,
    keep: Keep = KEEP_NOTHING,
) -> FinalState:
    """Read the state now; with `leave`, storage after leaving every page, so that it has saved.

    Raises:
        TimeoutError: it could not be read within the bound.
        playwright.async_api.Error: the browser is gone.
    """
    await tabs.arrived()
    url = shown_text(tabs.active.page.url)
    page = await read_page(tabs, keep)
    try:
        final = await read_storage(context)
    except TimeoutError:
        if not leave:
            raise
        # A page in an endless loop keeps its storage to itself until it is closed.
        await _close_pages(tabs)
        final = await read_storage(context)
    if leave and await _leave_pages(tabs):
        final = await read_storage(context)
    return FinalState(start_origin, initial, final, url, page)


async def read_more(
    context: BrowserContext, tabs: Tabs, wanted: Collection[More]
) -> dict[str, Any]:
    """Read what is asked for beside localStorage.

    sessionStorage belongs to a tab and databases are listed by their origin's pages: both only of
    pages, and frames in them, that are open. Of two tabs' sessionStorage at one origin it is the
    active tab's.

    Returns:
        Of `session_storage` ({origin: {key: text}}), `cookies` (a list in Playwright's shape) and
        `indexed_db` ({origin: [database name]}) those in `wanted`.

    Raises:
        TimeoutError: it could not be read within the bound.
        playwright.async_api.Error: the browser is gone.
    """
    more: dict[str, Any] = {}
    if "cookies" in wanted:
        more["cookies"] = [
            {key: valid_unicode(v) if isinstance(v, str) else v for key, v in cookie.items()}
            for cookie in await context.cookies()
        ]
    if not {"session_storage", "indexed_db"} & set(wanted):
        return more
    # The active tab is the last, and a tab's own page is after its frames: the last one counts.
    open_tabs = sorted((t for t in tabs.all if not t.crashed), key=lambda tab: tab is tabs.active)
    frames = [frame for tab in open_tabs for frame in reversed(tab.page.frames)]
    databases = "indexed_db" in wanted
    try:
        async with asyncio.timeout(STORAGE_TIMEOUT_S):
            read = await asyncio.gather(*(_read_frame(frame, databases) for frame in frames))
    except TimeoutError:
        raise TimeoutError(f"a page's storage was not read within {STORAGE_TIMEOUT_S} s") from None
    found = [state for state in read if state and state["origin"] != "null"]
    if "session_storage" in wanted:
        more["session_storage"] = {
            state["origin"]: {valid_unicode(k): valid_unicode(v) for k, v in state["items"]}
            for state in found
        }
    if databases:
        more["indexed_db"] = {
            state["origin"]: sorted(map(valid_unicode, state["databases"])) for state in found
        }
    return more


async def _read_frame(frame: Frame, databases: bool) -> dict[str, Any] | None:
    try:
        return await frame.evaluate(_READ_SCRIPT, {"databases": databases})
    except Error:
        return None  # gone meanwhile, or of no origin that could store anything


async def _leave_pages(tabs: Tabs) -> bool:
    """Leave every page by navigation, which runs its unload handlers; tell if any was left."""
    pages = [tab.page for tab in tabs.all if not tab.crashed and tab.page.url != "about:blank"]
    outcomes = await asyncio.gather(
        *(page.goto("about:blank", timeout=_LEAVE_TIMEOUT_MS) for page in pages),
        return_exceptions=True,
    )
    return any(not isinstance(outcome, BaseException) for outcome in outcomes)


async def _close_pages(tabs: Tabs) -> None:
    """Close every page without running its unload handlers, which one that hangs cannot run."""
    closing = (asyncio.wait_for(tab.page.close(), _LEAVE_TIMEOUT_MS / 1000) for tab in tabs.all)
    await asyncio.gather(*closing, return_exceptions=True)
