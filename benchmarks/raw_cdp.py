"""The least a driver can do: one web socket to a Chromium, no driver process, no waiting.

A baseline for the bench, not a way to drive sessions: it has no timeouts and handles no faults.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import websockets

from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)

_QUIET_SCRIPT = """new Promise(resolve =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(resolve))))"""


def _lines(port_file: Path) -> list[str] | None:
    """Return the port and path that Chromium wrote, once both are there."""
    lines = port_file.read_text().split("\n") if port_file.exists() else []
    return lines[:2] if len(lines) > 1 else None


class RawChromium:
    """A headless Chromium with a debugging port; use as an async context manager."""

    async def __aenter__(self) -> RawChromium:
        self._profile = await asyncio.to_thread(tempfile.mkdtemp, prefix="raw-cdp-")
        port_file = Path(self._profile, "DevToolsActivePort")
        self.process = await asyncio.create_subprocess_exec(
            str(find_chromium().executable),
            *launch_args(running_as_root()),
            "--headless",
            "--remote-debugging-port=0",
            f"--user-data-dir={self._profile}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        while not (lines := _lines(port_file)):
            await asyncio.sleep(0.02)
        port, path = lines
        self._socket = await websockets.connect(f"ws://127.0.0.1:{port}{path}", max_size=None)
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.cancel()
        await self._socket.close()
        self.process.kill()
        await self.process.wait()
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)

    async def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        await self._socket.send(json.dumps(message))
        return await self._answers[number]

    async def open(self, url: str, width: int, height: int) -> str:
        """Open a page in a context of its own and return its CDP session."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = (
            await self.send(
                "Target.createTarget",
                url=url,
                browserContextId=context,
                width=width,
                height=height,
            )
        )["targetId"]
        attached = await self.send("Target.attachToTarget", targetId=target, flatten=True)
        return attached["sessionId"]

    async def click_and_look(self, session: str, x: float, y: float) -> None:
        """Click, wait for three drawn frames and take a JPEG."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            await self.send("Input.dispatchMouseEvent", session, type=kind, x=x, y=y, **button)
        await self.send("Runtime.evaluate", session, expression=_QUIET_SCRIPT, awaitPromise=True)
        await self.screenshot(session)

    async def screenshot(self, session: str) -> None:
        """Take a JPEG."""
        await self.send("Page.captureScreenshot", session, format="jpeg", quality=85)

    async def close(self, session: str) -> None:
        """Close a page."""
        await self.send("Page.close", session)

    async def _read(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            answer = self._answers.pop(message.get("id"), None)
            if answer and not answer.done():
                answer.set_result(message.get("result", {}))
