"""`make bench`: what sessions and steps cost, as ratios against baselines in the same run.

Baselines: NeMo Gym's own `interactive_browser` backend (a Chromium per rollout) and a raw CDP loop.
A figure is a median over rounds in which the compared ways take turns. Prints a table and writes
`results/bench.json`: one flat object with a figure, its spread (`…_spread`: half the distance
between the quartiles; of a share of right answers, the standard deviation) and the versions used.
Begins with the translators of the model servers, which need no browser, and ends with a soak: what
many sessions leave behind.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import capacity, latency, translators
from benchmarks.collection import collection
from benchmarks.measure import Figures
from benchmarks.ours import PROCESSES, running
from benchmarks.raw_cdp import RawChromium
from benchmarks.remote import remote
from benchmarks.site import create_site
from benchmarks.soak import soak
from resources_servers.browser_gym.browser.chromium import find_chromium
from tests.simulators.http_server import serve

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "translators",
    "seeds",
    "steps",
    "screenshots",
    "throughput",
    "memory",
    "idle",
    "rollout",
    "remote",
    "collection",
    "soak",
)


async def run(parts: list[str], rounds: int) -> Figures:
    """Measure the parts."""
    figures: Figures = {}
    if "translators" in parts:
        figures |= translators.translators(rounds)
    if parts == ["translators"]:
        return figures
    async with AsyncExitStack() as stack:
        root = stack.enter_context(serve(create_site()))
        url = f"{root}/bench.html"
        if "seeds" in parts:
            figures |= await latency.seeds(url, rounds)
        async with running(url, warm_contexts=0) as ours, AsyncExitStack() as inner:
            # As many processes as the pool has.
            raws = [await inner.enter_async_context(RawChromium()) for _ in range(PROCESSES)]
            measures = {
                "steps": lambda: latency.steps(ours, raws[0], rounds),
                "screenshots": lambda: capacity.screenshots(ours, raws[0]),
                "throughput": lambda: capacity.throughput(ours, raws),
                "memory": lambda: capacity.memory(url),
                "idle": lambda: capacity.idle(ours),
                "rollout": lambda: capacity.rollout_bytes(ours),
            }
            for name, measure in measures.items():
                if name in parts:
                    figures |= await measure()
        if "remote" in parts:
            figures |= await remote(url)
        if "collection" in parts:
            figures |= await collection(url)
        if "soak" in parts:
            found = await soak(f"{root}/soak.html", whole=300, cancelled=100, kills=20)
            for line in found.report():
                print(line)
            figures |= {"leaked": found.leaked.total(), "wrong": len(found.wrong)}
    return figures


def main(
    argv: Sequence[str] | None = None, *, prog: str = "make bench", epilog: str | None = None
) -> None:
    """Measure, print a table and write `results/bench.json`.

    Args:
        argv: the arguments; those of the process by default.
        prog: how help calls the program.
        epilog: how help ends.
    """
    description = "Measure sessions, steps and translators."
    parser = argparse.ArgumentParser(prog=prog, description=description, epilog=epilog)
    parser.add_argument("--rounds", type=int, default=15, help="of what is repeated (default 15)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of the parts")
    arguments = parser.parse_args(argv)
    load_before, started = os.getloadavg()[0], time.monotonic()
    figures = asyncio.run(run(list(arguments.only), arguments.rounds))
    figures = {name: round(value, 3) for name, value in figures.items()}
    table = Table("figure", "value", "spread")
    for name, value in figures.items():
        if not name.endswith("_spread"):
            table.add_row(name, f"{value:g}", f"{figures.get(f'{name}_spread', ''):}")
    Console().print(table)
    run_facts = {
        "load_before": round(load_before, 2),
        "duration_s": round(time.monotonic() - started),
        "versions": {
            "chromium": find_chromium().version,
            **{name: importlib.metadata.version(name) for name in ("playwright", "nemo-gym")},
        },
    }
    output = ROOT / "results" / "bench.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({**figures, **run_facts}, indent=2) + "\n")


if __name__ == "__main__":
    main()
