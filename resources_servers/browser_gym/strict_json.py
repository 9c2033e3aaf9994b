"""Refuses bodies that are too large, no JSON or that no JSON answer could repeat.

No route sees them.

Python's reader takes NaN, Infinity and half surrogate pairs, which its writer refuses later: in an
answer that repeats the body, or in the one that says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resources_servers.browser_gym.faults import Fault

BODY_PAUSE_S = 60
MAX_DEPTH = 100
MAX_DIGITS = 1_000  # of a whole number; far beyond what any field takes

_Path = tuple[str | int, ...]


class StrictJson:
    """ASGI middleware: a POST whose body is not clean JSON is answered with 422.

    One that is too large is answered with 413, one that stops half-way with 408.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, but: Collection[str] = ()) -> None:
        """Wrap `app`.

        Args:
            app: what answers.
            max_bytes: of a body.
            but: paths that look at what is in their bodies themselves.
        """
        self._app = app
        self._max_bytes = max_bytes
        self._but = frozenset(but)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it and name the field."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except _Unreadable as error:
            # The rest of the body is not read, so that the connection is of no more use.
            headers = {"connection": "close"}
            reason = {"failure_kind": error.fault.kind, "failure_reason": str(error)}
            await JSONResponse(reason, error.status, headers)(scope, receive, send)
            return
        if body is None:
            return  # the caller has gone
        judged = scope["path"] not in self._but
        if judged and (problem := find_problem(body)):
            path, message = problem
            shown = ["body", *(_shown(part) for part in path)]
            detail = [{"type": "json_invalid", "loc": shown, "msg": message}]
            await JSONResponse({"detail": detail}, status_code=422)(scope, receive, send)
            return
        pending = [body]

        async def replay() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await receive()

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body, or None if the caller went away before its end.

        Raises:
            _Unreadable: it is too large, or too slow.
        """
        announced = Headers(scope=scope).get("content-length", "")
        size = int(announced) if announced.isdecimal() else 0
        received = 0
        chunks: list[bytes] = []
        while size <= self._max_bytes:
            try:
                message = await asyncio.wait_for(receive(), BODY_PAUSE_S)
            except TimeoutError:
                reason = f"the body stopped: nothing of it came for {BODY_PAUSE_S:g} s"
                raise _Unreadable(408, Fault.SERVER_SILENT, reason) from None
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            received += len(chunks[-1])
            size = max(size, received)
            if not message.get("more_body") and size <= self._max_bytes:
                return b"".join(chunks)
        raise _Unreadable(
            Fault.BODY_TOO_LARGE.status,
            Fault.BODY_TOO_LARGE,
            f"the body has more than {self._max_bytes} bytes; max_request_bytes of the resources "
            "server sets the limit",
        )


class _Unreadable(Exception):
    """A body that is not read to its end."""

    def __init__(self, status: int, fault: Fault, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.fault = fault


def find_problem(body: bytes) -> tuple[_Path, str] | None:
    """Return where a body is not clean JSON and why, or None; an empty body is clean."""
    if not body:
        return None
    try:
        root = json.loads(body)
    except RecursionError:
        return (), f"nested deeper than {MAX_DEPTH} levels"
    except UnicodeDecodeError:
        return (), "the body is not UTF-8"
    except ValueError as error:  # also a number of thousands of digits
        return (), f"the body is not JSON: {error}"
    todo: list[tuple[_Path, Any]] = [((), root)]
    while todo:
        path, value = todo.pop()
        if len(path) > MAX_DEPTH:
            return path[:5], f"nested deeper than {MAX_DEPTH} levels"
        if problem := _problem_of(value):
            return path, problem
        if isinstance(value, dict):
            if any(_is_broken(key) for key in value):
                return path, "a key has half of a surrogate pair"
            todo += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            todo += [((*path, index), item) for index, item in enumerate(value)]
    return None


def _problem_of(value: Any) -> str | None:
    if isinstance(value, str) and _is_broken(value):
        return "half of a surrogate pair is no text; give the whole character"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is no JSON number, or it is too large; give a finite one"
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * 3.33:
        return f"a whole number may have {MAX_DIGITS} digits at most"
    return None


def _is_broken(text: str) -> bool:
    """Whether a text has half of a surrogate pair."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shown(part: str | int) -> str | int:
    return part if isinstance(part, int) else part[:100]
