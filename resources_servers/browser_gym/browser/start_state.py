"""Puts a task's `browser` settings into a context, before the start page is opened."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from playwright.async_api import BrowserContext, Error, Page, Route

from resources_servers.browser_gym.browser.backend import BrowserSpec
from resources_servers.browser_gym.browser.policy import origin_of
from resources_servers.browser_gym.task_row import BrowserStart
from resources_servers.browser_gym.verification.errors import InvalidTask

_FIELD = "verifier_metadata.browser"

# Pairs, not objects: `__proto__` is a key like any other in storage.
_STORE_SCRIPT = """
([local, session]) => {
  try {
    for (const [key, text] of local) localStorage.setItem(key, text);
    for (const [key, text] of session) sessionStorage.setItem(key, text);
  } catch (error) {
    return String(error);
  }
}
"""


def context_spec(start: BrowserStart, defaults: BrowserSpec, start_url: str) -> BrowserSpec:
    """Return the context a task asks for: the server's defaults and what the task says instead."""
    credentials, place = start.http_credentials, start.geolocation
    return replace(
        defaults,
        locale=start.locale or defaults.locale,
        timezone=start.timezone or defaults.timezone,
        color_scheme=start.color_scheme,
        reduced_motion=start.reduced_motion,
        geolocation=place and (place.latitude, place.longitude),
        permissions=tuple(start.permissions),
        http_credentials=credentials
        and (origin_of(start_url), credentials.username, credentials.password),
    )


async def apply(start: BrowserStart, context: BrowserContext, page: Page, start_url: str) -> None:
    """Bring a context to the state a task starts from.

    Args:
        start: what the task says.
        context: fresh, made after `context_spec`.
        page: its first page, still empty.
        start_url: normalized address of the start page.

    Raises:
        InvalidTask: the browser refused a cookie or a stored text.
        playwright.async_api.Error: the browser is gone.
    """
    await _store(start, page)
    await _add_cookies(start, context)
    if start.headers:
        await _add_headers(start.headers, context, origin_of(start_url))


async def _store(start: BrowserStart, page: Page) -> None:
    """Fill localStorage and sessionStorage, as if each origin had been visited in this tab before.

    From an empty page at each origin, which no server is asked for. An init script would fill them
    again at every load, and so undo what the app has changed.
    """
    local, session = _by_origin(start.local_storage), _by_origin(start.session_storage)
    origins = list(dict.fromkeys([*local, *session]))
    if not origins:
        return
    await page.route("**/*", _answer_empty)
    for origin in origins:
        await page.goto(f"{origin}/")
        items = [list(storage.get(origin, {}).items()) for storage in (local, session)]
        if refused := await page.evaluate(_STORE_SCRIPT, items):
            raise InvalidTask(f"{_FIELD}: {origin} could not store its texts: {refused}")
    await page.goto("about:blank")
    await page.unroute("**/*", _answer_empty)


def _by_origin(storage: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {origin_of(address): items for address, items in storage.items()}


async def _answer_empty(route: Route) -> None:
    await route.fulfill(content_type="text/html", body="")


async def _add_cookies(start: BrowserStart, context: BrowserContext) -> None:
    # One by one, so that the browser's refusal can be told with its cookie.
    for index, cookie in enumerate(start.cookies):
        given: Any = cookie.model_dump(by_alias=True, exclude_none=True)
        try:
            await context.add_cookies([given])
        except Error as error:
            if "Invalid cookie fields" not in str(error):
                raise
            raise InvalidTask(
                f"{_FIELD}.cookies.{index}: the browser refuses this cookie; see the rules for "
                "its name's prefix, secure, domain and sameSite"
            ) from error


async def _add_headers(headers: dict[str, str], context: BrowserContext, origin: str) -> None:
    # Not the context's extra headers: those tell every third party the tokens of the start origin.
    added = {name.lower(): value for name, value in headers.items()}

    async def add(route: Route) -> None:
        await route.fallback(headers=route.request.headers | added)

    await context.route(re.compile(f"^{re.escape(origin)}(?:/|$)", re.IGNORECASE), add)
