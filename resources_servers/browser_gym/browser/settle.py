"""Wait until a page is quiet after an action, without fixed sleeps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter

from playwright.async_api import BrowserContext, Error, Frame, Page, Request

from resources_servers.browser_gym.browser.page_clock import Moved, PageClock
from resources_servers.browser_gym.browser.policy import origin_of

# Requests that stay open by design, or that nobody waits for.
_BACKGROUND_TYPES = frozenset({"websocket", "eventsource", "media", "ping", "beacon", "manifest"})
# A URL requested this often within one step, or this often while nobody acts, is polled: waiting
# for it would never end.
_POLLED = 2
_MAX_URLS = 10_000
# How long after a page sent a request we hear of it at the latest.
_REQUEST_SHOWS_S = 0.5

# Remembers the page's timers of at most 600 ms, so that a delayed change is waited for: a debounced
# search, a toast, a "saved" mark. Left out are timers of a callback that ran three times within two
# seconds (a clock, an animation, polling) and those more than three timers deep. The functions stay
# native to look at: a proxy answers as its target does.
TIMER_SCRIPT = """
(() => {
  const mark = Symbol.for("browser-gym.timers");
  if (mark in window) return;  // a window can outlive its first, empty document
  const longest = 600, deepest = 3, due = new Set(), runs = new Map();
  let depth = 0;
  const polled = key => {
    const times = runs.get(key);
    return times && times.length > 2 && performance.now() - times[0] < 2000;
  };
  const ran = key => {
    const times = runs.get(key) || [];
    times.push(performance.now());
    if (times.length > 3) times.shift();
    if (runs.size < 1000) runs.set(key, times);
  };
  window.setTimeout = new Proxy(window.setTimeout, {
    apply(target, self, given) {
      const [handler, delay, ...rest] = given;
      if (typeof handler !== "function" || delay > longest || depth >= deepest)
        return Reflect.apply(target, self, given);
      const key = `${delay} ${String(handler).slice(0, 300)}`, level = depth + 1;
      const id = Reflect.apply(target, self, [function (...values) {
        due.delete(id);
        ran(key);
        const before = depth;
        depth = level;
        try {
          return handler.apply(this, values);
        } finally {
          depth = before;
        }
      }, delay, ...rest]);
      if (!polled(key)) due.add(id);
      return id;
    },
  });
  window.clearTimeout = new Proxy(window.clearTimeout, {
    apply(target, self, values) {
      due.delete(values[0]);
      return Reflect.apply(target, self, values);
    },
  });
  Object.defineProperty(window, mark, {value: () => due.size});
})();
"""

# Resolves when the document's scripts have run (deferred and module ones come after parsing), the
# DOM has not changed and nothing has scrolled for `quiet` ms, no short finite animation runs, no
# short timer is due and two frames were drawn, or once they were drawn and `cap` ms are over.
_QUIET_SCRIPT = """
({quiet, cap}) => new Promise(resolve => {
  // A document that may not run scripts, such as a sandboxed frame, calls nothing back.
  if (window.matchMedia?.("(scripting: none)")?.matches) return resolve([true, 0]);
  const timers = window[Symbol.for("browser-gym.timers")] || (() => 0);
  const clock = window[Symbol.for("browser-gym.clock")];
  // Under a clock that stands still, whoever moves it waits for timers; this waits with its own.
  const {now: time, requestAnimationFrame: onFrame, setTimeout: after} = clock?.native ?? {
    now: () => performance.now(), requestAnimationFrame, setTimeout,
  };
  const start = time();
  let last = start, done = false;
  const observer = new MutationObserver(() => { last = time(); });
  observer.observe(document, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
  const scrolled = () => { last = time(); };
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
  const finish = quietNow => {
    if (done) return;
    done = true;
    observer.disconnect();
    document.removeEventListener("scroll", scrolled, { capture: true });
    resolve([quietNow, timers()]);
  };
  const animating = () => document.getAnimations().some(animation => {
    const timing = animation.effect?.getComputedTiming();
    return animation.playState === "running" && timing && timing.endTime < 1500;
  });
  const loaded = () => document.readyState === "complete"
    || performance.getEntriesByType("navigation")[0]?.domContentLoadedEventEnd > 0;
  let frames = 0;
  const frame = () => {
    frames += 1;
    const now = time(), drawn = frames > 2;  // a busy machine may draw no three within the cap
    const quietNow = loaded() && drawn
      && now - last >= quiet && (clock || !timers()) && !animating();
    if (quietNow) return finish(true);
    if (drawn && now - start >= cap) return finish(false);
    onFrame(frame);
  };
  onFrame(frame);
  // In case no frame is drawn. Longer than the timers that are waited for, or it would be one.
  after(() => frames || finish(false), cap + 200);
})
"""
_QUIET_MS = 50
_PROBE_CAP_MS = 500
_MAX_FRAMES = 8
# In how many parts the network is waited for; the page is asked after each whether it listens.
_LISTENS = 6
# How many times as long as the bound a page of still time is waited for, if it gets on all along.
_MOST_BOUNDS = 4


class Settler:
    """Follows a context's requests, and waits until what an action started has ended.

    Waits for: fetches started since `mark` in any tab, navigations, timers of at most 600 ms, DOM
    changes, scrolling, short CSS animations and two drawn frames. Not held up by web sockets,
    server-sent events, polling, clocks or endless animation.
    """

    def __init__(self, context: BrowserContext, clock: PageClock, *, max_ms: int) -> None:
        """Start following `context`; one `settle` lasts at most `max_ms`."""
        self._clock = clock
        self._max_s = max_ms / 1000
        self._pending: set[Request] = set()
        self._answered = self._unseen = False
        self._followed = 0  # how often a request that is waited for has started or ended
        self._acting = True
        self._seen_in_step: Counter[str] = Counter()
        self._seen_at_rest: Counter[str] = Counter()
        self._changed = asyncio.Event()
        context.on("page", lambda page: page.on("close", self._on_close))
        context.on("request", self._on_request)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    def mark(self) -> None:
        """Start a step: only requests started from now on are waited for."""
        self._pending.clear()
        self._answered = self._unseen = False
        self._seen_in_step.clear()
        self._acting = True

    def rest(self) -> None:
        """End a step: what is requested until the next one is the page's own background work."""
        self._acting = False

    async def settle(self, page: Page) -> bool:
        """Wait until `page` is quiet; return False if the bound came first.

        A page whose time stands still cannot go on after the step, and how much of its time passes
        in the step must not depend on the speed of the machine. So as long as the network brings it
        something, or its time moves on, the bound is put off, to `_MOST_BOUNDS` times as long at
        most. Who watches the page for a script that never lets go ends this sooner.
        """
        deadline = time.monotonic() + self._max_s
        last_deadline = deadline + self._clock.stands_still * (_MOST_BOUNDS - 1) * self._max_s
        quiet = timers_due = False
        while (left := deadline - time.monotonic()) > 0 and not page.is_closed():
            if self._pending:
                quiet = False
                if not await self._page_heard(page, left, last_deadline):
                    return False
            elif await self._move(last_deadline - time.monotonic(), timers_due):
                quiet = timers_due = False  # until it is looked at again
            elif quiet:
                return True
            else:
                before = self._followed
                quiet, timers_due = await self._probe(page, left)
                quiet = quiet and self._followed == before
                continue
            deadline = min(time.monotonic() + self._max_s, last_deadline)
        return page.is_closed()

    async def _move(self, left_s: float, timers_due: bool) -> bool:
        """Let page time go on, if it does not by itself; tell if it did."""
        self._changed.clear()
        answered, self._answered = self._answered, False
        moved = await self._clock.move(left_s, timers_due=timers_due, answered=answered)
        if moved is Moved.TO_A_REQUEST and not (self._changed.is_set() or self._unseen):
            # The page's own policy may have stopped it: then it is not heard of, nor are the next.
            self._unseen = not await self._network_changed(min(left_s, _REQUEST_SHOWS_S))
        return moved is not Moved.NOT

    async def pass_time(self, ms: float) -> None:
        """Let that much page time pass, in the middle of a step.

        If it does not pass by itself, answers from the network are waited for as long at most.
        """
        if not self._clock.stands_still:
            await asyncio.sleep(ms / 1000)
            return
        answers_until = time.monotonic() + ms / 1000
        deadline = answers_until + _MOST_BOUNDS * self._max_s
        self._clock.begin(ms)
        moving = True
        while moving and time.monotonic() < deadline:
            left = answers_until - time.monotonic()
            if self._pending and left > 0:
                await self._network_changed(left)
            else:
                moving = await self._move(max(left, self._max_s), False)

    async def _page_heard(self, page: Page, left_s: float, last_deadline: float) -> bool:
        """Wait until something came from the network; return False if nothing did in `left_s`.

        A page hears of nothing while a script of it runs, for long on a slow machine: that time
        does not count.
        """
        self._changed.clear()
        for _ in range(_LISTENS):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left_s / _LISTENS)
            # A page on its way to another answers nothing.
            if not any(request.is_navigation_request() for request in self._pending):
                with contextlib.suppress(Error, TimeoutError):
                    most_s = last_deadline - time.monotonic()
                    await asyncio.wait_for(page.evaluate("0"), most_s)
            if self._changed.is_set():
                return True
        return False

    async def _network_changed(self, left_s: float) -> bool:
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), left_s)
        except TimeoutError:
            return False
        return True

    async def _probe(self, page: Page, left_s: float) -> tuple[bool, bool]:
        """Return whether the page is quiet, and whether it waits for a short timer.

        Frames of its own origin are part of the page; others, such as advertisements, are not.
        """
        origin = origin_of(page.url)
        frames = [f for f in page.frames if f.parent_frame and origin_of(f.url) == origin]
        told = await asyncio.gather(
            *(_probe_frame(frame, left_s) for frame in [page.main_frame, *frames[:_MAX_FRAMES]])
        )
        return all(quiet for quiet, _ in told), any(timers for _, timers in told)

    def _on_request(self, request: Request) -> None:
        url = request.url
        seen = self._seen_in_step if self._acting else self._seen_at_rest
        if len(seen) < _MAX_URLS:
            seen[url] += 1
        if not self._acting or request.resource_type in _BACKGROUND_TYPES:
            return
        self._changed.set()
        polled = self._seen_at_rest[url] >= _POLLED or seen[url] > _POLLED
        if polled and not request.is_navigation_request():
            return
        self._pending.add(request)
        self._followed += 1

    def _on_close(self, page: Page) -> None:
        # Of what a tab asked for that is closed, no end is told.
        self._pending = {request for request in self._pending if not _is_of(page, request)}
        self._changed.set()

    def _on_end(self, request: Request) -> None:
        if request in self._pending:
            self._pending.discard(request)
            self._followed += 1
            self._answered = True
        self._changed.set()


async def _probe_frame(frame: Frame, left_s: float) -> tuple[bool, bool]:
    try:
        answer = await asyncio.wait_for(
            frame.evaluate(_QUIET_SCRIPT, {"quiet": _QUIET_MS, "cap": _PROBE_CAP_MS}), left_s
        )
        match answer:
            case [bool(quiet), int(timers)]:
                return quiet, timers > 0
        return True, False  # of a page that broke what answers are made with: do not wait
    except Error:
        # The document was replaced under the probe: look again at the new one. The pause only
        # keeps a page that refuses every script from spinning this loop.
        await asyncio.sleep(0.02)
        return False, False
    except TimeoutError:
        return False, False


def _is_of(page: Page, request: Request) -> bool:
    try:
        return request.frame.page is page
    except Error:
        return False  # of a tab that is only just being opened
