"""How the bench measures: interleaved times, medians with their spread, CPU and memory."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psutil

Figures = dict[str, float]
Undo = Callable[[], Awaitable[Any]]
Way = Callable[[], Awaitable[Undo | None]]
"""One way to do what is timed; it may return how to undo it, which is not timed."""


def figure(name: str, values: list[float]) -> Figures:
    """Return the median of some values, and their spread."""
    return {name: statistics.median(values), f"{name}_spread": spread(values)}


def ratio(name: str, above: list[float], below: list[float]) -> Figures:
    """Return the ratio of two medians, and the spread of the ratio over the rounds."""
    return {
        name: statistics.median(above) / statistics.median(below),
        f"{name}_spread": spread([a / b for a, b in zip(above, below, strict=True)]),
    }


def spread(values: list[float]) -> float:
    """Return half the distance between the quartiles."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


async def take_turns(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each way over interleaved rounds; the first round warms up.

    Ways that are compared take turns, so that a busy moment of the machine hits all of them.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            undo = await way()
            if number:
                times[name].append((time.perf_counter() - started) * 1000)
            if undo:
                await undo()
    return times


async def rate(steps: Sequence[Callable[[], Awaitable[Any]]], duration_s: float) -> float:
    """Return steps per second of several loops side by side."""
    done = 0
    end = time.monotonic() + duration_s

    async def loop(step: Callable[[], Awaitable[Any]]) -> None:
        nonlocal done
        while time.monotonic() < end:
            await step()
            done += 1

    started = time.monotonic()
    await asyncio.gather(*(loop(step) for step in steps))
    return done / (time.monotonic() - started)


def chromium_mb() -> float:
    """Return the proportional memory of our Chromium processes, shared pages divided up."""
    total = 0
    for process in _chromium_processes():
        try:
            memory = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(memory, "pss", memory.uss)
    return total / 2**20


def client_mb() -> float:
    """Return the memory of this process and of Playwright's driver that no other process shares."""
    me = psutil.Process()
    drivers = [p for p in me.children(recursive=True) if "node" in _name(p)]
    return sum(p.memory_full_info().uss for p in [me, *drivers]) / 2**20


def chromium_cpu_s() -> float:
    """Return the CPU seconds that our living Chromium processes have used."""
    return sum(_cpu_s(process) for process in _chromium_processes())


def cpu_s() -> float:
    """Return the CPU seconds that this process and all that it started have used."""
    me = psutil.Process()
    return sum(_cpu_s(process) for process in [me, *me.children(recursive=True)])


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0
    return times.user + times.system


def _chromium_processes() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [p for p in children if "chrom" in _name(p) or "headless" in _name(p)]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""  # ended meanwhile
