"""Browsers for the tests of remote ones: Chromiums with a debugging port, and who lends them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)

_LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")


class RemoteChromium:
    """A Chromium with a debugging port, not started by Playwright."""

    def __init__(self, process: asyncio.subprocess.Process, profile: str, endpoint: str) -> None:
        self.endpoint = endpoint
        self.process = process
        self._profile = profile

    @property
    def http_endpoint(self) -> str:
        return f"http://{httpx.URL(self.endpoint).netloc.decode()}"

    @classmethod
    async def start(cls, *before: str) -> RemoteChromium:
        """Start one; `before` are words in front of its command."""
        profile = tempfile.mkdtemp(prefix="browser-gym-remote-")
        process = await asyncio.create_subprocess_exec(
            *before,
            str(find_chromium().executable),
            "--headless",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            *launch_args(running_as_root()),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr
        while line := await process.stderr.readline():
            if found := _LISTENING.search(line):
                return cls(process, profile, found[1].decode())
        raise RuntimeError("Chromium did not start")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def stop(self) -> None:
        self.kill()
        await self.process.communicate()  # also reads what it still says
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)


@asynccontextmanager
async def running_chromium(*before: str) -> AsyncIterator[RemoteChromium]:
    chromium = await RemoteChromium.start(*before)
    try:
        yield chromium
    finally:
        await chromium.stop()


@dataclass
class LendingService:
    """A service with a REST API that starts a Chromium for each session, and ends it.

    Attributes:
        capacity: sessions at once; one more is answered with 429.
        create_answers: what the next requests for a session are answered instead.
        delete_answers: the same of the next deletions.
        asked: requests for a session so far.
        created: ids of the sessions so far.
        deleted: ids whose deletion was asked for, each time.
        metadata: what came with each request.
        keys: the API keys that came.
        gate: cleared while requests for a session wait.
        dead: whether the browsers of new sessions are gone already.
    """

    capacity: int = 100
    create_answers: list[Response] = field(default_factory=list)
    delete_answers: list[Response] = field(default_factory=list)
    asked: int = 0
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    metadata: list[Any] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    running: dict[str, RemoteChromium] = field(default_factory=dict)
    starting: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    dead: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    def app(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await asyncio.gather(*(chromium.stop() for chromium in self.running.values()))

        return Starlette(
            routes=[
                Route("/sessions", self._create, methods=["POST"]),
                Route("/sessions/{id:path}", self._delete, methods=["DELETE"]),
            ],
            lifespan=lifespan,
        )

    async def _create(self, request: Request) -> Response:
        self.asked += 1
        self.keys.add(request.headers.get("x-api-key"))
        self.metadata.append((await request.json())["metadata"])
        await asyncio.to_thread(self.gate.wait)
        if self.create_answers:
            return self.create_answers.pop(0)
        if len(self.running) + self.starting >= self.capacity:
            return JSONResponse({"error": "too many sessions"}, 429, {"retry-after": "1"})
        self.starting += 1
        try:
            chromium = await RemoteChromium.start()
            if self.dead:
                await chromium.stop()
        finally:
            self.starting -= 1
        session_id = f"s/{len(self.created)}"
        self.running[session_id] = chromium
        self.created.append(session_id)
        return JSONResponse({"id": session_id, "connect": {"url": chromium.endpoint}}, 201)

    async def _delete(self, request: Request) -> Response:
        session_id = request.path_params["id"]
        self.deleted.append(session_id)
        if self.delete_answers:
            return self.delete_answers.pop(0)
        chromium = self.running.pop(session_id, None)
        if chromium is None:
            return Response(status_code=404)
        await chromium.stop()
        return Response(status_code=204)
