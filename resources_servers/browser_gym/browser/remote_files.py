"""Moving files between this machine and that of a remote browser.

CDP names files by their paths on the browser's machine, and has no call that reads or writes one.
A page can do both: it reads what a file input was given, and writes what it downloads. The page
used here is blank, lives in a context of its own, and is closed after each move.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, CDPSession, Error

_CHUNK_BYTES = 3 * 2**20
_TIMEOUT_S = 60
_CLOSE_TIMEOUT_S = 10

_NEW_INPUT = """(() => {
    const input = document.createElement('input');
    input.type = 'file';
    return input;
})()"""
_READ = """async function (start, end) {
    const file = this.files[0];
    if (!file.size) await file.arrayBuffer();  // fails for one that is missing and only looks empty
    const reader = new FileReader();
    await new Promise((resolve, reject) => {
        reader.onload = resolve;
        reader.onerror = () => reject(reader.error);
        reader.readAsDataURL(file.slice(start, end));
    });
    return reader.result.split(',', 2)[1] ?? '';
}"""
_APPEND = """async function (data) {
    const chunk = await fetch('data:application/octet-stream;base64,' + data);
    this.push(await chunk.blob());
}"""
_SAVE = """function (name) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(this));
    link.download = name;
    link.click();
}"""


class RemoteFiles:
    """Copies files from and to the machine of one browser."""

    def __init__(
        self, browser: Browser, open_context: Callable[[], Awaitable[BrowserContext]]
    ) -> None:
        """Copy by means of `browser`, which may have other users.

        Args:
            browser: the one whose machine is meant.
            open_context: opens a context in it, or leaves nothing behind.
        """
        self._browser = browser
        self._open_context = open_context

    async def fetch(self, path: Path) -> None:
        """Copy a file that the browser wrote to the same path on this machine.

        Raises:
            playwright.async_api.Error: the browser is gone, or cannot read the file.
            OSError: it cannot be written here.
            TimeoutError: it took too long.
        """
        async with self._helper() as helper:
            cdp = helper.cdp
            source = await _new(cdp, _NEW_INPUT)
            await cdp.send("DOM.setFileInputFiles", {"objectId": source, "files": [str(path)]})
            chunk = await _read(cdp, source, 0)
            with path.open("wb") as target:
                while chunk:
                    await asyncio.to_thread(target.write, chunk)
                    chunk = await _read(cdp, source, target.tell())

    async def place(self, paths: Sequence[Path]) -> list[str]:
        """Copy files to the browser's machine; return their paths there.

        Raises:
            playwright.async_api.Error: the browser is gone, or cannot write them.
            OSError: one cannot be read here.
            TimeoutError: it took too long.
        """
        async with self._helper() as helper:
            folder = f"/tmp/browser-gym-{uuid.uuid4()}"
            return [await helper.save(path, folder) for path in paths]

    @asynccontextmanager
    async def _helper(self) -> AsyncIterator[_Helper]:
        async with asyncio.timeout(_TIMEOUT_S):
            context = await self._open_context()
            try:
                page = await context.new_page()
                cdp = await context.new_cdp_session(page)
                browser_cdp = await self._browser.new_browser_cdp_session()
                try:
                    yield _Helper(cdp, browser_cdp)
                finally:
                    with contextlib.suppress(Error):
                        await browser_cdp.detach()
            finally:
                with contextlib.suppress(Error, TimeoutError):
                    await asyncio.wait_for(context.close(), _CLOSE_TIMEOUT_S)


@dataclass
class _Helper:
    cdp: CDPSession
    browser_cdp: CDPSession

    async def save(self, path: Path, folder: str) -> str:
        """Copy one file into a folder on the browser's machine."""
        about_page = await self.cdp.send("Target.getTargetInfo")
        await self.browser_cdp.send(
            "Browser.setDownloadBehavior",
            {
                "behavior": "allow",
                "browserContextId": about_page["targetInfo"]["browserContextId"],
                "downloadPath": folder,
                "eventsEnabled": True,
            },
        )
        saved: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def on_progress(progress: dict[str, Any]) -> None:
            if progress["state"] != "inProgress" and not saved.done():
                saved.set_result(progress)

        self.browser_cdp.on("Browser.downloadProgress", on_progress)
        try:
            chunks = await _new(self.cdp, "[]")
            with path.open("rb") as source:
                while chunk := await asyncio.to_thread(source.read, _CHUNK_BYTES):
                    await _call(self.cdp, chunks, _APPEND, base64.b64encode(chunk).decode())
            await _call(self.cdp, chunks, _SAVE, path.name)
            end = await saved
        finally:
            self.browser_cdp.remove_listener("Browser.downloadProgress", on_progress)
        if end["state"] != "completed":
            raise Error(f"the remote browser could not save {path.name}")
        return end.get("filePath") or f"{folder}/{path.name}"


async def _read(cdp: CDPSession, source: str, start: int) -> bytes:
    """Return the bytes of a file input's file from `start` on, none at its end."""
    try:
        return base64.b64decode(await _call(cdp, source, _READ, start, start + _CHUNK_BYTES))
    except Error as error:
        raise Error(
            f"the file cannot be read on the remote browser's machine: {error.message}"
        ) from error


async def _new(cdp: CDPSession, expression: str) -> str:
    """Return the id of an object that is made in the page."""
    made = await cdp.send("Runtime.evaluate", {"expression": expression})
    return made["result"]["objectId"]


async def _call(cdp: CDPSession, this: str, function: str, *arguments: Any) -> Any:
    """Call a function in the page and return what it returns.

    Raises:
        playwright.async_api.Error: it throws, or the page is gone.
    """
    answer = await cdp.send(
        "Runtime.callFunctionOn",
        {
            "objectId": this,
            "functionDeclaration": function,
            "arguments": [{"value": argument} for argument in arguments],
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    if problem := answer.get("exceptionDetails"):
        raise Error(problem.get("exception", {}).get("description", problem["text"]))
    return answer["result"].get("value")
