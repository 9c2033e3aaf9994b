"""Ids of sessions: those that callers choose, and those that are closed and stay so.

A caller that chooses the id may send everything again: a repeated seed is answered with the
session there is, a repeated close with success, and an id that was closed is never seeded again,
also if it never was before.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from resources_servers.browser_gym.browser.backend import BrowserUnavailable
from resources_servers.browser_gym.session import Opening, Owner, Session

if TYPE_CHECKING:
    from resources_servers.browser_gym.sessions import Seeding, Sessions

REMEMBERED_CLOSED = 10_000
REMEMBERED_CLOSED_S = 24 * 3600

ClosedBy = Literal["closed", "verified", "expired", "lost"]


class SessionConflict(ValueError):
    """A session's id is closed, or belongs to another episode or task."""


class ClosedIds:
    """Ids that are closed, and why: the last ones, for a day."""

    def __init__(self) -> None:
        self._closed: OrderedDict[str, tuple[ClosedBy, float]] = OrderedDict()

    def add(self, session_id: str, closed_by: ClosedBy) -> None:
        """Remember an id that was closed now."""
        self._closed[session_id] = closed_by, time.monotonic()
        self._closed.move_to_end(session_id)
        while len(self._closed) > REMEMBERED_CLOSED:
            self._closed.popitem(last=False)

    def get(self, session_id: str) -> ClosedBy | None:
        """Tell what closed an id, if it is remembered."""
        oldest = time.monotonic() - REMEMBERED_CLOSED_S
        while self._closed and next(iter(self._closed.values()))[1] < oldest:
            self._closed.popitem(last=False)
        return self._closed[session_id][0] if session_id in self._closed else None


class ChosenSessions:
    """The sessions whose ids their callers choose."""

    def __init__(self, sessions: Sessions) -> None:
        """Open and close sessions among `sessions`."""
        self._sessions = sessions
        self._seeding: dict[str, tuple[Owner, Seeding]] = {}

    async def seed(self, session_id: str, owner: Owner, opening: Opening) -> Session:
        """Return the session of an id, which is opened unless it is or is being opened.

        It goes on being opened if the caller goes away, who can ask again or close the id.
        One that could not be opened leaves the id free.

        Args:
            session_id: chosen by the caller.
            owner: for whom.
            opening: what the session is opened for.

        Raises:
            SessionConflict: the id was closed, or is another episode's or task's.
            UrlNotAllowed, InvalidTask, BrowserError, StartPageError: as of `Sessions.opening`.
        """
        if closed_by := self._sessions.closed_by(session_id):
            raise SessionConflict(
                f"resources_session_id: {session_id!r} was {closed_by} before; choose a new one"
            )
        if session := self._sessions.opened(session_id):
            _check(session_id, session.owner, owner)
            return session
        if session_id in self._seeding:
            first, work = self._seeding[session_id]
            _check(session_id, first, owner)
        else:
            work = self._sessions.opening(opening, session_id, owner)
            self._seeding[session_id] = owner, work
            work.add_done_callback(lambda _: self._seeding.pop(session_id))
        await asyncio.wait([work])
        if work.cancelled():
            if not self._sessions.closed_by(session_id):
                raise BrowserUnavailable("the server is shutting down")
            raise SessionConflict(
                f"resources_session_id: {session_id!r} was closed while its session was opened"
            )
        return work.result()[0]

    async def abandon(self, session_id: str) -> bool:
        """Keep an id from being opened, now and later; return whether it was being opened."""
        self._sessions.refuse(session_id)
        if session_id not in self._seeding:
            return False
        work = self._seeding[session_id][1]
        if not work.cancelling():  # a second time would interrupt what it cleans up
            work.cancel()
        await asyncio.wait([work])
        return work.cancelled()

    async def close(self, session_id: str, episode: str) -> None:
        """Close an id for good; there need not be a session, now or before.

        Raises:
            SessionConflict: the id is another episode's.
            Exception: the browser could not be given back. The next call tries again.
        """
        seeding = self._seeding.get(session_id)
        session = self._sessions.opened(session_id)
        owner = seeding[0] if seeding else session and session.owner
        if owner and owner.episode != episode:
            raise SessionConflict(
                f"episode_id: {session_id!r} belongs to episode {owner.episode}, not {episode}"
            )
        await self.abandon(session_id)  # from now on, also if the rest takes time or fails
        await self._sessions.end(session_id)


def _check(session_id: str, owner: Owner | None, asking: Owner) -> None:
    if owner != asking:
        whose = f"episode {owner.episode}, task {owner.task}" if owner else "nobody who chose it"
        raise SessionConflict(
            f"resources_session_id: {session_id!r} belongs to {whose}, "
            f"not to episode {asking.episode}, task {asking.task}; choose a new one"
        )
