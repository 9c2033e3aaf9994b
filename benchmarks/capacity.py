"""What many sessions cost: CPU, memory and bytes."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import statistics
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

from playwright.async_api import async_playwright

from benchmarks.measure import (
    Figures,
    chromium_cpu_s,
    chromium_mb,
    cpu_s,
    figure,
    rate,
    ratio,
    spread,
)
from benchmarks.ours import HEIGHT, WIDTH, Ours, running
from benchmarks.raw_cdp import RawChromium
from resources_servers.browser_gym.browser.capture import ImageFormat, take_screenshot
from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)

FORMATS: tuple[ImageFormat, ...] = ("jpeg", "png", "webp")
SHOTS = 10
THROUGHPUT_S = 4
IDLE_S = 2
WINDOWS = 5
IDLE_BROWSERS: dict[str, dict[str, Any]] = {
    "idle32_real_clock_cpu_percent": {"clock": "real"},
    "idle32_cpu_percent": {"clock": "step"},
}
"""A task row's `browser` fields, for the sessions whose idle cost is measured, by figure."""
ROLLOUT_STEPS = 50
# What a model might do that fills in a form and looks around: some steps change nothing that shows.
_ROLLOUT: tuple[dict[str, Any], ...] = (
    {"type": "click", "x": 100, "y": 160},
    {"type": "type", "text": "word "},
    {"type": "screenshot"},
    {"type": "click", "x": 100, "y": 100},
    {"type": "wait", "ms": 1},
)


async def screenshots(ours: Ours, raw: RawChromium) -> Figures:
    """Screenshots per CPU second of everything that takes part, by format."""
    session, page = await ours.seed(), await raw.open(ours.url, WIDTH, HEIGHT)
    cdp = session.tabs.active.cdp
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(WINDOWS + 1):
        for image_format in FORMATS:
            before = cpu_s()
            for _ in range(SHOTS):
                await take_screenshot(cdp, image_format, 85)
            rates[image_format].append(SHOTS / (cpu_s() - before))
        before = cpu_s()
        for _ in range(SHOTS):
            await raw.screenshot(page)
        rates["raw"].append(SHOTS / (cpu_s() - before))
        if not number:
            rates.clear()  # the first round warms up
    await ours.end(session)
    figures = {}
    for image_format in FORMATS:
        figures |= figure(f"shots_per_cpu_s_{image_format}", rates[image_format])
    return figures | ratio("shots_jpeg_vs_cdp", rates["jpeg"], rates["raw"])


async def throughput(ours: Ours, raws: list[RawChromium]) -> Figures:
    """Sessions that step without a pause, against a raw loop over as many pages."""
    figures: Figures = {}
    for count, prefix in ((16, "throughput"), (32, "throughput32")):
        sessions = await asyncio.gather(*(ours.seed() for _ in range(count)))
        owners = list(itertools.islice(itertools.cycle(raws), count))
        pages = [await raw.open(ours.url, WIDTH, HEIGHT) for raw in owners]
        our_steps = [lambda s=s: ours.step(s, type="click", x=100, y=40) for s in sessions]
        raw_steps = [
            lambda r=r, p=p: r.click_and_look(p, 100, 40)
            for r, p in zip(owners, pages, strict=True)
        ]
        our_rates, raw_rates = [], []
        for _ in range(3):
            our_rates.append(await rate(our_steps, THROUGHPUT_S))
            raw_rates.append(await rate(raw_steps, THROUGHPUT_S))
        await ours.end(*sessions)
        await asyncio.gather(*(r.close(p) for r, p in zip(owners, pages, strict=True)))
        figures |= figure(f"steps_per_s_{count}", our_rates)
        figures |= ratio(f"{prefix}_vs_cdp", our_rates, raw_rates)
    return figures


async def memory(url: str) -> Figures:
    """Memory per session of 32 and of 64 in a new pool, against a headless shell for each.

    The pool's processes count in full. The spread is that of what each eight sessions added.
    """
    empty = last = chromium_mb()
    added, sessions, per_session = [], [], {}
    async with running(url, warm_contexts=0) as ours:
        for _ in range(8):
            sessions += await asyncio.gather(*(ours.seed() for _ in range(8)))
            now = chromium_mb()
            added.append((now - last) / 8)
            last = now
            per_session[len(sessions)] = (now - empty) / len(sessions)
    shells = await _shells(url)
    return {
        "memory32_mb_per_session": per_session[32],
        "memory32_mb_per_session_spread": spread(added[:4]),
        "memory64_mb_per_session": per_session[64],
        "memory64_mb_per_session_spread": spread(added),
        "memory64_ratio": per_session[64] / statistics.mean(shells),
        "memory64_ratio_spread": spread([a / b for a, b in zip(added, shells, strict=True)]),
    }


async def _shells(url: str) -> list[float]:
    """Memory of each of eight headless shells with the page, in MB."""
    each, last = [], chromium_mb()
    async with AsyncExitStack() as stack:
        playwright = await stack.enter_async_context(async_playwright())
        for _ in range(8):
            browser = await playwright.chromium.launch(
                executable_path=str(find_chromium().executable),
                args=launch_args(running_as_root()),
            )
            stack.push_async_callback(browser.close)
            page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            await page.goto(url)
            now = chromium_mb()
            each.append(now - last)
            last = now
    return each


async def idle(ours: Ours) -> Figures:
    """What 32 idle sessions on an animated page cost, in percent of one core."""
    figures: Figures = {}
    for name, browser in IDLE_BROWSERS.items():
        sessions = await asyncio.gather(*(ours.seed("?animated", browser) for _ in range(32)))
        percents = []
        for _ in range(WINDOWS):
            started, before = time.monotonic(), chromium_cpu_s()
            await asyncio.sleep(IDLE_S)
            percents.append((chromium_cpu_s() - before) / (time.monotonic() - started) * 100)
        await ours.end(*sessions)
        figures |= figure(name, percents)
    return figures


async def rollout_bytes(ours: Ours) -> Figures:
    """The screenshots of a rollout as base64: all of them, and each distinct one once."""
    sent, stored = [], []
    for _ in range(3):
        session = await ours.seed()
        images = []
        for action in itertools.islice(itertools.cycle(_ROLLOUT), ROLLOUT_STEPS):
            seen = await ours.step(session, **action)
            assert seen.image
            images.append(seen.image.data)
        await ours.end(session)
        sent.append(float(sum(map(len, images))))
        distinct = {hashlib.sha256(data.encode()).digest(): len(data) for data in images}
        stored.append(float(sum(distinct.values())))
    return {
        **figure("rollout50_bytes", sent),
        **figure("rollout50_bytes_stored_once", stored),
        **ratio("rollout50_stored_share", stored, sent),
    }
