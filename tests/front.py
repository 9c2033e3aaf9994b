"""A reverse proxy on loopback that treats requests as a test says: drops, delays, changes them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.simulators.http_server import serve

Json = dict[str, Any]
FORWARDED_HEADERS = ("cookie", "content-type", "authorization")


@dataclass(frozen=True)
class Passing:
    """A request on its way to the server behind.

    Attributes:
        path: of the route.
        body: JSON; what is changed in it is forwarded.
        client: of the server behind.
        request: as it came.
    """

    path: str
    body: Json
    client: httpx.AsyncClient
    request: Request

    async def forward(self) -> Response:
        """Let the server behind answer."""
        headers = {
            name: value
            for name in FORWARDED_HEADERS
            if (value := self.request.headers.get(name)) is not None
        }
        answer = await self.client.request(
            self.request.method, self.path, content=json.dumps(self.body), headers=headers
        )
        kept = [
            (k.lower().encode(), v.encode())
            for k, v in answer.headers.multi_items()
            if k.lower() in ("content-type", "set-cookie", "retry-after")
        ]
        response = Response(answer.content, answer.status_code)
        response.raw_headers = [h for h in response.raw_headers if h[0] == b"content-length"] + kept
        return response

    async def silence(self) -> Response:
        """Answer never: wait until the caller has gone."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        return Response()


Treatment = Callable[[Passing], Awaitable[Response]]


@contextmanager
def front_of(url: str, treat: Treatment) -> Iterator[str]:
    """Serve a proxy of `url` on a free loopback port; yields its base URL."""

    async def handle(request: Request) -> Response:
        body = json.loads(await request.body() or b"{}")
        limits = httpx.Limits(max_keepalive_connections=0)
        # No certificates: to read them takes 40 ms for each client, and there is one per request.
        async with httpx.AsyncClient(
            base_url=url, timeout=120, limits=limits, verify=False
        ) as client:
            return await treat(Passing(request.url.path, body, client, request))

    route = Route("/{path:path}", handle, methods=["GET", "POST"])
    with serve(Starlette(routes=[route])) as front:
        yield front
