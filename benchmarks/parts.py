"""One part of the bench, in the process that runs this.

    python -m benchmarks.parts seeds --rounds 3 --figures figures.json

The soak is a part as well, a program of its own: `python -m benchmarks.soak`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks import capacity, latency
from benchmarks.measure import Figures
from benchmarks.ours import PROCESSES, running
from benchmarks.raw_cdp import RawChromium
from benchmarks.remote import remote
from benchmarks.site import create_site
from benchmarks.translators import translators
from tests.simulators.http_server import serve

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
)


async def measured(part: str, rounds: int) -> Figures:
    """Measure a part; `rounds` is how often, of what is repeated."""
    if part == "translators":
        return translators(rounds)
    with serve(create_site()) as root:
        url = f"{root}/bench.html"
        match part:
            case "seeds":
                return await latency.seeds(url, rounds)
            case "memory":
                return await capacity.memory(url)
            case "remote":
                return await remote(url)
            case "collection":
                # Imported here, as it takes seconds.
                from benchmarks.collection import collection

                return await collection(url)
            case _:
                return await _stepping(part, url, rounds)


async def _stepping(part: str, url: str, rounds: int) -> Figures:
    """Measure a part that steps in a pool, most of them against raw loops."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(running(url, warm_contexts=0))
        if part == "idle":
            return await capacity.idle(ours)
        if part == "rollout":
            return await capacity.rollout_bytes(ours)
        # As many processes as the pool has.
        raws = [await stack.enter_async_context(RawChromium()) for _ in range(PROCESSES)]
        match part:
            case "steps":
                return await latency.steps(ours, raws[0], rounds)
            case "screenshots":
                return await capacity.screenshots(ours, raws[0])
            case "throughput":
                return await capacity.throughput(ours, raws)
    raise ValueError(f"no such part: {part}")


def main() -> None:
    """Measure a part and write its figures."""
    parser = argparse.ArgumentParser(description="Measure one part of the bench.")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=15, help="of what is repeated (default 15)")
    parser.add_argument("--figures", type=Path, required=True, help="JSON file to write them to")
    arguments = parser.parse_args()
    figures = asyncio.run(measured(arguments.part, arguments.rounds))
    arguments.figures.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
