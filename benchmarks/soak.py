"""Many sessions, some cancelled, while Chromiums are killed: is anything left, is anything wrong?

Each session has a text of its own in localStorage, adds to it by a click and checks what it finds.
What is left is counted twice: when every session has ended, and when the server has closed.

    python -m benchmarks.soak --whole 30 --cancelled 10 --kills 3 --at-once 4
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.leftovers import chromiums, left, own_temp_folder, renderers, started
from benchmarks.site import create_site
from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.browser.backend import BrowserError
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.policy import origin_of
from resources_servers.browser_gym.browser.pool import LocalLease, LocalPool
from resources_servers.browser_gym.session import Opening, Session, SessionError, SessionSettings
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.task_row import BrowserStart
from tests.simulators.http_server import serve

RECYCLE_AFTER = 40
MAX_CANCEL_DELAY_S = {"seed": 1.0, "step": 0.2}
_CLICK = parse_action({"type": "click", "x": 100, "y": 40})


@dataclass
class SoakResult:
    """What a soak found.

    Attributes:
        leaked: how many of each kind are too many (or too few) afterwards; only what is not 0.
        wrong: one line for each session that came out wrong.
        outcomes: how many sessions were played to the end, `lost` to a kill, or `cancelled` and
            when; and the kills.
    """

    leaked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def report(self) -> list[str]:
        """Return what was found, a line each."""
        lines = ["soak: " + ", ".join(f"{n} {kind}" for kind, n in self.outcomes.most_common())]
        return [*lines, *(f"left over: {n} {kind}" for kind, n in self.leaked.items()), *self.wrong]


async def soak(
    url: str, *, whole: int, cancelled: int, kills: int, at_once: int = 16, seed: int = 1
) -> SoakResult:
    """Run sessions on `url` (benchmarks/pages/soak.html), and count what is left of them.

    Args:
        url: http address of the page.
        whole: sessions that are let end.
        cancelled: sessions whose caller leaves at a random moment of its seed or its step.
        kills: how often a Chromium is killed meanwhile.
        at_once: sessions at once; half as many more wait.
        seed: of the random choices.
    """
    with own_temp_folder("soak-") as folder:
        before = _own_counts(folder)
        tasks = len(asyncio.all_tasks())
        pool = LocalPool(
            find_chromium(),
            processes=2,
            max_sessions=at_once,
            queue_limit=at_once,
            queue_timeout_s=120,
            warm_contexts=4,
            recycle_after_sessions=RECYCLE_AFTER,
        )
        sessions = Sessions(pool, SessionSettings())
        load = _Load(sessions, url, random.Random(seed))
        try:
            await sessions.start()
            callers = at_once + at_once // 2
            await load.run(whole=whole, cancelled=cancelled, kills=kills, callers=callers)
            load.result.leaked += await left(lambda: _idle_counts(sessions, pool), Counter())
        finally:
            await sessions.close()
        load.result.leaked += await left(lambda: _own_counts(folder), before)
        if more := len(asyncio.all_tasks()) - tasks:
            load.result.leaked["tasks"] += abs(more)
    return load.result


class _Load:
    """The sessions of one soak."""

    def __init__(self, sessions: Sessions, url: str, rng: random.Random) -> None:
        self.result = SoakResult()
        self._sessions = sessions
        self._url = url
        self._rng = rng
        self._ended = 0
        self._killed: set[int] = set()

    async def run(self, *, whole: int, cancelled: int, kills: int, callers: int) -> None:
        """Run all sessions, with the kills spread over them."""
        fates = (
            [None] * whole + ["seed"] * (cancelled // 2) + ["step"] * (cancelled - cancelled // 2)
        )
        self._rng.shuffle(fates)
        numbered = list(enumerate(fates))

        async def caller() -> None:
            while numbered:
                await self._session(*numbered.pop())
                self._ended += 1

        killer = asyncio.create_task(self._kill(kills, len(fates)))
        try:
            await asyncio.gather(*(caller() for _ in range(callers)))
        finally:
            killer.cancel()

    async def _kill(self, kills: int, of: int) -> None:
        for number in range(kills):
            while self._ended < (number + 1) * of / (kills + 1):
                await asyncio.sleep(0.02)
            running = await asyncio.to_thread(chromiums)
            if running:
                chosen = self._rng.choice(running)
                self._killed.add(chosen.pid)
                self.result.outcomes["kills"] += 1
                chosen.kill()

    async def _session(self, number: int, cancelled_in: str | None) -> None:
        killed = len(self._killed)
        try:
            outcome = await self._play(number, cancelled_in)
        except (BrowserError, SessionError) as error:
            if len(self._killed) == killed:
                self.result.wrong.append(f"session {number}: {error!r}, and nothing was killed")
            outcome = "lost"
        except Exception as error:  # what no caller of a session should ever see
            self.result.wrong.append(f"session {number}: {error!r}")
            outcome = "failed"
        self.result.outcomes[outcome] += 1

    async def _play(self, number: int, cancelled_in: str | None) -> str:
        """Run one session, every other one on the step clock, and return its outcome."""
        text, origin = str(number), origin_of(self._url)
        clock = "step" if number % 2 else "real"
        start = BrowserStart(local_storage={origin: {"mine": text}}, clock=clock)
        opening = Opening(self._url, 800, 600, start)
        seeding = asyncio.create_task(self._sessions.seed(opening))
        if cancelled_in == "seed" and await self._cancel(seeding, "seed"):
            return "cancelled seed"
        session, _ = await seeding
        stepping = asyncio.create_task(self._sessions.step(session.session_id, [_CLICK]))
        try:
            if cancelled_in == "step" and await self._cancel(stepping, "step"):
                return "cancelled step"
            results, _ = await stepping
            self._check(text, results[0].error, None)
            state = (await self._sessions.conclude(session.session_id)).state
            self._check(text, state.initial.get(origin), {"mine": text})
            self._check(text, state.final.get(origin), {"mine": f"{text}!"})
        except (BrowserError, SessionError) as error:
            if _pid(session) not in self._killed:
                self.result.wrong.append(f"session {text}: {error!r}, on a living Chromium")
            raise
        finally:
            await self._sessions.end(session.session_id)
        return "played"

    async def _cancel(self, task: asyncio.Task[object], phase: str) -> bool:
        """Cancel a call after a random while; tell whether it was still running."""
        await asyncio.wait([task], timeout=self._rng.uniform(0, MAX_CANCEL_DELAY_S[phase]))
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    def _check(self, text: str, found: object, expected: object) -> None:
        if found != expected:
            self.result.wrong.append(f"session {text}: found {found!r}, expected {expected!r}")


def _pid(session: Session) -> int | None:
    assert isinstance(session.lease, LocalLease)
    main = session.lease.process.main
    return main and main.pid


def _idle_counts(sessions: Sessions, pool: LocalPool) -> Counter[str]:
    """What a server without sessions holds beside its browsers and warm contexts: nothing."""
    browsers = [p.launch.result() for p in pool._processes if p.alive and p.launch]
    warm = pool._warm.count
    return Counter(
        {
            "open sessions": len(sessions._open),
            "session tasks": len(sessions._tasks),
            "leases": len(pool._leases),
            "permits": pool._slots.taken,
            "sessions of processes": sum(p.sessions for p in pool._processes),
            "retired processes": len(pool._retired),
            "contexts": sum(len(browser.contexts) for browser in browsers) - warm,
            "renderers": len(renderers()) - warm,
        }
    )


def _own_counts(folder: Path) -> Counter[str]:
    """What this process holds of the operating system and of the event loop."""
    me = psutil.Process()
    return Counter(
        {
            "processes": sum(1 for _ in started()),
            "file descriptors": me.num_fds(),
            "temp folders": sum(1 for _ in folder.iterdir()),
        }
    )


def main() -> None:
    """Run a soak, print what it found and exit with 1 if that is anything."""
    parser = argparse.ArgumentParser(description="Look for leaks and wrong results under load.")
    parser.add_argument("--whole", type=int, default=300, help="sessions that are let end")
    parser.add_argument("--cancelled", type=int, default=100, help="sessions that are cancelled")
    parser.add_argument("--kills", type=int, default=20, help="Chromiums that are killed")
    parser.add_argument("--at-once", type=int, default=16, help="sessions at once")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    parser.add_argument("--figures", type=Path, help="where to write how much was left or wrong")
    arguments = vars(parser.parse_args())
    figures: Path | None = arguments.pop("figures")
    with serve(create_site()) as root:
        found = asyncio.run(soak(f"{root}/soak.html", **arguments))
    print("\n".join(found.report()))
    if figures:
        counts = {"leaked": found.leaked.total(), "wrong": len(found.wrong)}
        figures.write_text(json.dumps(counts))
    sys.exit(bool(found.leaked or found.wrong))


if __name__ == "__main__":
    main()
