"""Watches a browser while a person uses it: input, tabs, navigation, pictures, storage."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Frame, Page

from browser_gym.recording.events import SCRIPT, Event, checked
from browser_gym.recording.gestures import Gestures, Recorded
from browser_gym.recording.history import History, moves
from resources_servers.browser_gym.browser.capture import Image, take_screenshot, valid_unicode
from resources_servers.browser_gym.browser.quirks import SELECT_STYLE_SCRIPT

logger = logging.getLogger(__name__)

QUIET_MS = 300
"""How long nothing was done before a picture of what came of it."""
LOOK_EVERY_S = 0.2
_ASK_AGAIN_S = 0.02
ANSWER_TIMEOUT_S = 3
"""For what a page is asked; one that hangs is passed over."""
_KEPT_LOOKS = 100
_SHOWN_CHARS = 100
Happened = Callable[[], Awaitable[None]]
"""Takes in something that happened."""

# A blank page has no storage.
_STORAGE_SCRIPT = """
() => {
  try {
    return [location.origin, Object.entries(localStorage)];
  } catch {
    return ["null", []];
  }
}
"""


# A frame's own points begin inside of its border and padding.
_INSET_SCRIPT = """
(frame) => {
  const {paddingLeft, paddingTop} = getComputedStyle(frame);
  return [frame.clientLeft + parseFloat(paddingLeft), frame.clientTop + parseFloat(paddingTop)];
}
"""


@dataclass(frozen=True)
class Look:
    """What a tab showed.

    Attributes:
        tab: which.
        began: when it was looked at, in ms since the epoch.
        ended: likewise.
        image: the viewport.
        url: of the tab.
        origin: of its page.
        storage: the origin's localStorage.
    """

    tab: int
    began: float
    ended: float
    image: Image
    url: str
    origin: str
    storage: dict[str, str]


@dataclass(frozen=True)
class _Tab:
    id: int
    page: Page
    cdp: CDPSession


class Watch:
    """Follows what a person does in a context.

    Attributes:
        gestures: what was done; each action with what was seen before it.
        looks: the last ones.
        storages: localStorage of each origin when it was last looked at.
        seen: set with the first look.
        over: set when the last tab is closed.
    """

    def __init__(
        self, context: BrowserContext, width: int, height: int, done: Callable[[Recorded], None]
    ) -> None:
        """Prepare to watch a context that has no page yet.

        Args:
            context: to watch.
            width: of the viewport, in CSS px.
            height: likewise.
            done: told of each action once there is a picture of what came of it.
        """
        self._context = context
        self._most = width - 1, height - 1
        self._done = done
        self._ids = itertools.count()
        self._tabs: dict[Page, _Tab] = {}
        self._front: Page | None = None
        self._histories: dict[Page, History] = {}
        self._happened: asyncio.Queue[Happened] = asyncio.Queue()
        self._work: list[asyncio.Task[None]] = []
        self.gestures = Gestures()
        self.looks: deque[Look] = deque(maxlen=_KEPT_LOOKS)
        self.storages: dict[str, dict[str, str]] = {}
        self.seen = asyncio.Event()
        self.over = asyncio.Event()

    async def install(self) -> None:
        """Put into the context what reports the person's input."""
        name = f"_{secrets.token_hex(8)}"
        await self._context.expose_binding(name, self._reported)
        await self._context.add_init_script(f"({SCRIPT.strip().rstrip(';')})('{name}')")
        await self._context.add_init_script(SELECT_STYLE_SCRIPT)
        self._context.on("dialog", self._asked)

    async def begin(self, page: Page) -> None:
        """Watch from now on, with this page as the first tab.

        There is no way back from it: the blank page before it is none of the task's.
        """
        await self._open(page, _now())
        await self._tabs[page].cdp.send("Page.resetNavigationHistory")
        self._histories[page] = await _history(self._tabs[page].cdp)
        self._context.on("page", lambda new: self._put(partial(self._open, new, _now())))
        self._work = [
            asyncio.create_task(self._follow()),
            asyncio.create_task(self._keep_looking()),
        ]

    async def end(self) -> None:
        """Stop watching, after a last look at what is there."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._happened.join(), ANSWER_TIMEOUT_S)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._look()

    def _put(self, happened: Happened) -> None:
        self._happened.put_nowait(happened)

    async def _follow(self) -> None:
        """Take what happened, one after the other in the order it came."""
        while True:
            happened = await self._happened.get()
            try:
                await happened()
            except (Error, TimeoutError):
                pass  # the page it was in is gone, or hangs
            except Exception as error:  # what was done so far is worth keeping
                logger.exception("something that was done could not be taken in")
                self.gestures.notes.append(f"something is missing: {type(error).__name__}: {error}")
            finally:
                self._happened.task_done()
            self._find_befores()

    def _reported(self, source: dict[str, Any], report: Any) -> None:
        event = checked(report)
        if event and source["page"] in self._tabs:
            self._put(partial(self._input, source["page"], source["frame"], event))

    async def _input(self, page: Page, frame: Frame, event: Event) -> None:
        event.at = min(event.at, _now())
        if frame.parent_frame and event.kind in ("down", "move", "up", "wheel"):
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                element = await frame.frame_element()
                box = await element.bounding_box()
                inset = await element.evaluate(_INSET_SCRIPT)
            if box:
                event.x += box["x"] + inset[0]
                event.y += box["y"] + inset[1]
        # A pointer that is released outside of the window is at its edge.
        event.x, event.y = (
            round(min(max(value, 0), most), 2)
            for value, most in zip((event.x, event.y), self._most, strict=True)
        )
        if tab := self._tabs.get(page):
            self._front = page
            self.gestures.input(tab.id, event)

    async def _open(self, page: Page, at: float) -> None:
        opener = await page.opener()
        tab = _Tab(next(self._ids), page, await self._context.new_cdp_session(page))

        def navigated(frame: dict[str, Any]) -> None:
            if not frame["frame"].get("parentId"):
                self._put(partial(self._navigated, tab, _now(), same_document=False))

        tab.cdp.on("Page.frameNavigated", navigated)
        tab.cdp.on(
            "Page.navigatedWithinDocument",
            lambda _: self._put(partial(self._navigated, tab, _now(), same_document=True)),
        )
        await tab.cdp.send("Page.enable")
        # Only now, or a navigation in between would be in neither.
        history = await _history(tab.cdp)
        self._tabs[page], self._histories[page], self._front = tab, history, page
        opened_by = self._tabs.get(opener) if opener else None
        by_person = self.gestures.opened(tab.id, opened_by and opened_by.id, at)
        page.on("close", lambda _: self._put(partial(self._closed, tab, _now())))
        if page.is_closed():
            await self._closed(tab, at)
        elif by_person:
            for move, url in moves(History(), history, same_document=False):
                self.gestures.navigated(tab.id, move, url, at)

    async def _closed(self, tab: _Tab, at: float) -> None:
        if self._tabs.pop(tab.page, None) is None:
            return
        self.gestures.closed(tab.id, at)
        active = (page for page, one in self._tabs.items() if one.id == self.gestures.active)
        self._front = next(active, None)
        if not self._tabs:
            self.gestures.drop_closing(at)
            self.over.set()

    async def _navigated(self, tab: _Tab, at: float, *, same_document: bool) -> None:
        now = await _history(tab.cdp)
        before, self._histories[tab.page] = self._histories[tab.page], now
        for move, url in moves(before, now, same_document=same_document):
            self.gestures.navigated(tab.id, move, url, at)

    async def _asked(self, dialog: Dialog) -> None:
        """Answer a dialog as the environment does."""
        if dialog.type != "beforeunload":
            question = dialog.message[:_SHOWN_CHARS]
            note = f"a page asked {question!r}, which was accepted as in an episode"
            self.gestures.notes.append(note)
        with contextlib.suppress(Error):
            await dialog.accept(*([dialog.default_value] if dialog.type == "prompt" else []))

    async def _keep_looking(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        """Look at the tab in front, if it lets itself be looked at."""
        tab = self._tabs.get(self._front) if self._front else None
        if tab is None:
            return
        began = _now()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                image, (origin, items) = await asyncio.gather(
                    take_screenshot(tab.cdp, "jpeg", 85), tab.page.evaluate(_STORAGE_SCRIPT)
                )
            storage = {valid_unicode(key): valid_unicode(text) for key, text in items}
        except (Error, TimeoutError, ValueError, TypeError, AttributeError):
            return  # also if a page made something else of what it was asked
        # An episode's new tab is blank; a person's has the browser's own page.
        url = "about:blank" if tab.page.url.startswith("chrome:") else tab.page.url
        look = Look(tab.id, began, _now(), image, url, origin, storage)
        self.looks.append(look)
        self.storages[origin] = storage
        self.seen.set()
        self._find_befores(look)
        self._tell(look)

    def _find_befores(self, late: Look | None = None) -> None:
        """Give each action the last look before it; else, of a tab that is new, the first after."""
        for recorded in self.gestures.actions:
            if recorded.before is None:
                looks = [look for look in self.looks if look.tab == recorded.tab]
                earlier = [look for look in looks if look.ended <= recorded.began]
                recorded.before = earlier[-1] if earlier else (looks[0] if late and looks else None)

    def _tell(self, look: Look) -> None:
        for recorded in self.gestures.actions:
            if not recorded.told and look.began >= recorded.ended + QUIET_MS:
                recorded.told = True
                self._done(recorded)


def _now() -> float:
    return time.time() * 1000


async def _history(cdp: CDPSession) -> History:
    """Return a tab's history, which Chromium does not tell while it puts a page in its place.

    Raises:
        Error: the tab is gone.
        TimeoutError: it was not told in time.
    """
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        while True:
            try:
                return History.of(await cdp.send("Page.getNavigationHistory"))
            except Error as error:
                if "Not attached to an active page" not in str(error):
                    raise
            await asyncio.sleep(_ASK_AGAIN_S)
