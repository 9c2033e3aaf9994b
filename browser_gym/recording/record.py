"""Opens a browser for a person, and returns what was done in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from playwright.async_api import Browser, Error, async_playwright

from browser_gym.environment import CannotRun
from browser_gym.recording.gestures import Recorded
from browser_gym.recording.watch import Look, Watch
from resources_servers.browser_gym.browser.backend import BrowserSpec
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    ChromiumNotFound,
    find_chromium,
    launch_args,
    running_as_root,
)
from resources_servers.browser_gym.browser.policy import UrlNotAllowed, normalize_url, origin_of
from resources_servers.browser_gym.session import SessionSettings

LAUNCH_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class Asked:
    """What to record.

    Attributes:
        url: of the start page.
        width: of the viewport, in CSS px.
        height: likewise.
        debugging_port: of a browser without a window, which a program drives over CDP in the
            person's place; None for a person.
    """

    url: str
    width: int
    height: int
    debugging_port: int | None = None


@dataclass(frozen=True)
class Recording:
    """What a person did.

    Attributes:
        asked: what was to be recorded.
        start: the start page.
        actions: in order, each with what was seen before it.
        end: what was seen last.
        left: localStorage of the start page's origin at the end.
        notes: what could not be recorded.
    """

    asked: Asked
    start: Look
    actions: list[Recorded]
    end: Look
    left: dict[str, str]
    notes: list[str]


async def record(
    asked: Asked,
    stop: asyncio.Event,
    ready: Callable[[], None],
    done: Callable[[Recorded], None],
) -> Recording:
    """Let a person act until the browser is closed, or `stop` is set.

    Args:
        asked: what to record.
        stop: ends it.
        ready: told when the page is there.
        done: told of each action once there is a picture of what came of it.

    Raises:
        CannotRun: there is no browser or no page, or nothing was done.
    """
    if asked.debugging_port is None and not has_display():
        raise CannotRun(
            "there is no display to show a browser on: run it on a desktop, or in a virtual one "
            "(xvfb-run); a program can do the task in --headless"
        )
    try:
        url = normalize_url(asked.url)
    except UrlNotAllowed as error:
        raise CannotRun(f"{asked.url}: {error}") from error
    async with _browser(asked.debugging_port) as browser:
        settings = SessionSettings()
        spec = BrowserSpec(asked.width, asked.height, settings.locale, settings.timezone)
        context = await browser.new_context(**spec.context_options())
        watch = Watch(context, asked.width, asked.height, done)
        await watch.install()
        page = await context.new_page()
        try:
            await page.goto(url)
        except Error as error:
            reason = error.message.splitlines()[0]
            raise CannotRun(f"{url} cannot be opened: {reason}; is the app running?") from error
        start_origin = origin_of(page.url)
        browser.on("disconnected", lambda _: watch.over.set())
        await watch.begin(page)
        try:
            await _first_of(watch.seen, watch.over, stop)
            ready()
            await _first_of(watch.over, stop)
        finally:
            await watch.end()
    actions = watch.gestures.actions
    if not actions or not watch.looks:
        raise CannotRun("nothing was done, so there is nothing to write")
    return Recording(
        asked=replace(asked, url=url),
        start=actions[0].before or watch.looks[0],
        actions=actions,
        end=watch.looks[-1],
        left=watch.storages.get(start_origin, {}),
        notes=watch.gestures.notes,
    )


def has_display() -> bool:
    """Whether this machine can show a window."""
    if sys.platform == "linux":
        return bool(os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"})
    return True


@asynccontextmanager
async def _browser(debugging_port: int | None) -> AsyncIterator[Browser]:
    """Yield a browser, with a window unless there is a port to drive it through.

    Raises:
        CannotRun: there is none.
    """
    headless = debugging_port is not None
    args = launch_args(running_as_root())
    if headless:
        args.append(f"--remote-debugging-port={debugging_port}")
    try:
        chromium = find_chromium(window=not headless)
    except ChromiumNotFound as error:
        raise CannotRun(" ".join(str(error).split())) from error
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(
                executable_path=chromium.executable,
                headless=headless,
                args=args,
                ignore_default_args=list(UNWANTED_PLAYWRIGHT_ARGS),
                handle_sigint=False,  # Ctrl-C ends the recording, which looks once more
                timeout=LAUNCH_TIMEOUT_MS,
            )
        except Error as error:
            reason = error.message.strip().splitlines()[0]
            raise CannotRun(f"{chromium.executable} does not start: {reason}") from error
        try:
            yield browser
        finally:
            with contextlib.suppress(Error):
                await browser.close()


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
