"""Puts a task's `browser` settings into a context, before the start page is opened."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from playwright.async_api import BrowserContext, Error, Page, Route

from resources_servers.browser_gym.browser.backend import BrowserSpec
from resources_servers.browser_gym.browser.page_clock import PageClock, RealClock, StepClock
from resources_servers.browser_gym.browser.policy import origin_of
from resources_servers.browser_gym.task_row import BrowserStart, ClockMode
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

# Mulberry32. It starts from seed and path, so that two pages do not invent the same ids. Its state
# dies with the document: nothing a page cannot see would carry it to the next. The path is not
# looked at before the first number, since a popup gets its address after its scripts.
_RANDOM_SCRIPT = """
(() => {
  let state;
  const begin = () => {
    let mixed = %d;
    for (const char of location.pathname)
      mixed = Math.imul(mixed ^ char.charCodeAt(0), 16777619);
    return mixed;
  };
  Math.random = {random() {
    state = ((state ?? begin()) + 0x6D2B79F5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }}.random;
})();
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
        ignore_tls_errors=(
            defaults.ignore_tls_errors
            if start.ignore_tls_errors is None
            else start.ignore_tls_errors
        ),
        http_credentials=credentials
        and (origin_of(start_url), credentials.username, credentials.password),
    )


async def prepare(
    start: BrowserStart, context: BrowserContext, start_url: str, clock: ClockMode
) -> PageClock:
    """Bring a context to the state a task starts from, but for what `store` does.

    Args:
        start: what the task says.
        context: without init scripts and with a blank page at most, made after `context_spec`.
        start_url: normalized address of the start page.
        clock: how time passes if the task does not say.

    Returns:
        The clock of the context's pages.

    Raises:
        InvalidTask: the browser refused a cookie.
        playwright.async_api.Error: the browser is gone.
    """
    # Before any other script, so that those that follow the page's timers follow these.
    page_clock = await _install_clock(start.clock or clock, start.time, context)
    if start.random_seed is not None:
        await context.add_init_script(_RANDOM_SCRIPT % start.random_seed)
    if start.headers:
        await _add_headers(start.headers, context, origin_of(start_url))
    await _add_cookies(start, context)
    return page_clock


async def store(start: BrowserStart, page: Page) -> None:
    """Fill localStorage and sessionStorage, as if each origin had been visited in this tab before.

    From an empty page at each origin, which no server is asked for. An init script would fill them
    again at every load, and so undo what the app has changed.

    Args:
        start: what the task says.
        page: the first one of the context; empty again afterwards.

    Raises:
        InvalidTask: the browser refused to store a text.
        playwright.async_api.Error: the browser is gone.
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


async def _install_clock(
    mode: ClockMode, time: datetime | None, context: BrowserContext
) -> PageClock:
    if mode == "step":
        clock = StepClock(context, time)
        await clock.install()
        return clock
    if time:
        await context.clock.install(time=time)
        await context.clock.resume()
    return RealClock()


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
