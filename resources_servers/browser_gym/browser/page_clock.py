"""How time passes for a session's pages: with the wall clock, or only during steps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack
from datetime import datetime
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from playwright.async_api import BrowserContext, Error, Frame

STEP_MS = 1_000
"""How far a step moves the time of pages at least, beside what its actions ask for."""
BETWEEN_ACTIONS_MS = 100
"""How far it moves after each action of a batch but the last."""
LONGEST_STEP_MS = 3_000
"""How far a step that keeps starting short timers moves it at most."""

_SCRIPT = Path(__file__).with_name("step_clock.js").read_text(encoding="utf-8")
_START_SCRIPT = "window[Symbol.for('browser-gym.clock')]?.start(%f)"
_RUN_SCRIPT = """
([time, budget, afterFrames]) =>
  window[Symbol.for("browser-gym.clock")]?.run(time, budget, afterFrames)
"""
# A page that draws heavily loses frames rather than time.
_BUDGET_MS = 500
_TELL_TIMEOUT_S = 2
# A document that has not drawn by then hangs, rather than being slow.
_DRAW_TIMEOUT_S = 3
_DRAW_MS = 17  # a frame of 1/60 s, rounded up


class Moved(Enum):
    """What became of an attempt to move page time."""

    NOT = auto()
    ON = auto()
    TO_A_REQUEST = auto()


class PageClock(Protocol):
    """The time of a session's pages.

    Attributes:
        stands_still: Whether it passes only when told to.
    """

    stands_still: bool

    def begin(self, at_least_ms: float) -> None:
        """Begin to wait for quiet; page time moves by `at_least_ms` until then."""
        ...

    async def move(
        self, left_s: float, *, timers_due: bool = False, answered: bool = False
    ) -> Moved:
        """Let page time go on, but no further than to where a page sends a request.

        Args:
            left_s: Seconds to wait for a document that does not answer.
            timers_due: Whether the page still waits for a timer that a step waits for.
            answered: Whether something just came from the network, which may start timers, as a
                script loader's.
        """
        ...

    async def draw(self) -> None:
        """Let the pages draw, in the middle of an action."""
        ...

    async def pause(self) -> None:
        """Hold page time until the next step."""
        ...


class RealClock:
    """Page time is wall time."""

    stands_still = False

    def begin(self, at_least_ms: float) -> None:
        """See `PageClock`; nothing to be done."""

    async def move(
        self, left_s: float, *, timers_due: bool = False, answered: bool = False
    ) -> Moved:
        """See `PageClock`; time moves by itself."""
        return Moved.NOT

    async def draw(self) -> None:
        """See `PageClock`; pages draw by themselves."""

    async def pause(self) -> None:
        """See `PageClock`; time goes on."""


class StepClock:
    """Page time moves only when it is told to, so that what happens does not depend on who waits.

    It is the same for every document of the context, in every tab. What `step_clock.js` lists as
    not kept still goes by the wall clock.
    """

    stands_still = True

    def __init__(self, context: BrowserContext, start: datetime | None) -> None:
        """Make a clock for `context` that starts at `start`, by default now; see `install`."""
        self._context = context
        self._now = (start.timestamp() if start else time.time()) * 1000
        self._until = self._end = self._latest = self._now
        self._begun = False
        self._behind = False
        self._running: dict[Frame, asyncio.Task[tuple[float, bool] | None]] = {}
        self._told: AsyncExitStack | None = None
        self._told_time = 0.0

    async def install(self) -> None:
        """Put the clock into every document to come; call it before other init scripts.

        Raises:
            playwright.async_api.Error: the browser is gone.
        """
        await self._context.add_init_script(_SCRIPT)
        await self.pause()

    def begin(self, at_least_ms: float) -> None:
        """See `PageClock`."""
        self._until = self._now
        self._end = self._now + at_least_ms
        self._latest = self._now + max(at_least_ms, LONGEST_STEP_MS)
        self._begun = True

    async def move(
        self, left_s: float, *, timers_due: bool = False, answered: bool = False
    ) -> Moved:
        """See `PageClock`."""
        if self._until <= self._now and not self._behind:
            # As long as things happen, little by little, and the rest at once.
            if self._begun or answered or timers_due:
                self._until = min(self._now + BETWEEN_ACTIONS_MS, self._latest)
            else:
                self._until = self._end
            if self._until <= self._now:
                return Moved.NOT
        first, self._begun = self._begun, False
        requested = await self._run(self._until, left_s, after_frames=first or answered)
        return Moved.TO_A_REQUEST if requested else Moved.ON

    async def draw(self) -> None:
        """See `PageClock`."""
        await self._run(self._now + _DRAW_MS, _DRAW_TIMEOUT_S)

    async def pause(self) -> None:
        """See `PageClock`; a document that opens later starts at this time."""
        if self._told_time == self._now:
            return
        with contextlib.suppress(TimeoutError):  # a page hangs: the next step tells it again
            await asyncio.wait_for(self._tell(self._now), _TELL_TIMEOUT_S)

    async def _tell(self, now: float) -> None:
        told = AsyncExitStack()
        script = await self._context.add_init_script(_START_SCRIPT % now)
        await told.enter_async_context(script)
        before, self._told, self._told_time = self._told, told, now
        if before:
            await before.aclose()

    async def _run(self, until: float, left_s: float, *, after_frames: bool = False) -> bool:
        """Move every document to `until`, or to where the first one sent a request; tell if so.

        One that has not answered in `left_s` is left behind, and not waited for again until it has.
        """
        asked: set[asyncio.Task[tuple[float, bool] | None]] = set()
        for frame in [frame for page in self._context.pages for frame in page.frames]:
            if frame not in self._running:
                run = asyncio.create_task(_run_frame(frame, until, after_frames))
                self._running[frame] = run
                run.add_done_callback(lambda _, frame=frame: self._running.pop(frame))
                asked.add(run)
        answered, _ = await asyncio.wait(asked, timeout=left_s) if asked else (asked, asked)
        told = [answer for run in answered if (answer := run.result()) is not None]
        first = min([until, *(at for at, _ in told)])
        # A document that opened in this step started at the time of the last one.
        self._behind = first < until
        self._now = max(self._now, first)
        return any(requested for _, requested in told)


async def _run_frame(frame: Frame, until: float, after_frames: bool) -> tuple[float, bool] | None:
    try:
        answer = await frame.evaluate(_RUN_SCRIPT, [until, _BUDGET_MS, after_frames])
    except Error:
        return None  # gone, or on its way to another document
    match answer:
        case [int(at) | float(at), bool(requested)]:
            return at, requested
    return None  # without a clock, or of a page that broke what answers are made with
