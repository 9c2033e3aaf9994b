"""`make bench`: what sessions and steps cost, as ratios against baselines in the same run.

Baselines: NeMo Gym's own `interactive_browser` backend (a Chromium per rollout) and a raw CDP loop.
A figure is a median over rounds in which the compared ways take turns. Prints a table and writes
`results/bench.json`: one flat object with a figure, its spread (`…_spread`: half the distance
between the quartiles; of a share of right answers, the standard deviation) and the versions used.
Begins with the translators of the model servers, which need no browser, and ends with a soak: what
many sessions leave behind. Each part is a process of its own, as what one leaves would count in the
next; what they log is in `results/bench.log`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.apart import ROOT, run_apart
from benchmarks.measure import Figures
from benchmarks.parts import PARTS as MEASURED
from resources_servers.browser_gym.browser.chromium import find_chromium

PARTS = (*MEASURED, "soak")
RESULTS = ROOT / "results" / "bench.json"
LOG = RESULTS.with_suffix(".log")
SHOWN_LOG_LINES = 25


def run(parts: Sequence[str], rounds: int) -> tuple[Figures, list[str]]:
    """Measure the parts, one after another; return the figures, and the parts that failed."""
    figures: Figures = {}
    failed = []
    LOG.unlink(missing_ok=True)
    for number, part in enumerate(parts, 1):
        print(f"[{number}/{len(parts)}] {part} … ", end="", flush=True)
        started = time.monotonic()
        found, logged = _run_part(part, rounds)
        seconds = f"{time.monotonic() - started:.0f} s"
        figures |= found
        if logged is None:
            print(seconds)
            continue
        failed.append(part)
        print(f"FAILED after {seconds}; the end of its log:")
        print("\n".join(f"    {line}" for line in logged.splitlines()[-SHOWN_LOG_LINES:]))
    return figures, failed


def _run_part(part: str, rounds: int) -> tuple[Figures, str | None]:
    """Measure a part in a process of its own; return its figures, and its log if it failed."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file, log = Path(folder, "figures.json"), Path(folder, "log")
        arguments = ["--figures", str(file)]
        if part == "soak":
            code = run_apart(log, "benchmarks.soak", *arguments)
        else:
            code = run_apart(log, "benchmarks.parts", part, "--rounds", str(rounds), *arguments)
        logged = log.read_text(errors="replace")
        with LOG.open("a") as whole:
            whole.write(f"== {part}\n{logged}")
        figures = json.loads(file.read_text()) if file.exists() else {}
        return figures, logged if code else None


def main(
    argv: Sequence[str] | None = None, *, prog: str = "make bench", epilog: str | None = None
) -> None:
    """Measure, print a table and write `results/bench.json`; exit with 1 if a part failed.

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
    RESULTS.parent.mkdir(exist_ok=True)
    print(f"log: {LOG.relative_to(ROOT)}")
    figures, failed = run(arguments.only, arguments.rounds)
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
    RESULTS.write_text(json.dumps({**figures, **run_facts}, indent=2) + "\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
