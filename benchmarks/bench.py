"""`make bench`: what sessions and steps cost, as ratios against baselines in the same run.

Baselines: NeMo Gym's own `interactive_browser` backend (a Chromium per rollout) and a raw CDP loop.
Ways that are compared take turns, so that a busy moment hits all of them; a figure is the median
over the rounds. Prints a table and writes `results/bench.json`: one flat object with a figure, its
spread (`…_spread`: half the distance between the quartiles) and the versions used.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import async_playwright
from resources_servers.interactive_browser.browser.local_playwright import LocalPlaywrightBackend
from rich.console import Console
from rich.table import Table
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from benchmarks.raw_cdp import RawChromium
from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.sessions import Session, Sessions, SessionSettings
from tests.simulators.http_server import serve
from tests.site import slow

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1280, 720
TEXT = "A text of sixty characters, as long as a form field's value."
CLICK = parse_action({"type": "click", "x": 100, "y": 40})
FETCH = parse_action({"type": "click", "x": 100, "y": 100})
FETCH_MS = 150
THROUGHPUT_S = 10
IDLE_S = 5

Figures = dict[str, float]
Way = Callable[[], Awaitable[Any]]


async def take_turns(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each way over interleaved rounds; the first round warms up."""
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            await way()
            if number:
                times[name].append((time.perf_counter() - started) * 1000)
    return times


