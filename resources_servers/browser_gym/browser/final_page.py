"""Reads what is graded of a session's page, before it is left."""

from __future__ import annotations

import asyncio

from playwright.async_api import Error

from resources_servers.browser_gym.browser.capture import valid_unicode
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.page_state import Keep, Matches, PageState
from resources_servers.browser_gym.browser.pulse import PageBusy
from resources_servers.browser_gym.browser.reading import read_final_page
from resources_servers.browser_gym.browser.tabs import Tabs

MAX_MATCHES = 50
MAX_MATCH_CHARS = 2_000
_TIMEOUT_S = 10
_TRIES = 3


async def read_page(tabs: Tabs, keep: Keep) -> PageState:
    """Return the active tab's state as far as it is wanted.

    A page that cannot be read, because a script of it never ends, is told in `problem`: the model
    left it so.
    """
    for tries_left in reversed(range(_TRIES)):
        tab = tabs.active
        url = valid_unicode(tabs.url_of(tab))
        others = [valid_unicode(tabs.url_of(one)) for one in tabs.all]
        if not (keep.text or keep.selectors):
            return PageState(url, others)

        def read(tab=tab):
            return read_final_page(
                tab,
                text=keep.text,
                selectors=keep.selectors,
                most=MAX_MATCHES,
                max_chars=MAX_MATCH_CHARS,
            )

        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await tab.pulse.unless_busy(read)
        except (PageBusy, TimeoutError):
            return PageState(url, others, problem="a script of the page lets nothing else run")
        except ActionError as error:
            return PageState(url, others, problem=str(error))
        except Error:
            # It crashed, or gave way to another one meanwhile.
            if not tries_left:
                raise
            await tabs.arrived()
            await tabs.replace_crashed()
            continue
        found = {
            selector: Matches(one["count"], [valid_unicode(text) for text in one["texts"]])
            for selector, one in zip(keep.selectors, answer["found"], strict=True)
        }
        text = answer["text"]
        return PageState(url, others, valid_unicode(text) if text is not None else None, found)
    raise AssertionError("unreachable")
