"""How long a session's start and its steps take."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.measure import Figures, Undo, figure, ratio, take_turns
from benchmarks.ours import HEIGHT, SETTINGS, WIDTH, Ours, running
from benchmarks.peer import PeerBackend
from benchmarks.raw_cdp import RawChromium
from resources_servers.browser_gym.browser.observation import Observation

TEXT = "A text of sixty characters, as long as a form field's value."
FETCH_MS = 150
FETCHES = 100
WARM_CONTEXTS = 16  # the server's default


async def seeds(url: str, rounds: int) -> Figures:
    """Open a session and see its first page: alone and sixteen at once, with warm contexts or none.

    Against the peer, which opens its page and takes no screenshot.
    """
    figures: Figures = {}
    async with (
        running(url, warm_contexts=WARM_CONTEXTS) as warm,
        running(url, warm_contexts=0) as cold,
    ):
        await warm.end(await warm.seed(), await warm.seed())  # the first one warms nothing
        for at_once, times in ((1, rounds), (16, max(3, rounds // 5))):
            figures |= await _seeds(warm, cold, at_once, times)
    return figures


async def _seeds(warm: Ours, cold: Ours, at_once: int, rounds: int) -> Figures:
    async def ours() -> Undo:
        sessions = await asyncio.gather(*(warm.seed() for _ in range(at_once)))

        async def undo() -> None:
            await warm.end(*sessions)
            await warm.warmed(at_once)

        return undo

    async def without_warm() -> Undo:
        sessions = await asyncio.gather(*(cold.seed() for _ in range(at_once)))
        return lambda: cold.end(*sessions)

    async def peer() -> Undo:
        backends = [PeerBackend() for _ in range(at_once)]
        await asyncio.gather(*(backend.open(warm.url) for backend in backends))

        async def undo() -> None:
            await asyncio.gather(*(backend.close() for backend in backends))

        return undo

    ways = {"warm": ours, "cold": without_warm, "peer": peer}
    times = await take_turns(ways, rounds)
    name = f"seed_{at_once}"
    return {
        **figure(f"{name}_ms", times["warm"]),
        **figure(f"{name}_cold_ms", times["cold"]),
        **figure(f"{name}_peer_ms", times["peer"]),
        **ratio(f"{name}_speedup", times["peer"], times["warm"]),
        **ratio(f"{name}_cold_speedup", times["peer"], times["cold"]),
    }


async def steps(ours: Ours, raw: RawChromium, rounds: int) -> Figures:
    """Click a static page, one that fetches, one that navigates, one that never rests; type."""
    return {
        **await _static(ours, raw, rounds * 3),
        **await _fetching(ours),
        **await _navigating(ours, rounds),
        **await _restless(ours, rounds),
        **await _typing(ours, rounds),
    }


async def _static(ours: Ours, raw: RawChromium, rounds: int) -> Figures:
    session, page = await ours.seed(), await raw.open(ours.url, WIDTH, HEIGHT)
    times = await take_turns(
        {
            "ours": _way(lambda: ours.step(session, type="click", x=100, y=40)),
            "raw": _way(lambda: raw.click_and_look(page, 100, 40)),
        },
        rounds,
    )
    await ours.end(session)
    return {
        **figure("step_static_ms", times["ours"]),
        **ratio("step_static_vs_cdp", times["ours"], times["raw"]),
    }


async def _fetching(ours: Ours) -> Figures:
    session = await ours.seed()
    extra, right = [], []
    for number in range(1, FETCHES + 1):
        ms, seen = await _timed(lambda: ours.step(session, type="click", x=100, y=100))
        extra.append(ms - FETCH_MS)
        right.append(float(seen.title == str(number)))
    await ours.end(session)
    return {**_share("fetch_right_share", right), **figure("fetch_extra_ms", extra)}


async def _navigating(ours: Ours, rounds: int) -> Figures:
    session = await ours.seed()
    times, right = [], []
    for number in range(1, rounds + 1):
        ms, seen = await _timed(lambda: ours.step(session, type="click", x=300, y=100))
        times.append(ms)
        right.append(float(seen.title == str(number)))
    await ours.end(session)
    return {**figure("step_navigate_ms", times), **_share("navigate_right_share", right)}


async def _restless(ours: Ours, rounds: int) -> Figures:
    """Click a page with endless animation that also polls, and see how long its quiet takes."""
    session = await ours.seed("?animated&polling")
    times, shares = [], []
    for _ in range(rounds):
        ms, seen = await _timed(lambda: ours.step(session, type="click", x=100, y=40))
        times.append(ms)
        shares.append(seen.timings_ms["settle"] / SETTINGS.settle_max_ms)
    await ours.end(session)
    return {
        **figure("step_animated_ms", times),
        **figure("animated_settle_share", shares),
        "animated_settle_share_max": max(shares),
    }


async def _typing(ours: Ours, rounds: int) -> Figures:
    session = await ours.seed()
    await ours.step(session, type="click", x=100, y=160)
    times = []
    for _ in range(rounds):
        seen = await ours.step(session, type="type", text=TEXT)
        times.append(seen.timings_ms["act"])
    await ours.end(session)
    return figure("typing60_ms", times)


async def _timed(work: Callable[[], Awaitable[Observation]]) -> tuple[float, Observation]:
    started = time.perf_counter()
    seen = await work()
    return (time.perf_counter() - started) * 1000, seen


def _way(work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    """Return a way that leaves nothing to undo."""

    async def way() -> None:
        await work()

    return way


def _share(name: str, right: list[float]) -> Figures:
    return {name: statistics.mean(right), f"{name}_spread": statistics.pstdev(right)}
