"""Measures the viewer with a large run: 1,000 rollouts of 50 steps, into results/viewer.json.

`python -m benchmarks.viewer`. Times are of a real Chromium: from the start of the command to the
list on the screen, from a click to a rollout's first step, and from a key to the next step with its
screenshot decoded and the marks drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Page, async_playwright

from browser_gym.tests import viewed
from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)

ROOT = Path(__file__).parents[1]
BARS = {"open_s": 3.0, "step_ms_p95": 100.0}
MOVED = """async () => {
  const began = performance.now();
  const before = document.querySelector(".pane h3").textContent;
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
  const shown = () => {
    const image = document.querySelector(".screen img");
    const marks = document.querySelector(".marks svg");
    const moved = document.querySelector(".pane h3").textContent !== before;
    return moved && image.complete && image.naturalWidth && marks;
  };
  while (!shown()) await new Promise(requestAnimationFrame);
  await document.querySelector(".screen img").decode();
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""


async def measure(path: Path, turns: int) -> dict[str, Any]:
    """Return the figures of one file."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium().executable, args=launch_args(running_as_root())
        )
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        began = time.monotonic()
        command = (sys.executable, "-m", "browser_gym", "view", str(path), "--no-open")
        server = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert server.stdout
            told = (await server.stdout.readline()).decode()
            ready_s = time.monotonic() - began
            url = re.findall(r"http://\S+", told)[0]
            await page.goto(url)
            await page.locator("#rollouts a").nth(100).wait_for()
            open_s = time.monotonic() - began
            spent = psutil.Process(server.pid).cpu_times()
            rollout_ms = [await _open(page, place) for place in range(1, 20)]
            step_ms = [await page.evaluate(MOVED) for _ in range(turns - 1)]
            return {
                "open_s": round(open_s, 2),
                "index_s": round(ready_s, 2),
                "server_cpu_s": round(spent.user + spent.system, 2),
                "rollout_ms": round(statistics.median(rollout_ms), 1),
                "step_ms": round(statistics.median(step_ms), 1),
                "step_ms_p95": round(statistics.quantiles(step_ms, n=20)[-1], 1),
                "step_ms_worst": round(max(step_ms), 1),
                "server_mb": round(psutil.Process(server.pid).memory_info().rss / 1e6, 1),
            }
        finally:
            server.terminate()
            await server.wait()
            await browser.close()


async def _open(page: Page, place: int) -> float:
    """Return the milliseconds from a click on a rollout to its first step."""
    link = page.locator("#rollouts a").nth(place)
    await link.scroll_into_view_if_needed()
    began = time.monotonic()
    await link.click()
    await page.locator(".marks svg").wait_for(state="attached")
    return (time.monotonic() - began) * 1000


def main() -> int:
    """Measure, print and write the figures; return whether a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.viewer", description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "viewer.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storage = {"final_local_storage": {"app": json.dumps(["a stored value"] * 500)}}
        rows = (
            viewed.row(f"TASK-{number // 4}", number % 4, arguments.turns, **storage)
            for number in range(arguments.rollouts)
        )
        path = viewed.write(Path(folder) / "run.jsonl", rows)
        size_mb = round(path.stat().st_size / 1e6, 1)
        figures = asyncio.run(measure(path, arguments.turns))
    missed = [name for name, most in BARS.items() if figures[name] > most]
    result = {
        "rollouts": arguments.rollouts,
        "turns": arguments.turns,
        "file_mb": size_mb,
    } | figures
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result | {"bars": BARS}, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    for name in missed:
        print(f"{name} is above {BARS[name]}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
