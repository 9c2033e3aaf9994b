"""Refuses bodies that are no JSON or that no JSON answer could repeat, before a route sees them.

Python's reader takes NaN, Infinity and half surrogate pairs, which its writer refuses later: in an
answer that repeats the body, or in the one that says what is wrong with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_DEPTH = 100
MAX_DIGITS = 1_000  # of a whole number; far beyond what any field takes

_Path = tuple[str | int, ...]


class StrictJson:
    """ASGI middleware: a POST whose body is not clean JSON is answered with 422."""

    def __init__(self, app: ASGIApp, *, but: Collection[str] = ()) -> None:
        """Wrap `app`, whose paths `but` look at their bodies themselves."""
        self._app = app
        self._but = frozenset(but)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it and name the field."""
        judged = scope["type"] == "http" and scope["method"] == "POST"
        if not judged or scope["path"] in self._but:
            await self._app(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            return  # the caller has gone
        if problem := find_problem(body):
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


async def _read(receive: Receive) -> bytes | None:
    """Return the whole body, or None if the caller went away before its end."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
