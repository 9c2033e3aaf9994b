"""The tabs of one session: popups, dialogs and crashes, each reported as an event."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, Page

from resources_servers.browser_gym.browser.announced import Announced
from resources_servers.browser_gym.browser.capture import shown_text
from resources_servers.browser_gym.browser.downloads import Downloads
from resources_servers.browser_gym.browser.gateway import Gateway
from resources_servers.browser_gym.browser.loads import Loads
from resources_servers.browser_gym.browser.pulse import Pulse
from resources_servers.browser_gym.browser.quirks import SELECT_STYLE_SCRIPT, let_frames_load
from resources_servers.browser_gym.browser.remote_files import RemoteFiles
from resources_servers.browser_gym.browser.settle import TIMER_SCRIPT
from resources_servers.browser_gym.browser.uploads import Uploads

logger = logging.getLogger(__name__)

DialogPolicy = Literal["accept", "dismiss"]

# Of one type and in one observation; of the rest only the number is told.
MAX_EVENTS_OF_A_TYPE = 20
MAX_TABS = 20
CLOSE_TIMEOUT_S = 2
TITLE_TIMEOUT_S = 2
# Of windows for other addresses, such as `mailto:`, nothing is told but that they would be opened.
_WINDOW_SCHEMES = ("", "http", "https", "about", "blob", "data")


@dataclass(eq=False)
class Tab:
    """One open tab.

    Attributes:
        tab_id: stable name within the session, `tab-1`, `tab-2`, …
        cdp: session for what Playwright has no call for (screenshots, side buttons, history).
        pulse: tells whether its page is busy.
        opener: the tab that opened it, if any.
        crashed: whether its renderer died; it is replaced before it is used again.
    """

    tab_id: str
    page: Page
    cdp: CDPSession
    pulse: Pulse
    opener: Tab | None = None
    crashed: bool = False


class Tabs:
    """Follows a context's pages: a new tab becomes active, closing one returns to its opener."""

    def __init__(
        self,
        context: BrowserContext,
        *,
        dialog_policy: DialogPolicy,
        download_dir: Path,
        files: Mapping[str, Path] = MappingProxyType({}),
        remote_files: RemoteFiles | None = None,
        gateway: Gateway | None = None,
    ) -> None:
        """Prepare; call `open_first` before anything else.

        Args:
            context: a browser context with at most a blank page in it.
            dialog_policy: how alert, confirm and prompt are answered. `beforeunload` is always
                accepted: leaving a page is what was asked for.
            download_dir: folder of this session's downloads; made when the first one starts.
            files: what pages that ask for files may be given, beside downloads.
            remote_files: for a browser on another machine.
            gateway: the context's way out, if it has one.
        """
        self._context = context
        self._dialog_policy = dialog_policy
        self._downloads = Downloads(download_dir, self.report, remote_files)
        self._loads = Loads(context, self.report, gateway)
        self.uploads = Uploads(
            lambda: {**self._downloads.files, **files}, self.report, remote_files
        )
        self._stopped = False
        self._tabs: list[Tab] = []
        self._active: Tab | None = None
        self._ids = itertools.count(1)
        self._opening = 0
        self._events: list[dict[str, Any]] = []
        self._left_out: Counter[str] = Counter()
        self._downloading = False  # whether a download began in this step
        self._windows = Announced()
        self._arrivals: dict[Page, asyncio.Task[Tab | None]] = {}
        self._work: set[asyncio.Task[Any]] = set()

    @property
    def active(self) -> Tab:
        """The tab that actions go to and screenshots show.

        Raises:
            Error: every tab is closed; `arrived` opens a new one if the browser still can.
        """
        if self._active is None:
            raise Error("every tab is closed")
        return self._active

    @property
    def all(self) -> list[Tab]:
        """The open tabs, oldest first."""
        return list(self._tabs)

    async def open_first(self) -> Tab:
        """Open the session's first tab."""
        self._context.on("page", self._on_page)
        self._context.on("dialog", self._on_dialog)
        for page in self._context.pages:  # a context opened ahead of need has a blank one
            self._on_page(page)
        scripts = self._context.add_init_script(SELECT_STYLE_SCRIPT + TIMER_SCRIPT)
        await asyncio.gather(scripts, self.arrived())
        self.take_events()
        return self.active

    async def arrived(self) -> None:
        """Wait until every page that has appeared is a usable tab, and there is at least one."""
        await asyncio.gather(*self._arrivals.values())
        if not self._tabs:
            await self._open_page()

    async def announced_arrived(self) -> bool:
        """Wait for the windows and the questions for files that pages are about to show.

        Returns:
            Whether there was any to wait for.
        """
        windows = await self._windows.all_told()
        return await self.uploads.arrived() or windows

    async def open(self) -> Tab:
        """Open an empty tab, make it active and return it.

        Raises:
            LookupError: there are as many tabs as may be.
        """
        if len(self._tabs) >= MAX_TABS:
            raise LookupError(f"there are {MAX_TABS} tabs already: close one first")
        await self._open_page()
        return self.active

    async def _open_page(self) -> Page:
        self._opening += 1
        try:
            page = await self._context.new_page()
            await asyncio.gather(*self._arrivals.values())
        finally:
            self._opening -= 1
        return page

    def find(self, *, index: int | None = None, tab_id: str | None = None) -> Tab:
        """Return a tab by position or id.

        Raises:
            LookupError: no such tab; the message lists those there are.
        """
        if index is not None and index < len(self._tabs):
            return self._tabs[index]
        for tab in self._tabs:
            if tab_id is not None and tab.tab_id == tab_id:
                return tab
        wanted = f"index {index}" if index is not None else f"id {tab_id!r}"
        names = ", ".join(f"{i}: {tab.tab_id}" for i, tab in enumerate(self._tabs))
        raise LookupError(f"there is no tab with {wanted}; open tabs are {names}")

    async def activate(self, tab: Tab) -> None:
        """Make `tab` the active one."""
        self._active = tab
        await tab.page.bring_to_front()

    async def close(self, tab: Tab) -> None:
        """Close a tab the way a person does, running its unload handlers.

        Raises:
            LookupError: it is the last tab.
        """
        if len(self._tabs) == 1:
            raise LookupError("the last tab cannot be closed")
        closed = asyncio.ensure_future(tab.page.wait_for_event("close"))
        try:
            await tab.page.close(run_before_unload=True)
            await asyncio.wait_for(closed, CLOSE_TIMEOUT_S)
        except (TimeoutError, Error):
            with contextlib.suppress(Error):
                await tab.page.close()
        finally:
            closed.cancel()
            with contextlib.suppress(asyncio.CancelledError, Error):
                await closed
        self._forget(tab)

    async def replace_crashed(self) -> None:
        """Give each crashed tab a new page at the same address; localStorage outlives the crash."""
        for tab in [tab for tab in self._tabs if tab.crashed]:
            fresh = await self.replace(tab)
            with contextlib.suppress(Error):
                await fresh.page.goto(tab.page.url, wait_until="commit", timeout=10_000)

    async def replace(self, tab: Tab) -> Tab:
        """Give a tab whose page cannot be used any more an empty one, and return it.

        Raises:
            playwright.async_api.Error: it closed at once, as the browser does.
        """
        was_active = tab is self._active
        page = await self._open_page()
        fresh = next((t for t in self._tabs if t.page is page), None)
        if fresh is None:
            raise Error("the tab closed as it was opened again")
        if tab not in self._tabs:
            return fresh  # that one was closed meanwhile, and this one is new
        self._events = [e for e in self._events if e.get("tab_id") != fresh.tab_id]
        self._tabs.remove(fresh)
        fresh.tab_id, fresh.opener = tab.tab_id, tab.opener
        self._tabs[self._tabs.index(tab)] = fresh
        if was_active:
            self._active = fresh
        # First the old page, so that the new one does not share a process that hangs.
        with contextlib.suppress(Error, TimeoutError):
            await asyncio.wait_for(tab.page.close(), CLOSE_TIMEOUT_S)
        return fresh

    async def describe(self) -> list[dict[str, Any]]:
        """Return `{tab_id, index, url, title, active}` for each tab."""
        tabs = list(self._tabs)  # some may open or close meanwhile
        titles = await asyncio.gather(*(_title(tab) for tab in tabs))
        return [
            {
                "tab_id": tab.tab_id,
                "index": index,
                "url": shown_text(self.url_of(tab)),
                "title": shown_text(title),
                "active": tab is self._active,
            }
            for index, (tab, title) in enumerate(zip(tabs, titles, strict=True))
        ]

    def url_of(self, tab: Tab) -> str:
        """Return the address a tab shows; of a page that did not load, the one that failed."""
        return self._loads.url_of(tab.page)

    async def finish_step(self) -> None:
        """Wait a moment for downloads, and tell what is not done yet as a step ends."""
        await self._downloads.pause()
        active = self._active and self._loads.under_way(self._active.page)
        for url in [*([active] if active else []), *self._loads.of_new_tabs]:
            self.report("loading", url=url)

    def take_events(self) -> list[dict[str, Any]]:
        """Return what happened since the last call: tabs, dialogs, loads, files, crashes."""
        events, self._events = self._events, []
        self._downloading = False
        if self._left_out:
            events.append({"type": "left_out", "events": dict(self._left_out)})
            self._left_out.clear()
        return events

    async def stop(self) -> None:
        """End what still runs on behalf of the tabs."""
        self._stopped = True
        for task in [*self._arrivals.values(), *self._work]:
            task.cancel()
        await asyncio.gather(*self._arrivals.values(), *self._work, return_exceptions=True)
        await self._downloads.stop()
        await self.uploads.stop()

    def _on_page(self, page: Page) -> None:
        if self._stopped:
            return
        self._windows.tell()
        # One more for a page that takes the place of another.
        full = len(self._tabs) + len(self._arrivals) >= MAX_TABS + self._opening
        task = asyncio.ensure_future(self._refuse(page) if full else self._adopt(page))
        self._arrivals[page] = task
        task.add_done_callback(lambda _: self._arrivals.pop(page, None))

    def _on_window(self, opening: dict[str, Any]) -> None:
        if opening["url"].partition(":")[0] in _WINDOW_SCHEMES:
            self._windows.announce()

    async def _refuse(self, page: Page) -> None:
        self.report("tab_refused", url=page.url, most=MAX_TABS)
        await _close(page)

    async def _adopt(self, page: Page) -> Tab | None:
        try:
            opener_page, cdp = await asyncio.gather(
                page.opener(), self._context.new_cdp_session(page)
            )
            cdp.on("Page.windowOpen", self._on_window)
            await asyncio.gather(self._downloads.watch(cdp), self.uploads.watch(cdp))
        except Error:
            # Closed itself before it could be looked at.
            self.report("tab_blinked", url=page.url)
            return None
        opener = next((t for t in self._tabs if t.page is opener_page), None)
        if opener and len(opener.page.frames) > 1:
            await let_frames_load(opener.cdp)
        pulse = Pulse(cdp, lambda: _is_loading(page, self._loads))
        tab = Tab(f"tab-{next(self._ids)}", page, cdp, pulse, opener)
        self._tabs.append(tab)
        self._active = tab
        page.on("close", lambda _: self._forget(tab))
        page.on("crash", lambda _: self._on_crash(tab))
        page.on("download", self._on_download)
        page.on("filechooser", self.uploads.asked)
        if page.is_closed():
            self._forget(tab)
            return None
        self.report("tab_opened", tab_id=tab.tab_id, url=page.url)
        self._close_unused()
        return tab

    def _forget(self, tab: Tab) -> None:
        if tab not in self._tabs:
            return
        self._tabs.remove(tab)
        self.report("tab_closed", tab_id=tab.tab_id, url=self.url_of(tab))
        self._loads.forget(tab.page)
        if self._active is tab:
            opener = tab.opener if tab.opener in self._tabs else None
            self._active = opener or (self._tabs[-1] if self._tabs else None)

    def _on_crash(self, tab: Tab) -> None:
        tab.crashed = True
        self.report("crash", tab_id=tab.tab_id, url=tab.page.url)

    def _on_dialog(self, dialog: Dialog) -> None:
        accept = dialog.type == "beforeunload" or self._dialog_policy == "accept"
        given = {"text": dialog.default_value} if accept and dialog.type == "prompt" else {}
        self.report(
            "dialog",
            dialog_type=dialog.type,
            message=dialog.message,
            answer="accepted" if accept else "dismissed",
            **given,
        )
        self._in_background(_answer(dialog, accept))

    def _on_download(self, download: Download) -> None:
        if self._stopped:
            return
        self._downloads.start(download)
        self._downloading = True
        self._close_unused()

    def _close_unused(self) -> None:
        """Close tabs that were opened for a download only, as a browser does.

        The download is told of the tab with the link, not of the one that was opened for it.
        """
        unused = [tab for tab in self._tabs if self._downloading and not tab.page.url]
        for tab in unused:
            self._in_background(_close(tab.page))

    def report(self, kind: str, **fields: Any) -> None:
        """Add an event for the next observation."""
        if sum(event["type"] == kind for event in self._events) >= MAX_EVENTS_OF_A_TYPE:
            self._left_out[kind] += 1
            return
        texts = {k: shown_text(v) if isinstance(v, str) else v for k, v in fields.items()}
        self._events.append({"type": kind, **texts})

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _is_loading(page: Page, loads: Loads) -> bool:
    """Whether a page waits for an answer; a new tab has no address until its first one."""
    return not page.url or loads.under_way(page) is not None


async def _answer(dialog: Dialog, accept: bool) -> None:
    with contextlib.suppress(Error):  # the page may be gone, and the dialog with it
        if accept:
            await dialog.accept(dialog.default_value)
        else:
            await dialog.dismiss()


async def _close(page: Page) -> None:
    with contextlib.suppress(Error):
        await page.close()


async def _title(tab: Tab) -> str:
    if tab.crashed or tab.pulse.busy:
        return ""
    try:
        return await asyncio.wait_for(tab.page.title(), TITLE_TIMEOUT_S)
    except (Error, TimeoutError):
        return ""  # busy, navigating or gone: a step is not held up for a title
