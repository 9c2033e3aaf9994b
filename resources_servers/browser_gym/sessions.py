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
import uuid
from collections.abc import Collection, Coroutine
from typing import Any

from playwright.async_api import Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.backend import (
    BrowserBackend,
    BrowserLost,
    BrowserUnavailable,
)
from resources_servers.browser_gym.browser.final_state import (
    FinalState,
    More,
    read_final,
    read_more,
)
from resources_servers.browser_gym.browser.observation import ActionResult, Observation, Words
from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.session import (
    Finished,
    Opening,
    Operation,
    Owner,
    Session,
    SessionError,
    SessionSettings,
    StepOutcome,
    open_session,
)
from resources_servers.browser_gym.session_ids import ClosedBy, ClosedIds

logger = logging.getLogger(__name__)

_REMEMBERED_OPERATIONS = 4
_FINISHED = "the task was finished before, so nothing more can be done in the browser"


class OperationConflict(ValueError):
    """An operation id was used again, for another batch or after its result was forgotten."""


Seeding = asyncio.Task[tuple[Session, Observation]]


class Sessions:
    """All sessions of a server."""

    def __init__(self, backend: BrowserBackend, settings: SessionSettings) -> None:
        """Serve sessions from `backend`; call `start` before and `close` after use."""
        self._backend = backend
        self._settings = settings
        self._open: dict[str, Session] = {}
        self._closed = ClosedIds()
        self._unreleased: dict[str, Session] = {}  # out of service, their browsers not given back
        self._tasks: set[asyncio.Task[Any]] = set()
        self._expiry: asyncio.Task[None] | None = None
        self._shut_down = False

    async def start(self) -> None:
        """Start the browser supply and the expiry of idle sessions."""
        await self._backend.start()
        self._expiry = asyncio.create_task(self._expire_idle())

    async def close(self) -> None:
        """Close every session and the browser supply, open no more; safe to call again."""
        self._shut_down = True
        if self._expiry:
            self._expiry.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in list(self._open.values()):
            self._take_out(session, "closed")
        # Those whose release began before included; it is never cancelled.
        await asyncio.gather(*(self._give_back(s) for s in list(self._unreleased.values())))
        await self._backend.close()

    async def seed(self, opening: Opening) -> tuple[Session, Observation]:
        """Open a session; one whose caller goes away is taken back.

        Errors are those of `opening`.
        """
        work = self.opening(opening)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The caller is gone and never learns the session's id: take it back.
            work.cancel()
            work.add_done_callback(self._discard_seeded)
            raise

    def opening(
        self, opening: Opening, session_id: str | None = None, owner: Owner | None = None
    ) -> Seeding:
        """Begin to open a session; cancelled, the task leaves nothing behind.

        Args:
            opening: what for.
            session_id: one that is not in use; by default a new one.
            owner: who chose it.

        Raises:
            The task's, when it is awaited:
            UrlNotAllowed: not an http(s) address.
            InvalidTask: the browser refuses what `start` or `keep` says.
            BrowserError: no browser to be had.
            StartPageError: the page did not open.
        """
        if self._shut_down:
            raise BrowserUnavailable("the server is shutting down")
        return self._task(self._seed(opening, session_id or str(uuid.uuid4()), owner))

    async def step(
        self,
        session_id: str,
        batch: list[act.Action],
        operation_id: str | None = None,
        words: Words | None = None,
    ) -> StepOutcome:
        """Run a batch in a session, once per `operation_id`; observe in `words` if they are given.

        In a finished session nothing runs: the first action's error says so.

        Raises:
            SessionError: unknown, expired or closed session.
            BrowserLost: the browser is gone.
            OperationConflict: the id was used for another batch, or so long ago that its result is
                forgotten.
        """
        session = self._find(session_id)
        operation = session.operations.get(operation_id) if operation_id else None
        if operation is None:
            if operation_id in session.forgotten_operations:
                raise OperationConflict(
                    f"operation_id {operation_id!r} was used before and its result is not kept "
                    "any more; use a new id"
                )
            if session.finishing:
                work = self._refuse(session, session.finishing, batch)
            else:
                work = self._step(session, batch, words)
            operation = Operation(batch, self._task(work))
            if operation_id:
                session.operations[operation_id] = operation
                while len(session.operations) > _REMEMBERED_OPERATIONS:
                    session.forgotten_operations.add(session.operations.popitem(last=False)[0])
        elif operation.batch != batch:
            raise OperationConflict(
                f"operation_id {operation_id!r} was used for another batch; use a new id"
            )
        return await asyncio.shield(operation.task)

    def viewport(self, session_id: str) -> tuple[int, int]:
        """Return the width and height of a session's viewport in CSS px.

        Raises:
            SessionError: unknown, expired or closed session.
        """
        session = self._find(session_id)
        return session.width, session.height

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

        Work in flight fails at once: its browser context is closed under it. If the browser
        cannot be given back, that is raised, and the next call tries again.
        """
        session = self._open.get(session_id) or self._unreleased.get(session_id)
        if session is None:
            closed_by = self._closed.get(session_id)
            return f"the session was {closed_by} before" if closed_by else "no such session"
        self._take_out(session, "closed")
        await asyncio.shield(self._task(self._release(session)))
        return None

    def opened(self, session_id: str) -> Session | None:
        """Return a session if it is open; like any request, this puts its expiry off."""
        return self._find(session_id) if session_id in self._open else None

    def running(self) -> list[Session]:
        """Return the open sessions; looking at them does not put their expiry off."""
        return list(self._open.values())

    def closed_by(self, session_id: str) -> ClosedBy | None:
        """Tell what closed a session, if any did and it is remembered."""
        return self._closed.get(session_id)

    def refuse(self, session_id: str) -> None:
        """Remember an id as closed, whether or not there was a session of that id."""
        if self._closed.get(session_id) is None:
            self._closed.add(session_id, "closed")

    def shown(self, session_id: str) -> tuple[Session, Observation]:
        """Return a session with what its last seed or step showed.

        Raises:
            SessionError: unknown, expired or closed session.
        """
        session = self._find(session_id)
        assert session.shown
        return session, session.shown

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
        self, opening: Opening, session_id: str, owner: Owner | None
    ) -> tuple[Session, Observation]:
        try:
            session, observation = await open_session(
                self._backend, self._settings, opening, session_id
            )
        except Exception as error:
            logger.warning("no session for %s: %s", dict(opening.labels), error)
            raise
        session.owner = owner
        session.last_used = time.monotonic()  # opening it may have taken long
        self._open[session.session_id] = session
        logger.info("session %s is open", session)
        return session, observation

    def _discard_seeded(self, work: Seeding) -> None:
        if not work.cancelled() and work.exception() is None:
            self._task(self._end(work.result()[0], "closed"))

    async def _step(
        self, session: Session, batch: list[act.Action], words: Words | None
    ) -> StepOutcome:
        if words and session.keep.screenshots:
            words = dataclasses.replace(words, pictured=True)
        async with self._using(session):
            session.batch = batch
            results, session.shown = await session.driver.run(batch, words)
            session.steps += 1
            session.remember(session.shown)
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
        state = await read_final(
            session.lease.context,
            session.tabs,
            session.start_origin,
            session.initial,
            leave=leave,
            keep=session.keep if leave else KEEP_NOTHING,
        )
        return dataclasses.replace(state, screenshots=tuple(session.screenshots))

    def _finishing(self, session: Session, answer: str) -> asyncio.Task[Finished]:
        if session.finishing is None:
            session.finishing = self._task(self._finish(session, answer))
        return session.finishing

    async def _finish(self, session: Session, answer: str) -> Finished:
        async with self._using(session):
            await session.remember_the_end()
            state = await self._read_final(session, leave=True)
            # Closed meanwhile, pages may be gone before they saved, which is not noticed there.
            self._find(session.session_id)
            return Finished(state, answer)

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
        """Take a session out of service and give its browser back, now or later."""
        self._take_out(session, closed_by)
        await asyncio.shield(self._give_back(session))

    def _take_out(self, session: Session, closed_by: ClosedBy) -> None:
        """Take a session out of service; only the first call acts."""
        if self._open.pop(session.session_id, None) is None:
            return
        self._closed.add(session.session_id, closed_by)
        self._unreleased[session.session_id] = session
        logger.info("session %s was %s", session, closed_by)

    async def _release(self, session: Session) -> None:
        """Give a session's browser back; what goes wrong is raised, and can be tried again."""
        await session.release()
        if self._unreleased.get(session.session_id) is session:
            del self._unreleased[session.session_id]

    async def _give_back(self, session: Session) -> None:
        """Do as `_release`; if it goes wrong, the expiry of idle sessions tries again."""
        try:
            await self._release(session)
        except Exception:
            logger.exception("session %s: the browser could not be given back", session)

    async def _expire_idle(self) -> None:
        limit = self._settings.idle_timeout_s
        while True:
            await asyncio.sleep(min(limit / 4, 30))
            now = time.monotonic()
            for session in list(self._open.values()):
                if not session.in_flight and now - session.last_used >= limit:
                    logger.warning("session %s has been idle for too long", session)
                    await self._end(session, "expired")
            for session in list(self._unreleased.values()):
                await self._give_back(session)

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
