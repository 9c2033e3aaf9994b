"""A session's downloads: saved within bounds, and reported."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

from playwright.async_api import CDPSession, Download, Error

from resources_servers.browser_gym.browser.remote_files import RemoteFiles

# Per session; what goes beyond is cancelled.
MAX_DOWNLOADS = 100
MAX_DOWNLOAD_BYTES = 100 * 1024 * 1024
DOWNLOAD_TIMEOUT_S = 60
# How long a step waits for a download that it started, so that it can say what became of it.
_WAIT_S = 1.0
# File systems take 255 bytes; a number for the second of a name comes on top.
_MAX_STEM_BYTES, _MAX_SUFFIX_BYTES = 180, 20
_NO_NAME = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')


class Downloads:
    """Saves what pages download into one folder, under names that are not taken yet."""

    def __init__(
        self, folder: Path, report: Callable[..., None], remote_files: RemoteFiles | None = None
    ) -> None:
        """Save into `folder`, made when needed.

        Args:
            folder: only this session's.
            report: `report(kind, **fields)` takes `download`, `download_started` and
                `download_failed`.
            remote_files: for a browser on another machine.
        """
        self._folder = folder
        self._remote_files = remote_files
        self._report = report
        self._running: dict[asyncio.Task[None], Download] = {}
        self._told: set[asyncio.Task[None]] = set()
        self._started = 0
        self._bytes = 0
        self._received: dict[str, int] = {}  # by the browser's id of a download
        self._cancelling: asyncio.Task[None] | None = None
        self._names: set[str] = set()
        self._files: dict[str, Path] = {}

    @property
    def files(self) -> dict[str, Path]:
        """The files saved so far, by name."""
        return dict(self._files)

    async def watch(self, cdp: CDPSession) -> None:
        """Count the bytes that arrive on behalf of the tab that `cdp` is attached to.

        Raises:
            playwright.async_api.Error: the tab is gone.
        """
        cdp.on("Page.downloadProgress", self._on_progress)
        await cdp.send("Page.enable")

    def start(self, download: Download) -> None:
        """Save a download, in the background."""
        self._started += 1
        # Several can start before the first task runs, so each one's place is decided here.
        task = asyncio.ensure_future(self._save(download, self._started <= MAX_DOWNLOADS))
        self._running[task] = download
        task.add_done_callback(self._ended)

    async def pause(self) -> None:
        """Wait a moment for downloads that have started since the last call; tell of long ones."""
        fresh = set(self._running) - self._told
        if not fresh:
            return
        _, running = await asyncio.wait(fresh, timeout=_WAIT_S)
        for task in running:
            self._told.add(task)
            self._report("download_started", filename=_name_of(self._running[task]))

    async def stop(self) -> None:
        """End what still runs."""
        running = [*self._running, *([self._cancelling] if self._cancelling else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._told.discard(task)

    def _on_progress(self, progress: dict[str, Any]) -> None:
        self._received[progress["guid"]] = int(progress["receivedBytes"])
        if sum(self._received.values()) > MAX_DOWNLOAD_BYTES and not self._cancelling:
            self._cancelling = asyncio.ensure_future(self._cancel_all())

    async def _cancel_all(self) -> None:
        for download in list(self._running.values()):
            with contextlib.suppress(Error):
                await download.cancel()

    async def _save(self, download: Download, allowed: bool) -> None:
        name = _name_of(download)
        try:
            reason = await self._refusal(download) if allowed else _too_many()
            if reason is None:
                await self._keep(download, name)
                return
            with contextlib.suppress(Error):
                await download.cancel()
                await download.delete()
        except (Error, OSError) as error:
            reason = _too_large() if self._cancelling else _why(error)
        self._report("download_failed", filename=name, reason=reason)

    async def _refusal(self, download: Download) -> str | None:
        """Wait for the end of a download; return why it is not kept, if it is not.

        Raises:
            playwright.async_api.Error: it failed, or was cancelled.
        """
        try:
            async with asyncio.timeout(DOWNLOAD_TIMEOUT_S):
                source = await download.path()
                if self._remote_files and not await asyncio.to_thread(source.exists):
                    await self._remote_files.fetch(source)
        except TimeoutError:
            return f"it did not end within {DOWNLOAD_TIMEOUT_S:g} s"
        size = (await asyncio.to_thread(source.stat)).st_size
        if self._bytes + size > MAX_DOWNLOAD_BYTES:
            return _too_large()
        self._bytes += size
        return None

    async def _keep(self, download: Download, name: str) -> None:
        target = self._folder / self._free_name(name)
        self._names.add(target.name)
        await download.save_as(target)
        size = (await asyncio.to_thread(target.stat)).st_size
        self._files[target.name] = target
        self._report("download", filename=target.name, bytes=size, url=download.url)

    def _free_name(self, name: str) -> str:
        """Return a name to save under: `report.csv`, then `report (1).csv`, as browsers do."""
        path = Path(name)
        others = (f"{path.stem} ({count}){path.suffix}" for count in itertools.count(1))
        return next(free for free in itertools.chain([name], others) if free not in self._names)


def _too_many() -> str:
    return f"at most {MAX_DOWNLOADS} files can be downloaded in one session"


def _too_large() -> str:
    return f"the files of one session may have {MAX_DOWNLOAD_BYTES} bytes together"


def _why(error: Error | OSError) -> str:
    """Say what went wrong without the server's paths, which are nothing to the model."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    # Of the files Playwright moves it says `ENOSPC: no space left on device, copyfile '…' -> …`.
    first = str(error).splitlines()[0].removeprefix("Download.save_as: ")
    system = re.match(r"E[A-Z]+: ([^,]+)", first)
    return system[1] if system else first


def _name_of(download: Download) -> str:
    return safe_name(download.suggested_filename)


def safe_name(suggested: str) -> str:
    """Return the name under which a file that a server named is saved: no path, and not too long.

    Chromium does as much itself; this does not rely on it.
    """
    name = _NO_NAME.sub("_", PureWindowsPath(suggested).name).strip(" .")
    stem, dot, suffix = name.rpartition(".")
    kept = suffix.encode()[-_MAX_SUFFIX_BYTES:].decode(errors="ignore")
    stem = (stem if dot else name).encode()[:_MAX_STEM_BYTES].decode(errors="ignore")
    return (f"{stem}.{kept}" if dot else stem) or "download"
