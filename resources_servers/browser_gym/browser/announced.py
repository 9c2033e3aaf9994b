"""What Chromium has announced and Playwright has not told yet.

Playwright looks at a new window, and at the field of a page that asks for files, before it tells
of them. That takes several answers of the browser, so on a busy machine the page is quiet long
before. Chromium announces both as they happen, ahead of whatever it says of the page from then on.
"""

from __future__ import annotations

import asyncio

# How long the next one is waited for. It may never be told: the page may have gone on to another,
# and a window that its frame must not open is announced all the same.
_SILENCE_S = 3.0


class Announced:
    """Counts what is announced until it is told."""

    def __init__(self) -> None:
        self._due = 0
        self._told = asyncio.Event()

    def announce(self) -> None:
        """Expect one more."""
        self._due += 1

    def tell(self) -> None:
        """Take one that is told, announced or not: what other processes' frames do is not."""
        self._due = max(self._due - 1, 0)
        self._told.set()

    async def all_told(self) -> bool:
        """Wait until all that is announced is told; return whether there was any to wait for."""
        waited = self._due > 0
        while self._due:
            self._told.clear()
            try:
                await asyncio.wait_for(self._told.wait(), _SILENCE_S)
            except TimeoutError:
                self._due = 0
        return waited
