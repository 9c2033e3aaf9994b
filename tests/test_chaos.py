"""The chaos in small: every fault once, in a process of its own, as it counts processes."""

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.chaos_episodes import FAULTS

ROOT = Path(__file__).resolve().parents[1]


async def test_every_fault_gives_one_right_row(tmp_path: Path) -> None:
    output = tmp_path / "chaos.json"
    arguments = ("--episodes", "40", "--at-once", "8", "--patience", "40")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.chaos",
        *arguments,
        "--output",
        str(output),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    report = json.loads(output.read_text())
    assert report["rows"] == report["episodes"] == 40
    # What was to fail did fail: a run without faults would find nothing wrong.
    assert set(report["faults"]) >= set(FAULTS) - {"none", "too few clicks"}
    assert report["masked"] >= sum(fault is not None for fault in FAULTS.values())
