"""A server's sessions as the bench drives them: in process, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.browser.backend import BrowserBackend
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.observation import Observation
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.session import Opening, Session, SessionSettings
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.task_row import BrowserStart

WIDTH, HEIGHT = 1280, 720
PROCESSES = 2
SETTINGS = SessionSettings()


class Ours:
    """Sessions on one page."""

    def __init__(self, pool: BrowserBackend, sessions: Sessions, url: str) -> None:
        self.url = url
        self._pool = pool
        self._sessions = sessions

    async def seed(self, query: str = "", browser: dict[str, Any] | None = None) -> Session:
        """Open a session on the page.

        Args:
            query: of the page's address, with its question mark.
            browser: a task row's `browser` fields.
        """
        start = BrowserStart.model_validate(browser or {})
        opening = Opening(self.url + query, WIDTH, HEIGHT, start)
        session, _ = await self._sessions.seed(opening)
        return session

    async def step(
        self, session: Session, *, operation_id: str | None = None, **action: Any
    ) -> Observation:
        """Run one action and return what is seen then.

        Raises:
            RuntimeError: the action failed.
        """
        results, seen = await self._sessions.step(
            session.session_id, [parse_action(action)], operation_id
        )
        if results[0].error:
            raise RuntimeError(results[0].error)
        return seen

    async def end(self, *sessions: Session) -> None:
        """Close sessions."""
        await asyncio.gather(*(self._sessions.end(session.session_id) for session in sessions))

    async def warmed(self, count: int) -> None:
        """Wait until as many contexts are warm, as on a server that had a moment's rest."""
        async with asyncio.timeout(60):
            while (await self._pool.health()).warm < count:
                await asyncio.sleep(0.1)


@asynccontextmanager
async def running(url: str, *, warm_contexts: int) -> AsyncIterator[Ours]:
    """Sessions on `url`, in a pool of PROCESSES Chromiums."""
    pool = LocalPool(
        find_chromium(),
        processes=PROCESSES,
        max_sessions=64,
        queue_limit=64,
        queue_timeout_s=120,
        warm_contexts=warm_contexts,
    )
    sessions = Sessions(pool, SETTINGS)
    try:
        await sessions.start()
        yield Ours(pool, sessions, url)
    finally:
        await sessions.close()
