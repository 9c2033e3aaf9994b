"""Browser sessions: seed, step, read storage, verify, close and expiry.

One state machine for every way in. Each session has one lock, acts in tasks of its own (so that a
caller who goes away neither interrupts an action half-way nor makes it run twice), and gives its
browser back exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Coroutine
from typing import Any, Literal

from playwright.async_api import Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.backend import (
    BrowserBackend,
    BrowserLost,
)
from resources_servers.browser_gym.browser.final_state import (
    FinalState,
    More,
    read_final,
    read_more,
)
from resources_servers.browser_gym.browser.page import ActionResult, Observation
from resources_servers.browser_gym.browser.policy import normalize_url
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.session import (
    Finished,
    Operation,
    Session,
    SessionError,
    SessionSettings,
    StepOutcome,
    open_session,
)
from resources_servers.browser_gym.task_row import BrowserStart

logger = logging.getLogger(__name__)

_REMEMBERED_CLOSED = 10_000
_REMEMBERED_OPERATIONS = 4
_FINISHED = "the task was finished before, so nothing more can be done in the browser"


class OperationConflict(ValueError):
    """An operation id was used again for another batch."""


ClosedBy = Literal["closed", "verified", "expired", "lost"]


class Sessions:
    """All sessions of a server."""

    def __init__(self, backend: BrowserBackend, settings: SessionSettings) -> None:
        """Serve sessions from `backend`; call `start` before and `close` after use."""
        self._backend = backend
        self._settings = settings
        self._open: dict[str, Session] = {}
        self._closed: OrderedDict[str, ClosedBy] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._releases: set[asyncio.Task[None]] = set()  # never cancelled
        self._expiry: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the browser supply and the expiry of idle sessions."""
        await self._backend.start()
        self._expiry = asyncio.create_task(self._expire_idle())

    async def close(self) -> None:
        """Close every session and the browser supply; safe to call again."""
        if self._expiry:
            self._expiry.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(s, "closed") for s in list(self._open.values())))
        await asyncio.gather(*self._releases)  # those begun before included
        await self._backend.close()

    async def seed(
        self,
        start_url: str,
        width: int,
        height: int,
        start: BrowserStart | None = None,
        gym_url: str | None = None,
    ) -> tuple[Session, Observation]:
        """Open a session on `start_url`.

        Args:
            start_url: http(s) address.
            width: viewport width in CSS px.
            height: viewport height in CSS px.
            start: what the browser holds and tells pages, where not the server's defaults.
            gym_url: http(s) address that pages may reach beside the start page's origin.

        Raises:
            UrlNotAllowed: not an http(s) address.
            InvalidTask: the browser refuses what `start` says.
            BrowserError: no browser to be had.
            StartPageError: the page did not open.
        """
        start_url = normalize_url(start_url)
        opening = open_session(
            self._backend,
            self._settings,
            start_url,
            width,
            height,
            start or BrowserStart(),
            gym_url,
        )
        work = self._task(self._seed(opening))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The caller is gone and never learns the session's id: take it back.
            work.cancel()
            work.add_done_callback(self._discard_seeded)
            raise

    async def step(
        self, session_id: str, batch: list[act.Action], operation_id: str | None = None
    ) -> StepOutcome:
        """Run a batch in a session, once per `operation_id`.

        In a finished session nothing runs: the first action's error says so.

        Raises:
            SessionError: unknown, expired or closed session.
            BrowserLost: the browser is gone.
            OperationConflict: the id was used for another batch.
        """
        session = self._find(session_id)
        operation = session.operations.get(operation_id) if operation_id else None
        if operation is None:
            if session.finishing:
                work = self._refuse(session, session.finishing, batch)
            else:
                work = self._step(session, batch)
            operation = Operation(batch, self._task(work))
            if operation_id:
                session.operations[operation_id] = operation
                while len(session.operations) > _REMEMBERED_OPERATIONS:
                    session.operations.popitem(last=False)
        elif operation.batch != batch:
            raise OperationConflict(
                f"operation_id {operation_id!r} was used for another batch; use a new id"
            )
        return await asyncio.shield(operation.task)

    async def dump(
        self, session_id: str, more: Collection[More] = ()
    ) -> tuple[FinalState, dict[str, Any]]:
        """Read a session's storage without ending it, and what `read_more` tells of `more`.

        Of a finished session the storage is what it was finished with.

        Raises:
            SessionError: unknown, expired or closed session.
            BrowserLost: the browser is gone.
        """
        session = self._find(session_id)
        return await asyncio.shield(self._task(self._dump(session, more)))

    async def finish(self, session_id: str, answer: str) -> Finished:
        """Fix what is graded: what is left behind now, and the answer. Only the first call acts.

        Apps that save only when their page is left are given the chance to. The session stays
        open, but steps are refused from now on; every call returns what the first one fixed.

        Raises:
            SessionError: unknown, expired or closed session.
            BrowserLost: the browser is gone.
        """
        return await asyncio.shield(self._finishing(self._find(session_id), answer))

    async def conclude(self, session_id: str, answer: str = "") -> Finished:
        """Finish a session unless it is, end it, and return what it was finished with.

        Raises:
            SessionError: unknown, expired or closed session.
            BrowserLost: the browser is gone.
        """
        session = self._find(session_id)
        return await asyncio.shield(self._task(self._conclude(session, answer)))

    async def end(self, session_id: str) -> str | None:
        """Close a session; return None if this call closed it, else why it could not.

        Work in flight fails at once: its browser context is closed under it.
        """
        session = self._open.get(session_id)
        if session is None:
            closed_by = self._closed.get(session_id)
            return f"the session was {closed_by} before" if closed_by else "no such session"
        await asyncio.shield(self._task(self._end(session, "closed")))
        return None

    def _find(self, session_id: str) -> Session:
        session = self._open.get(session_id)
        if session is not None:
            session.last_used = time.monotonic()
            return session
        closed_by = self._closed.get(session_id)
        if closed_by == "expired":
            raise SessionError(
                f"session {session_id} expired after {self._settings.idle_timeout_s:g} s without "
                "a request",
                Fault.SESSION_EXPIRED,
            )
        if closed_by:
            raise SessionError(f"session {session_id} was {closed_by} before", Fault.SESSION_GONE)
        raise SessionError(f"there is no session {session_id!r} on this server", Fault.SESSION_GONE)

    async def _seed(
        self, opening: Coroutine[Any, Any, tuple[Session, Observation]]
    ) -> tuple[Session, Observation]:
        session, observation = await opening
        self._open[session.session_id] = session
        return session, observation

    def _discard_seeded(self, work: asyncio.Task[tuple[Session, Observation]]) -> None:
        if not work.cancelled() and work.exception() is None:
            self._task(self._end(work.result()[0], "closed"))

    async def _step(self, session: Session, batch: list[act.Action]) -> StepOutcome:
        async with self._using(session):
            results, session.shown = await session.driver.run(batch)
            return results, session.shown

    async def _refuse(
        self, session: Session, finishing: asyncio.Task[Finished], batch: list[act.Action]
    ) -> StepOutcome:
        """Answer a step that comes after the task was finished, with what was last shown."""
        await asyncio.shield(finishing)
        results = [ActionResult(action.type, "not_run") for action in batch]
        if results:
            results[0] = ActionResult(batch[0].type, "error", _FINISHED)
        assert session.shown
        return results, dataclasses.replace(session.shown, events=[], timings_ms={})

    async def _dump(
        self, session: Session, more: Collection[More]
    ) -> tuple[FinalState, dict[str, Any]]:
        finished = await asyncio.shield(session.finishing) if session.finishing else None
        async with self._using(session):
            state = finished.state if finished else await self._read_final(session, leave=False)
            return state, await read_more(session.lease.context, session.tabs, more)

    async def _read_final(self, session: Session, *, leave: bool) -> FinalState:
        return await read_final(
            session.lease.context, session.tabs, session.start_origin, session.initial, leave=leave
        )

    def _finishing(self, session: Session, answer: str) -> asyncio.Task[Finished]:
        if session.finishing is None:
            session.finishing = self._task(self._finish(session, answer))
        return session.finishing

    async def _finish(self, session: Session, answer: str) -> Finished:
        async with self._using(session):
            return Finished(await self._read_final(session, leave=True), answer)

    async def _conclude(self, session: Session, answer: str) -> Finished:
        try:
            return await asyncio.shield(self._finishing(session, answer))
        finally:
            await self._end(session, "verified")

    @contextlib.asynccontextmanager
    async def _using(self, session: Session):
        """Hold the session's lock; what its browser's end breaks is a lost session."""
        session.in_flight += 1
        try:
            async with session.lock:
                self._find(session.session_id)  # it may have been closed while we waited
                try:
                    async with session.awake():
                        yield
                except (Error, TimeoutError) as error:
                    raise BrowserLost(f"the session's browser failed: {error}") from error
                finally:
                    session.last_used = time.monotonic()
                if session.lease.lost:
                    raise BrowserLost("the session's browser died")
        except BrowserLost:
            if not (session.finishing and session.finishing.done()):
                await self._end(session, "lost")  # of a finished one no browser is needed
            raise
        finally:
            session.in_flight -= 1

    async def _end(self, session: Session, closed_by: ClosedBy) -> None:
        """Take a session out of service and give its browser back; only the first call acts."""
        if self._open.pop(session.session_id, None) is None:
            await session.lease.release()
            return
        self._closed[session.session_id] = closed_by
        while len(self._closed) > _REMEMBERED_CLOSED:
            self._closed.popitem(last=False)
        release = asyncio.create_task(session.release())
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)
        await asyncio.shield(release)

    async def _expire_idle(self) -> None:
        limit = self._settings.idle_timeout_s
        while True:
            await asyncio.sleep(min(limit / 4, 30))
            now = time.monotonic()
            for session in list(self._open.values()):
                if not session.in_flight and now - session.last_used >= limit:
                    logger.warning("session %s expired", session.session_id)
                    await self._end(session, "expired")

    def _task[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            # Awaited by a caller as a rule; read here so that one who left is not warned about.
            logger.debug("a session task failed: %r", error)
