"""Waiting for what another process or server does."""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_AGAIN_S = 0.02


async def eventually(check: Callable[[], Awaitable[bool]], timeout_s: float = 60) -> None:
    """Wait until `check` says yes; for what another process or server does, which has no event.

    Args:
        check: says whether it has happened.
        timeout_s: seconds after which it never will; far more than a busy machine takes.

    Raises:
        TimeoutError: it has not happened in time.
    """
    async with asyncio.timeout(timeout_s):
        while not await check():
            await asyncio.sleep(LOOK_AGAIN_S)
