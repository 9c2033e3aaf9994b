"""Notices callers who go away: a web server does not stop a route for that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

_CLIENT_CLOSED_REQUEST = 499


async def while_connected[T](request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` comes to; it is cancelled if the request's caller goes away.

    Args:
        request: whose body has been read.
        work: leaves nothing behind when cancelled.

    Raises:
        HTTPException: the caller is gone; nobody reads the answer.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                raise HTTPException(_CLIENT_CLOSED_REQUEST, "the caller has gone away")
        return task.result()
    finally:
        task.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
