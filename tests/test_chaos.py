"""The chaos in small: every fault once, in a process of its own, as it counts processes."""

import json
from pathlib import Path

import pytest

from benchmarks.apart import run_apart
from benchmarks.chaos_episodes import FAULTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_every_fault_gives_one_right_row(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "chaos.json"
    arguments = ("--episodes", "40", "--at-once", "8", "--output", str(output))
    assert run_apart(log, "benchmarks.chaos", *arguments) == 0, log.read_text()
    report = json.loads(output.read_text())
    assert report["rows"] == report["episodes"] == 40
    # What was to fail did fail: a run without faults would find nothing wrong.
    assert set(report["faults"]) >= set(FAULTS) - {"none", "too few clicks"}
    assert report["masked"] >= sum(fault is not None for fault in FAULTS.values())
