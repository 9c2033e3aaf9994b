"""Makes up for what Chromium does otherwise when it is driven by automation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from playwright.async_api import CDPSession, Error

_HOLD_TIMEOUT_S = 1

# Options of a native <select> are drawn by the browser over the page and do not take a click from
# automation; this style makes them part of the page. Chromium's customizable select.
SELECT_STYLE_SCRIPT = """
(() => {
  let styled = null;
  const style = () => {
    if (styled === document) return;
    styled = document;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(
      "select:not([multiple], [size]), select:not([multiple], [size])::picker(select)"
      + " { appearance: base-select; }");
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  };
  style();
  // A popup's window, or a frame's, can outlive its first, empty document; this runs only in that.
  addEventListener("DOMContentLoaded", style);
})();
"""


async def let_frames_load(cdp: CDPSession) -> None:
    """Let frames load on that arrived while their page stood still for its new window.

    Chromium holds a page whose script opens a window until the window is ready for automation.
    A frame's document that arrives in between is held for ever, and with it the page's load event,
    unless all of them are held and let go once more.

    Args:
        cdp: a session attached to the page that opened the window.
    """

    def resume(_: Any) -> None:
        resumed.append(asyncio.ensure_future(_suppressed(cdp.send("Debugger.resume"))))

    resumed: list[asyncio.Future[None]] = []
    cdp.on("Debugger.paused", resume)
    try:
        async with asyncio.timeout(_HOLD_TIMEOUT_S):
            await cdp.send("Debugger.enable")
            await cdp.send("Runtime.evaluate", {"expression": "debugger"})
    except (Error, TimeoutError):
        pass  # gone, or busy
    finally:
        resumed.append(asyncio.ensure_future(_suppressed(cdp.send("Debugger.disable"))))
        await asyncio.wait(resumed, timeout=_HOLD_TIMEOUT_S)
        cdp.remove_listener("Debugger.paused", resume)


async def _suppressed(sent: Awaitable[Any]) -> None:
    with contextlib.suppress(Error):
        await sent
