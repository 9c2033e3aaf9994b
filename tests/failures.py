"""What a failed browser test leaves to look at: a screenshot and a log of each page.

They go to `results/tests/<test>/`, which a run empties when it begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, WebError

FOLDER = Path(__file__).resolve().parents[1] / "results" / "tests"
MAX_LINES = 200
MAX_NAME = 100
TIMEOUT_S = 5


class Watched:
    """A browser context and what its pages have logged; only the last lines are kept."""

    def __init__(self, context: BrowserContext) -> None:
        """Begin to keep what a context's pages log."""
        self.loop = asyncio.get_running_loop()
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)

    def _on_console(self, message: ConsoleMessage) -> None:
        self._lines.append(f"{message.type}: {message.text}")

    def _on_error(self, error: WebError) -> None:
        self._lines.append(f"uncaught: {error.error}")

    async def keep(self, context: BrowserContext, folder: Path, first: int) -> int:
        """Write what the pages show and have logged; return how many pages there were.

        Args:
            context: whose pages are kept.
            folder: where to.
            first: the number of the first page.
        """
        for number, page in enumerate(context.pages, first):
            lines = [page.url, *self._lines]
            (folder / f"page-{number}.log").write_text("\n".join(lines) + "\n")
            with contextlib.suppress(Error, TimeoutError):
                async with asyncio.timeout(TIMEOUT_S):
                    await _screenshot(page, folder / f"page-{number}.jpg")
        return len(context.pages)


_contexts: WeakKeyDictionary[BrowserContext, Watched] = WeakKeyDictionary()


def watch_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each context that this process opens watched from now on."""
    open_context = Browser.new_context

    async def open_and_watch(self: Browser, **options: Any) -> BrowserContext:
        context = await open_context(self, **options)
        _contexts[context] = Watched(context)
        return context

    monkeypatch.setattr(Browser, "new_context", open_and_watch)


async def keep_pages(test: str) -> None:
    """Write what each page that is open shows and has logged.

    Args:
        test: the id of the test that failed.
    """
    folder = FOLDER / re.sub(r"[^\w.-]+", "_", test)[-MAX_NAME:]
    kept = 0
    for context, watched in list(_contexts.items()):
        if context.pages and not watched.loop.is_closed():
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(Error, TimeoutError):
                kept += await _in_loop(watched.loop, watched.keep(context, folder, kept + 1))


def forget_pages() -> None:
    """Remove what earlier runs have kept."""
    shutil.rmtree(FOLDER, ignore_errors=True)


async def _in_loop[T](loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the event loop that its objects belong to: that of a server's thread."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def _screenshot(page: Page, path: Path) -> None:
    await page.screenshot(path=path, type="jpeg", timeout=TIMEOUT_S * 1000)