def spread(values: list[float]) -> float:
    """Return half the distance between the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2


def ratio(slow: list[float], fast: list[float]) -> tuple[float, float]:
    """Return how much longer one way takes than another, and the spread of that over the rounds."""
    return (
        statistics.median(slow) / statistics.median(fast),
        spread([a / b for a, b in zip(slow, fast, strict=True)]),
    )


class PeerBackend(LocalPlaywrightBackend):
    """NeMo Gym's backend with the Chromium we found; it looks only for Playwright's download."""

    async def _connect(self, playwright: Any) -> Any:
        browser = await playwright.chromium.launch(
            executable_path=str(find_chromium().executable), args=launch_args(running_as_root())
        )
        return browser, await browser.new_context(), True


class Bench:
    """One run of everything."""

    def __init__(self, sessions: Sessions, raws: list[RawChromium], url: str, rounds: int) -> None:
        self._sessions = sessions
        self._raws = raws
        self._url = url
        self._rounds = rounds

    async def seeds(self) -> Figures:
        """Open a session and see its first page: alone, and sixteen at once."""
        figures: Figures = {}
        for at_once, rounds in ((1, self._rounds), (16, max(2, self._rounds // 5))):

            async def ours(count: int = at_once) -> None:
                await asyncio.gather(*(self._seed_and_end() for _ in range(count)))

            async def peer(count: int = at_once) -> None:
                await asyncio.gather(*(self._peer() for _ in range(count)))

            times = await take_turns({"ours": ours, "peer": peer}, rounds)
            name = f"seed_{at_once}"
            figures[f"{name}_ms"] = statistics.median(times["ours"])
            figures[f"{name}_speedup"], figures[f"{name}_speedup_spread"] = ratio(
                times["peer"], times["ours"]
            )
        return figures

    async def steps(self) -> Figures:
        """Click a static page, click what fetches, and type."""
        session = await self._seed()
        raw = self._raws[0]
        page = await raw.open(self._url, WIDTH, HEIGHT)
        times = await take_turns(
            {
                "ours": lambda: self._step(session, CLICK),
                "raw": lambda: raw.click_and_look(page, 100, 40),
            },
            self._rounds * 3,
        )
        static, static_spread = ratio(times["ours"], times["raw"])
        fetches, right = [], 0
        for number in range(1, 101):
            started = time.perf_counter()
            title = await self._step(session, FETCH)
            fetches.append((time.perf_counter() - started) * 1000)
            right += title == str(number)
        await self._step(session, parse_action({"type": "click", "x": 100, "y": 160}))
        typing = []
        for _ in range(self._rounds):
            _, seen = await self._sessions.step(
                session.session_id, [parse_action({"type": "type", "text": TEXT})]
            )
            typing.append(seen.timings_ms["act"])
        await self._sessions.end(session.session_id)
        return {
            "step_static_ms": statistics.median(times["ours"]),
            "step_static_vs_cdp": static,
            "step_static_vs_cdp_spread": static_spread,
            "fetch_right_share": right / 100,
            "fetch_extra_ms": statistics.median(fetches) - FETCH_MS,
            "fetch_extra_ms_spread": spread(fetches),
            "typing60_ms": statistics.median(typing),
            "typing60_ms_spread": spread(typing),
        }

    async def throughput(self) -> Figures:
        """Sixteen sessions that step without a pause, against a raw loop over sixteen pages."""
        sessions = await asyncio.gather(*(self._seed() for _ in range(16)))
        pages = [
            (raw, await raw.open(self._url, WIDTH, HEIGHT)) for raw in self._raws for _ in range(8)
        ]
        ours = await _rate([lambda s=s: self._step(s, CLICK) for s in sessions])
        bare = await _rate([lambda r=r, p=p: r.click_and_look(p, 100, 40) for r, p in pages])
        await asyncio.gather(*(self._sessions.end(s.session_id) for s in sessions))
        return {"steps_per_s_16": ours, "throughput_vs_cdp": ours / bare}

    async def memory(self) -> Figures:
        """Memory of 64 sessions in the pool, against a headless shell for each."""
        before = _chromium_mb()
        sessions = await asyncio.gather(*(self._seed() for _ in range(64)))
        ours = (_chromium_mb() - before) / 64
        idle = await self._idle(sessions[:32])
        await asyncio.gather(*(self._sessions.end(s.session_id) for s in sessions))
        before = _chromium_mb()
        async with AsyncExitStack() as stack:
            playwright = await stack.enter_async_context(async_playwright())
            for _ in range(8):
                browser = await playwright.chromium.launch(
                    executable_path=str(find_chromium().executable),
                    args=launch_args(running_as_root()),
                )
                stack.push_async_callback(browser.close)
                page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                await page.goto(self._url)
            each = (_chromium_mb() - before) / 8
        return {"memory64_mb_per_session": ours, "memory64_ratio": ours / each, **idle}

    async def _idle(self, sessions: list[Session]) -> Figures:
        """What idle sessions on an animated page cost, in percent of one core."""
        go = parse_action({"type": "navigate", "url": f"{self._url}?animated"})
        for session in sessions:
            await self._step(session, go)
        started, before = time.monotonic(), _chromium_cpu_s()
        await asyncio.sleep(IDLE_S)
        used = (_chromium_cpu_s() - before) / (time.monotonic() - started)
        return {"idle32_cpu_percent": used * 100}

    async def _seed(self) -> Session:
        session, _ = await self._sessions.seed(self._url, WIDTH, HEIGHT)
        return session

    async def _seed_and_end(self) -> None:
        await self._sessions.end((await self._seed()).session_id)

    async def _step(self, session: Session, action: Any) -> str:
        _, observation = await self._sessions.step(session.session_id, [action])
        return observation.title

    async def _peer(self) -> None:
        backend = PeerBackend()
        await backend.open(self._url)
        await backend.close()


async def _rate(steps: list[Callable[[], Awaitable[Any]]]) -> float:
    """Return steps per second of several loops over `THROUGHPUT_S` seconds."""
    done = 0
    end = time.monotonic() + THROUGHPUT_S

    async def loop(step: Callable[[], Awaitable[Any]]) -> None:
        nonlocal done
        while time.monotonic() < end:
            await step()
            done += 1

    started = time.monotonic()
    await asyncio.gather(*(loop(step) for step in steps))
    return done / (time.monotonic() - started)


def _chromium_processes() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.is_running() and "chrom" in process.name()
    ]


def _chromium_mb() -> float:
    """Return the proportional memory of our Chromium processes, shared pages divided up."""
    total = 0
    for process in _chromium_processes():
        try:
            memory = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(memory, "pss", memory.uss)
    return total / 2**20


def _chromium_cpu_s() -> float:
    total = 0.0
    for process in _chromium_processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def _site() -> Starlette:
    pages = StaticFiles(directory=Path(__file__).parent / "pages")
    return Starlette(routes=[Route("/slow/{ms:int}", slow), Mount("/", pages)])


async def run(rounds: int) -> Figures:
    """Measure everything."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(serve(_site())) + "/bench.html"
        pool = LocalPool(
            find_chromium(), processes=2, max_sessions=64, queue_limit=64, queue_timeout_s=60
        )
        sessions = Sessions(pool, SessionSettings())
        stack.push_async_callback(sessions.close)
        await sessions.start()
        # As many processes as the pool has.
        raws = [await stack.enter_async_context(RawChromium()) for _ in range(2)]
        bench = Bench(sessions, raws, url, rounds)
        figures: Figures = {}
        for part in (bench.seeds, bench.steps, bench.throughput, bench.memory):
            figures |= await part()
        return figures


def main() -> None:
    """Measure, print a table and write `results/bench.json`."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure sessions and steps.")
    parser.add_argument("--rounds", type=int, default=15, help="of what is repeated (default 15)")
    arguments = parser.parse_args()
    figures = {name: round(value, 3) for name, value in asyncio.run(run(arguments.rounds)).items()}
    table = Table("figure", "value", "spread")
    for name, value in figures.items():
        if not name.endswith("_spread"):
            table.add_row(name, f"{value:g}", f"{figures.get(f'{name}_spread', ''):}")
    Console().print(table)
    versions = {
        "chromium": find_chromium().version,
        **{name: importlib.metadata.version(name) for name in ("playwright", "nemo-gym")},
    }
    output = ROOT / "results" / "bench.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({**figures, "versions": versions}, indent=2) + "\n")


if __name__ == "__main__":
    main()
