"""Fuzz the resources server: `make fuzz`. Its faults are printed, and in results/fuzz.json."""

import argparse
import asyncio
import contextlib
import io
import json
import logging
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import RESPONSE, running_client
from tests.fuzzing import Tally, fuzz
from tests.simulators.http_server import serve
from tests.site import create_site

RESULT = Path("results/fuzz.json")


async def _fuzz(count: int, seed: int) -> Tally:
    with serve(create_site()) as site:
        async with running_client(max_sessions=4) as client:
            return await fuzz(client.http, site, RESPONSE, count=count, seed=seed)


def main() -> int:
    """Return 0 if the server took every request as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="malformed requests to send")
    parser.add_argument("--seed", type=int, default=1, help="the same one sends the same requests")
    args = parser.parse_args()
    logging.disable()  # NeMo Gym and httpx tell of each request
    warnings.simplefilter("ignore")
    started = time.monotonic()
    with contextlib.redirect_stderr(io.StringIO()):
        tally = asyncio.run(_fuzz(args.count, args.seed))
    seconds = time.monotonic() - started
    report = {
        "seed": args.seed,
        "requests": sum(tally.statuses.values()),
        "malformed": tally.malformed,
        "steps_beside": tally.steps,
        "seconds": round(seconds, 1),
        "statuses": dict(sorted(tally.statuses.items())),
        "faults": tally.faults,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{report['requests']} requests, {tally.malformed} of them malformed, in {seconds:.0f} s")
    print(f"{tally.steps} steps of a session beside them")
    for line, count in report["statuses"].items():
        print(f"  {line}: {count}")
    for fault in tally.faults[:20]:
        print(fault)
    print(f"{len(tally.faults)} faults; {RESULT}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
