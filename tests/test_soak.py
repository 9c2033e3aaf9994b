"""The bench's soak in a small version, in a process of its own: it counts what a process has."""

import asyncio
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARGUMENTS = ("--whole", "30", "--cancelled", "10", "--kills", "3", "--at-once", "4")


async def test_nothing_is_left_and_nothing_is_wrong() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.soak",
        *ARGUMENTS,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    report = output.decode()
    assert process.returncode == 0, report
    # What was to happen did happen: a soak that ran nothing would find nothing.
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z ]+)", report)}
    assert counts["kills"] == 3
    assert counts["played"] >= 20
    assert counts.get("cancelled seed", 0) + counts.get("cancelled step", 0) > 0
