"""Reads what is graded of a session's page, before it is left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from playwright.async_api import Error

from resources_servers.browser_gym.browser.capture import valid_unicode
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.frames import main_document
from resources_servers.browser_gym.browser.page_state import Keep, Matches, PageState
from resources_servers.browser_gym.browser.pulse import PageBusy
from resources_servers.browser_gym.browser.reading import read_final_page
from resources_servers.browser_gym.browser.tabs import Tab, Tabs

logger = logging.getLogger(__name__)

MAX_MATCHES = 50
MAX_MATCH_CHARS = 2_000
_TIMEOUT_S = 10
_STOP_TIMEOUT_S = 1
_TRIES = 3
_PAUSE_S = 0.2


async def read_page(tabs: Tabs, keep: Keep) -> PageState:
    """Return the active tab's state as far as it is wanted.

    A page that cannot be read because a script of it never ends is told in `problem`: the model
    left it so. One that is on its way to another that does not come is read as it stands. Nothing
    is kept of a page that cannot be read for another reason.
    """
    url, others = "", []
    for tries_left in reversed(range(_TRIES)):
        tab = tabs.active
        url = valid_unicode(tabs.url_of(tab))
        others = [valid_unicode(tabs.url_of(one)) for one in tabs.all]
        if not (keep.text or keep.selectors):
            return PageState(url, others)
        try:
            answer = await _read(tab, keep)
        except ActionError as error:
            # Not the model's doing: whoever needs the page finds that nothing was kept of it.
            logger.warning("the final page was not read: %s", error)
            break
        except PageBusy:
            if not tab.crashed:
                return PageState(url, others, problem="a script of the page lets nothing else run")
        except TimeoutError:
            logger.warning("the final page was not read within %s s", _TIMEOUT_S)
            if not tab.crashed:
                await _stop_loading(tab)
                continue
        except Error:
            # It crashed, or gave way to another one meanwhile.
            if not tries_left:
                raise
        else:
            found = {
                selector: Matches(one["count"], [valid_unicode(text) for text in one["texts"]])
                for selector, one in zip(keep.selectors, answer["found"], strict=True)
            }
            text = answer["text"]
            return PageState(url, others, None if text is None else valid_unicode(text), found)
        await _load_again(tabs)
    return PageState(url, others)


async def _read(tab: Tab, keep: Keep) -> dict[str, Any]:
    async with asyncio.timeout(_TIMEOUT_S):
        # Before, as a page that is read for long looks busy too.
        await tab.pulse.unless_busy(lambda: main_document(tab))
        return await read_final_page(
            tab,
            text=keep.text,
            selectors=keep.selectors,
            most=MAX_MATCHES,
            max_chars=MAX_MATCH_CHARS,
        )


async def _stop_loading(tab: Tab) -> None:
    """Have a page stay that is on its way to another one, as it cannot be read meanwhile."""
    with contextlib.suppress(Error, TimeoutError):
        await asyncio.wait_for(tab.cdp.send("Page.stopLoading"), _STOP_TIMEOUT_S)


async def _load_again(tabs: Tabs) -> None:
    """Put a fresh page in a crashed one's place, or let the next one come."""
    await asyncio.sleep(_PAUSE_S)
    await tabs.arrived()
    await tabs.replace_crashed()
    with contextlib.suppress(Error):
        await tabs.active.page.wait_for_load_state(timeout=_TIMEOUT_S * 1000)
