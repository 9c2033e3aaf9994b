"""The bench's soak in a small version, in a process of its own: it counts what a process has."""

import re
from pathlib import Path

import pytest

from benchmarks.apart import run_apart

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ARGUMENTS = ("--whole", "30", "--cancelled", "10", "--kills", "3", "--at-once", "4")


def test_nothing_is_left_and_nothing_is_wrong(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = run_apart(log, "benchmarks.soak", *ARGUMENTS)
    report = log.read_text()
    assert code == 0, report
    # What was to happen did happen: a soak that ran nothing would find nothing.
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z ]+)", report)}
    assert counts["kills"] == 3
    assert counts["played"] >= 20
    assert counts.get("cancelled seed", 0) + counts.get("cancelled step", 0) > 0
