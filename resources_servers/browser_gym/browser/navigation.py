"""Takes the active tab to another page, and says why where that is not possible."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from playwright.async_api import Error, Response
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.policy import Reach, certificate_problem, normalize_url
from resources_servers.browser_gym.browser.tabs import Tabs


class Navigation:
    """Moves the active one of a session's tabs."""

    def __init__(self, tabs: Tabs, reach: Reach, *, timeout_s: float) -> None:
        """Navigate `tabs`.

        Args:
            tabs: the session's.
            reach: what its pages may reach.
            timeout_s: longest wait for the answer to a navigation.
        """
        self._tabs = tabs
        self._reach = reach
        self._timeout_s = timeout_s

    async def to(self, url: str) -> int | None:
        """Go to an address and return the HTTP status, if there is one.

        Raises:
            UrlNotAllowed: not an http(s) address.
            ActionError: it could not be opened.
        """
        url = normalize_url(url)
        self._reach.refusal = None
        response = await self._go(url, self._tabs.active.page.goto)
        return response.status if response else None

    async def through_history(self, offset: int) -> None:
        """Go back (-1) or forward (+1).

        Raises:
            ActionError: there is no such page, or it did not answer.
        """
        cdp = self._tabs.active.cdp
        history = await cdp.send("Page.getNavigationHistory")
        index = history["currentIndex"] + offset
        if not 0 <= index < len(history["entries"]):
            raise ActionError(f"there is no {'earlier' if offset < 0 else 'later'} page")
        page = self._tabs.active.page
        go = page.go_back if offset < 0 else page.go_forward
        await self._go(history["entries"][index]["url"], lambda _, **how: go(**how))

    async def _go(self, url: str, go: Callable[..., Awaitable[Response | None]]) -> Response | None:
        """Wait until the way to another page is answered.

        Raises:
            ActionError: it failed, or took too long and was given up.
        """
        tab = self._tabs.active
        try:
            return await go(url, wait_until="commit", timeout=self._timeout_s * 1000)
        except PlaywrightTimeoutError as error:
            with contextlib.suppress(Error):
                await tab.cdp.send("Page.stopLoading")
            raise ActionError(f"{url} did not answer within {self._timeout_s:g} s") from error
        except Error as error:
            reason = first_line(error)
            if "Download is starting" in reason:
                return None  # reported as a download; the page stays where it is
            reason = self._reach.refusal or certificate_problem(reason) or reason
            raise ActionError(f"{url} could not be opened: {reason}") from error

    async def reload(self) -> None:
        """Load the page again.

        Raises:
            ActionError: it did not answer.
        """
        tab = self._tabs.active
        await self._go(self._tabs.url_of(tab), lambda _, **how: tab.page.reload(**how))


def first_line(error: Exception) -> str:
    """Return a Playwright error's first line without the name of the call."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line.split(": ", 1)[1] if line.startswith(("Page.", "Mouse.", "Keyboard.")) else line
