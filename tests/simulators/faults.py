"""Answers that are no reply: what the simulated APIs fail with, all in the same ways."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send


@dataclass(frozen=True)
class Fault:
    """One answer that is not a reply.

    Attributes:
        kind: `status`, `page`, `hang`, `trickle`, `drop`, `cut` or `malformed`.
        status: HTTP status.
        body: the JSON of a `status`.
        headers: of a `status`.
        page: the body of a `page`.
    """

    kind: str
    status: int = 200
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    page: bytes = b""

    async def answer(self, request: Request) -> Response:
        """Answer a request whose body has been read."""
        match self.kind:
            case "hang":
                # The body is read, so the next message can only be that the client has gone.
                await request.receive()
                return Response(status_code=499)
            case "trickle":
                return _TricklingResponse()
            case "drop":
                # No answer at all is not in ASGI's power, but in that of uvicorn's connection.
                request.receive.__self__.transport.abort()  # type: ignore[attr-defined]
                return Response(status_code=499)
            case "cut":
                return CutOff()
            case "malformed":
                return Response('{"id": "', media_type="application/json")
            case "page":
                return Response(self.page, self.status, media_type="text/html")
            case _:
                return JSONResponse(self.body, self.status, self.headers)


class CutOff(Response):
    """Promises a body, sends a part of it, and lets the server close the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id":', "more_body": True})


class _TricklingResponse(Response):
    """Sends blanks until the client has gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.wait({gone}, timeout=0.05)


def hang() -> Fault:
    """Accept the request and never answer it."""
    return Fault("hang")


def trickle() -> Fault:
    """Begin an answer and keep the connection open with blanks, as gateways do."""
    return Fault("trickle")


def dropped_connection() -> Fault:
    """Accept the request and reset the connection."""
    return Fault("drop")


def cut_connection() -> Fault:
    """Close the connection in the middle of the reply."""
    return Fault("cut")


def malformed_json() -> Fault:
    """Answer 200 with half a JSON document, as a whole body."""
    return Fault("malformed")


def error_page(status: int, body: bytes) -> Fault:
    """Answer as a gateway before the API does: with a page of its own."""
    return Fault("page", status, page=body)
