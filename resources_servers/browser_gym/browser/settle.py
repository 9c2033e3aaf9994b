"""Wait until a page is quiet after an action, without fixed sleeps."""

from __future__ import annotations

import asyncio
import time

from playwright.async_api import BrowserContext, Error, Page, Request

# Requests that stay open by design, or that nobody waits for.
_BACKGROUND_TYPES = frozenset({"websocket", "eventsource", "media", "ping", "beacon", "manifest"})
# A URL requested this often before is a poller: waiting for it would never end.
_POLLER_SEEN = 2
_MAX_URLS = 10_000

# Resolves when the document's scripts have run (deferred and module ones come after parsing), the
# DOM has not changed for `quiet` ms, no short finite animation runs and two frames were drawn, or
# after `cap` ms.
_QUIET_SCRIPT = """
({quiet, cap}) => new Promise(resolve => {
  const start = performance.now();
  let last = start, done = false;
  const observer = new MutationObserver(() => { last = performance.now(); });
  observer.observe(document, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
  const finish = quietNow => {
    if (done) return;
    done = true;
    observer.disconnect();
    resolve(quietNow);
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
    const now = performance.now();
    const quietNow = loaded() && frames > 2
      && now - last >= quiet && !animating();
    if (quietNow) return finish(true);
    if (now - start >= cap) return finish(false);
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  setTimeout(() => finish(false), cap + 200);
})
"""
_QUIET_MS = 50
_PROBE_CAP_MS = 500


class Settler:
    """Follows a context's requests, and waits until what an action started has ended.

    Waits for: fetches started since `mark` in any tab, navigations, DOM changes, short CSS
    animations and two drawn frames. Not held up by web sockets, server-sent events, polling or
    endless animation. A bare timer (`setTimeout` and then a DOM change) that fires after the page
    went quiet is missed.
    """

    def __init__(self, context: BrowserContext, *, max_ms: int) -> None:
        """Start following `context`; one `settle` lasts at most `max_ms`."""
        self._max_s = max_ms / 1000
        self._pending: set[Request] = set()
        self._seen: dict[str, int] = {}
        self._changed = asyncio.Event()
        context.on("request", self._on_request)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    def mark(self) -> None:
        """Forget requests that are still open: only those started from now on are waited for."""
        self._pending.clear()

    async def settle(self, page: Page) -> bool:
        """Wait until `page` is quiet; return False if the bound came first."""
        deadline = time.monotonic() + self._max_s
        while (left := deadline - time.monotonic()) > 0 and not page.is_closed():
            if self._pending:
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), left)
                except TimeoutError:
                    return False
            elif await self._probe(page, left) and not self._pending:
                return True
        return page.is_closed()

    async def _probe(self, page: Page, left_s: float) -> bool:
        try:
            return await asyncio.wait_for(
                page.evaluate(_QUIET_SCRIPT, {"quiet": _QUIET_MS, "cap": _PROBE_CAP_MS}), left_s
            )
        except Error:
            # The document was replaced under the probe: look again at the new one. The pause only
            # keeps a page that refuses every script from spinning this loop.
            await asyncio.sleep(0.02)
            return False
        except TimeoutError:
            return False

    def _on_request(self, request: Request) -> None:
        seen = self._seen.get(request.url, 0)
        if len(self._seen) < _MAX_URLS:
            self._seen[request.url] = seen + 1
        if request.resource_type in _BACKGROUND_TYPES:
            return
        if seen >= _POLLER_SEEN and not request.is_navigation_request():
            return
        self._pending.add(request)
        self._changed.set()

    def _on_end(self, request: Request) -> None:
        self._pending.discard(request)
        self._changed.set()
