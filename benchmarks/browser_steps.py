"""What a session and a step cost, as ratios against bare baselines in the same run.

    .venv/bin/python benchmarks/browser_steps.py

Each round measures every way once, in turn, so that a busy moment hits all of them; the figure is
the median over the rounds. Written to `results/bench.json` and printed.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright
from rich.console import Console
from rich.table import Table

from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.demo_gym.server import running as demo_gym
from resources_servers.browser_gym.sessions import Sessions, SessionSettings

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1280, 720
TEXT = "A text of sixty characters, as long as a form field's value."

Way = Callable[[], Awaitable[Any]]


async def measure(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each way over interleaved rounds."""
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            await way()
            if number:  # the first round warms up
                times[name].append((time.perf_counter() - started) * 1000)
    return {name: round(statistics.median(values), 1) for name, values in times.items()}


async def session_ways(sessions: Sessions, browser: Browser, url: str) -> dict[str, Way]:
    """Ways to open a session on a page and close it again."""
    chromium = find_chromium()
    viewport: Any = {"width": WIDTH, "height": HEIGHT}

    async def own_browser() -> None:
        async with async_playwright() as playwright:
            own = await playwright.chromium.launch(
                executable_path=str(chromium.executable), args=launch_args(running_as_root())
            )
            page = await own.new_page(viewport=viewport)
            await page.goto(url)
            await own.close()

    async def own_context() -> None:
        context = await browser.new_context(viewport=viewport)
        page = await context.new_page()
        await page.goto(url)
        await context.close()

    async def session() -> None:
        opened, _ = await sessions.seed(url, WIDTH, HEIGHT)
        await sessions.end(opened.session_id)

    return {
        "session: driver, Chromium and page each time": own_browser,
        "session: context and page in a running Chromium": own_context,
        "session: ours (settled, screenshot, storage read)": session,
    }


async def step_ways(sessions: Sessions, browser: Browser, url: str) -> dict[str, Way]:
    """Ways to click and look, and to type and look, on a static page."""
    page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    await page.goto(url)
    cdp = await page.context.new_cdp_session(page)
    session, _ = await sessions.seed(url, WIDTH, HEIGHT)
    jpeg = {"format": "jpeg", "quality": 85}
    click = parse_action({"type": "click", "x": 640, "y": 40})
    typed = parse_action({"type": "type", "text": TEXT})

    async def bare_click() -> None:
        await page.mouse.click(640, 40)
        await cdp.send("Page.captureScreenshot", jpeg)

    async def sleeping_click() -> None:
        await page.mouse.click(640, 40)
        await asyncio.sleep(0.3)
        await page.screenshot()

    async def our_click() -> None:
        await sessions.step(session.session_id, [click])

    async def delayed_typing() -> None:
        await page.keyboard.type(TEXT, delay=50)
        await cdp.send("Page.captureScreenshot", jpeg)

    async def our_typing() -> None:
        await sessions.step(session.session_id, [typed])

    return {
        "click: bare click and JPEG, nothing waited for": bare_click,
        "click: click, 300 ms sleep, default PNG": sleeping_click,
        "click: ours (settled)": our_click,
        "type 60: 50 ms a key and JPEG": delayed_typing,
        "type 60: ours (settled)": our_typing,
    }


async def run(rounds: int) -> dict[str, float]:
    """Measure everything."""
    chromium = find_chromium()
    async with AsyncExitStack() as stack:
        gym = await stack.enter_async_context(demo_gym())
        pool = LocalPool(chromium, processes=1, max_sessions=8, queue_limit=8, queue_timeout_s=60)
        sessions = Sessions(pool, SessionSettings())
        stack.push_async_callback(sessions.close)
        await sessions.start()
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=str(chromium.executable), args=launch_args(running_as_root())
        )
        stack.push_async_callback(browser.close)
        url = f"{gym}/crm/"
        medians = await measure(await session_ways(sessions, browser, url), max(3, rounds // 4))
        return medians | await measure(await step_ways(sessions, browser, url), rounds)


def main() -> None:
    """Measure, print a table and write `results/bench.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    medians = asyncio.run(run(arguments.rounds))
    table = Table("what", "median ms", "x of ours")
    ours = {name.split(":")[0]: ms for name, ms in medians.items() if ": ours" in name}
    for name, ms in medians.items():
        table.add_row(name, f"{ms:.1f}", f"{ms / ours[name.split(':')[0]]:.2f}")
    Console().print(table)
    output = ROOT / "results" / "bench.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"browser_steps_ms": medians}, indent=2) + "\n")


if __name__ == "__main__":
    main()
