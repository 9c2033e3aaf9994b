"""Runs canonical actions in one session's tabs, the way a person's input would arrive."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from playwright.async_api import BrowserContext, Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.camera import Camera
from resources_servers.browser_gym.browser.capture import (
    Image,
    ImageFormat,
    Storage,
    read_storage,
    shown_text,
)
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.input import Input
from resources_servers.browser_gym.browser.navigation import Navigation, first_line
from resources_servers.browser_gym.browser.observation import ActionResult, Observation, Words
from resources_servers.browser_gym.browser.page_clock import (
    BETWEEN_ACTIONS_MS,
    STEP_MS,
    PageClock,
)
from resources_servers.browser_gym.browser.patience import Patience
from resources_servers.browser_gym.browser.policy import Reach, UrlNotAllowed, normalize_url
from resources_servers.browser_gym.browser.pulse import PageBusy
from resources_servers.browser_gym.browser.reading import Reader
from resources_servers.browser_gym.browser.settle import Settler
from resources_servers.browser_gym.browser.tabs import Tab, Tabs
from resources_servers.browser_gym.keys import UnknownKeyError
from resources_servers.browser_gym.redaction import hide_secrets

# New tabs and reloads after a crash that one wait follows; some pages never stop.
_MAX_FOLLOWED = 5
_NEED_NO_PAGE = (
    act.Screenshot
    | act.Zoom
    | act.Wait
    | act.NewTab
    | act.SwitchTab
    | act.CloseTab
    | act.ListTabs
    | act.CursorPosition
)
_AT_AN_ELEMENT = act.Click | act.Move | act.MouseDown | act.MouseUp | act.Scroll | act.Type
_BUSY = (
    "the page is busy with a script that lets nothing else run; wait, or navigate, reload or close "
    "the tab to stop it"
)


class PageDriver:
    """Runs actions and observes; one per session, used by one caller at a time."""

    def __init__(
        self,
        context: BrowserContext,
        tabs: Tabs,
        clock: PageClock,
        reach: Reach,
        *,
        width: int,
        height: int,
        image_format: ImageFormat,
        image_quality: int,
        settle_max_ms: int,
        action_timeout_s: float,
        navigation_timeout_s: float,
    ) -> None:
        """Drive the tabs of `context`.

        Args:
            context: the session's browser context.
            tabs: its tabs, with the first one open.
            clock: how time passes for their pages.
            reach: what its pages may reach.
            width: viewport width in CSS px.
            height: viewport height in CSS px.
            image_format: of screenshots.
            image_quality: 1-100, for jpeg and webp.
            settle_max_ms: longest wait for a quiet page after a batch.
            action_timeout_s: longest wait for a page to answer a part of an action.
            navigation_timeout_s: longest wait for the answer to a navigation.
        """
        self._context = context
        self._tabs = tabs
        self._reach = reach
        self._zoom: act.Region | None = None
        self._camera = Camera(
            width=width, height=height, image_format=image_format, image_quality=image_quality
        )
        self._navigation = Navigation(tabs, reach, timeout_s=navigation_timeout_s)
        self._action_timeout_s = action_timeout_s
        self._navigation_timeout_s = navigation_timeout_s
        self._clock = clock
        self._settler = Settler(context, clock, max_ms=settle_max_ms)
        self._patience = Patience()
        self._input = Input(
            tabs, clock, self._settler.pass_time, self._patience.renew, width=width, height=height
        )
        self._reader = Reader(tabs, reach)

    async def run(
        self, batch: list[act.Action], words: Words | None = None
    ) -> tuple[list[ActionResult], Observation]:
        """Run a batch in order up to its first failure, then observe once, perhaps in words."""
        started = time.monotonic()
        self._settler.mark()
        results: list[ActionResult] = []
        failed = False
        for index, action in enumerate(batch):
            if failed:
                results.append(ActionResult(action.type, "not_run"))
                continue
            if index and action.type not in ("screenshot", "wait"):
                # The next action of a batch was planned on the state the last one leads to.
                await self._settle(BETWEEN_ACTIONS_MS)
            self._zoom = None  # only the last action shapes the screenshot
            result = await self._run_one(action)
            results.append(result)
            failed = result.status == "error"
        acted_ms = (time.monotonic() - started) * 1000
        observation = await self.observe(words=words)
        observation.timings_ms["act"] = round(acted_ms, 1)
        return results, observation

    async def observe(
        self,
        beside: Callable[[], Awaitable[None]] | None = None,
        words: Words | None = None,
    ) -> Observation:
        """Wait for a quiet page and return what it shows.

        Args:
            beside: what else to do with the quiet page while the screenshot is taken.
            words: say it in words instead of taking a screenshot.
        """
        started = time.monotonic()
        settled = await self._settle(STEP_MS)
        settled_at = time.monotonic()
        tab = self._tabs.active
        zoom, self._zoom = self._zoom, None
        image, told, tabs, *_ = await asyncio.gather(
            self._camera.capture(tab, zoom) if not words or words.pictured else asyncio.sleep(0),
            self._in_words(tab, words) if words else asyncio.sleep(0),
            self._tabs.describe(),
            self._clock.pause(),
            beside() if beside else asyncio.sleep(0),
        )
        await self._tabs.finish_step()
        self._settler.rest()
        if tab.pulse.busy:
            self._tabs.report("busy", url=self._tabs.url_of(tab))
        if await self._reach.forbids(tab.page):
            self._tabs.report(
                "blocked", url=tab.page.url, reason="it is out of bounds and was left"
            )
            image = await self._leave(tab)
            told = words and "(the page was left)"
            tabs = await self._tabs.describe()
        elif zoom and image:
            self._tabs.report("zoom", region=zoom.model_dump())
        return Observation(
            image=image,
            url=shown_text(self._tabs.url_of(tab)),
            title=next((t["title"] for t in tabs if t["tab_id"] == tab.tab_id), ""),
            tabs=tabs,
            events=self._tabs.take_events(),
            settled=settled,
            timings_ms={
                "settle": round((settled_at - started) * 1000, 1),
                "capture": round((time.monotonic() - settled_at) * 1000, 1),
            },
            words=told,
        )

    async def picture(self) -> Image | None:
        """Return what the active tab shows now; None if it does not draw in time."""
        return await self._camera.capture(self._tabs.active)

    async def _in_words(self, tab: Tab, words: Words) -> str:
        """Return what the page shows; why it cannot be told, if so."""
        try:
            async with asyncio.timeout(self._action_timeout_s):
                return await tab.pulse.unless_busy(
                    lambda: self._reader.observe(words.max_chars, words.query)
                )
        except PageBusy:
            return f"(not read: {_BUSY})"
        except ActionError as error:
            return f"(not read: {error})"
        except (Error, TimeoutError):
            return "(not read: the page crashed, or does not answer)"

    async def _leave(self, tab: Tab) -> Image | None:
        """Leave a page that must not be seen; return what is shown then, if it could be left."""
        try:
            await tab.page.goto("about:blank", timeout=self._action_timeout_s * 1000)
        except Error:
            return None
        return await self._camera.capture(tab)

    async def open(self, url: str) -> tuple[Observation, Storage]:
        """Open the session's start page; return what it shows, and what is in localStorage then.

        Raises:
            ActionError: the address is not allowed or did not answer.
        """
        self._reach.opening()
        status = await self._navigation.to(url)
        self._reach.opened()
        if status and status >= 400:
            raise ActionError(f"{url} answered HTTP {status}")
        storage: Storage = {}

        async def start_here() -> None:
            storage.update(await read_storage(self._context))
            # What lies before the start page (an empty one) is not part of the task's history.
            # Refused while the page is leaving for another, as one that forwards to the real start
            # does.
            with contextlib.suppress(Error):
                await self._tabs.active.cdp.send("Page.resetNavigationHistory")

        return await self.observe(start_here), storage

    async def _settle(self, page_time_ms: float) -> bool:
        await self._tabs.arrived()
        await self._tabs.replace_crashed()
        self._clock.begin(page_time_ms)
        for _ in range(_MAX_FOLLOWED):
            tab = self._tabs.active
            try:
                settled = await tab.pulse.unless_busy(
                    lambda page=tab.page: self._settler.settle(page)
                )
                # What comes late changes the page, or brings another one. At the bound no more is
                # waited for: a new window may be without an answer still.
                came = settled and await tab.pulse.unless_busy(self._tabs.announced_arrived)
            except PageBusy:
                return False
            await self._tabs.arrived()
            if tab.crashed:
                await self._tabs.replace_crashed()
            elif tab is self._tabs.active and not came:
                return settled
        return False

    async def _run_one(self, action: act.Action) -> ActionResult:
        part_s = self._action_timeout_s + _pause_s(action)
        if isinstance(action, act.Navigate | act.NewTab | act.GoBack | act.GoForward | act.Reload):
            part_s += self._navigation_timeout_s
        try:
            async with self._patience.bound(part_s, part_s + _input_s(action)):
                text = await self._watched(action)
        except PageBusy:
            error = f"{action.type}: {_BUSY}"
        except (ActionError, UnknownKeyError, UrlNotAllowed, LookupError) as reason:
            error = f"{action.type}: {reason}"
        except Error as reason:
            if any(tab.crashed for tab in self._tabs.all):
                error = f"{action.type}: the page crashed and is loaded again"
            else:
                error = f"{action.type}: {hide_secrets(first_line(reason))}"
        else:
            return ActionResult(action.type, "ok", text=text)
        return ActionResult(action.type, "error", error=error)

    async def _watched(self, action: act.Action) -> str | None:
        """Do an action, unless it needs a page that is busy."""
        tab = self._tabs.active
        if isinstance(action, _NEED_NO_PAGE):
            return await self._do(action)
        if isinstance(action, act.Navigate | act.Reload) and await tab.pulse.still_busy():
            # The way out: nothing else gets such a page to stop.
            await self._tabs.replace(tab)
            if isinstance(action, act.Reload):
                action = act.Navigate(url=self._tabs.url_of(tab))
            tab = self._tabs.active
        return await tab.pulse.unless_busy(lambda: self._do(action))

    async def _do(self, action: act.Action) -> str | None:
        if (answer := await self._tabs.uploads.take(action)) is not None:
            return answer
        tab = self._tabs.active
        if isinstance(action, _AT_AN_ELEMENT) and action.ref:
            if isinstance(action, act.Type):
                return await self._type_into(action, action.ref)
            pressing = isinstance(action, act.Click | act.MouseDown)
            spot = await self._reader.locate(action.ref, must_work=pressing)
            action = action.model_copy(update={"x": spot.x, "y": spot.y, "ref": None})
        match action:
            case act.Screenshot():
                return None
            case act.Zoom():
                self._zoom = self._camera.checked(action.region)
            case act.PageText():
                return await self._reader.page_text()
            case act.Find():
                return await self._reader.find(action.query)
            case act.ListElements():
                return await self._reader.list_elements()
            case act.ScrollTo():
                await self._reader.locate(action.ref)
            case act.SetValue():
                if action.x is not None and action.y is not None:
                    self._input.check_inside(action.x, action.y)
                return await self._reader.set_value(action)
            case act.Click():
                await self._input.click(action)
            case act.Move():
                await self._input.move(action)
            case act.MouseDown() | act.MouseUp():
                await self._input.press_or_release(action)
            case act.Drag():
                await self._input.drag(action, lambda: self._settle(BETWEEN_ACTIONS_MS))
            case act.Scroll():
                await self._input.scroll(action)
            case act.Type():
                await self._input.type(action)
            case act.Key():
                await self._input.key(action)
            case act.HoldKey():
                await self._input.hold_key(action)
            case act.Wait():
                await self._settler.pass_time(action.ms)
            case act.Navigate():
                await self._navigation.to(action.url)
            case act.GoBack():
                await self._navigation.through_history(-1)
            case act.GoForward():
                await self._navigation.through_history(+1)
            case act.Reload():
                await self._navigation.reload()
            case act.NewTab():
                url = normalize_url(action.url) if action.url else None
                await self._tabs.open()
                if url:
                    await self._navigation.to(url)
                return await self._tabs_text()
            case act.SwitchTab():
                await self._tabs.activate(self._tabs.find(index=action.index, tab_id=action.tab_id))
                return await self._tabs_text()
            case act.CloseTab():
                await self._tabs.close(
                    self._tabs.find(tab_id=action.tab_id) if action.tab_id else tab
                )
                return await self._tabs_text()
            case act.ListTabs():
                return await self._tabs_text()
            case act.CursorPosition():
                if self._input.cursor is None:
                    return "the pointer has not been placed yet"
                return "x={:g}, y={:g}".format(*self._input.cursor)
        return None

    async def _type_into(self, action: act.Type, ref: str) -> str | None:
        """Type into an element behind what is in it, or set the value of one that takes no keys."""
        spot = await self._reader.locate(ref, must_work=True)
        if not spot.takes_keys:
            text = await self._reader.set_value(act.SetValue(ref=ref, value=action.text))
            if action.press_enter:
                await self._input.key(act.Key(chords=[["Enter"]]))
            return text
        await self._input.click(act.Click(x=spot.x, y=spot.y))
        if not action.clear_first and not await self._reader.caret_to_end(ref):
            await self._input.key(act.Key(chords=[["End"]]))
        await self._input.type(action.model_copy(update={"ref": None}))
        return None

    async def _tabs_text(self) -> str:
        await self._tabs.arrived()
        lines = [
            f"{tab['index']}: {tab['title'] or '(no title)'} {tab['url']}"
            + (" (active)" if tab["active"] else "")
            for tab in await self._tabs.describe()
        ]
        return "open tabs:\n" + "\n".join(lines)


def _pause_s(action: act.Action) -> float:
    """Return how long an action waits by its own wish, in seconds."""
    match action:
        case act.Wait():
            return action.ms / 1000
        case act.HoldKey():
            return action.duration_ms / 1000
        case act.Click():
            return action.hold_ms / 1000
    return 0


def _input_s(action: act.Action) -> float:
    """Return how long the parts of a long action take by themselves, in seconds."""
    match action:
        case act.Drag():
            return len(action.path) * 0.1
        case act.Key():
            return len(action.chords) * action.repeat * 0.02
        case act.Type():
            return len(action.text) * 0.01
    return 0
