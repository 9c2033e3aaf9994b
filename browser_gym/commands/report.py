"""`browser-gym report`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from browser_gym.console import fail, reading, waiting
from browser_gym.rollouts import UnusableInput, check_output

if TYPE_CHECKING:
    from browser_gym.reporting.report import Report


class _By(StrEnum):
    category = "category"
    verifier = "verifier"
    task = "task"


def report(
    rollouts: Annotated[
        list[Path],
        typer.Argument(metavar="RUN.jsonl", help="Files that `gym eval run --output` wrote."),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name of a run, once for each file, in order; files of one name are one run. "
            "[default: the files' names]",
        ),
    ] = None,
    by: Annotated[
        _By,
        typer.Option(metavar="WHAT", help="Group tasks by **category**, **verifier** or **task**."),
    ] = _By.category,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Write it as one HTML file too."),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write its plots there as PNG files too.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices to count all costs by, in the format of the agent's `prices.json`. "
            "[default: what rows tell, else that table]",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare runs: success, and what it takes.

    The first run is what the others are compared with, on the tasks of both.

    Examples:

    `browser-gym report results/run.jsonl`

    `browser-gym report old.jsonl new.jsonl --label old --label new -o report.html --png plots`
    """
    with waiting("loading"):
        from browser_gym.reporting.costs import Pricing
        from browser_gym.reporting.report import report_of
        from browser_gym.reporting.runs import read_runs

    try:
        if output:
            check_output(output, [*rollouts, *([prices] if prices else [])])
        pricing = Pricing(prices)
        with reading(rollouts) as progress:
            runs = read_runs(rollouts, label or [], pricing, progress)
    except UnusableInput as error:
        fail(str(error))
    with waiting("comparing"):
        made = report_of(runs, by.value, pricing)
    if as_json:
        import json

        typer.echo(json.dumps(made.as_json(), indent=2, allow_nan=False))
    else:
        from browser_gym.reporting.terminal import show

        show(made)
    if output or png:
        _write(made, output, png)


def _write(made: Report, output: Path | None, png: Path | None) -> None:
    try:
        with waiting("drawing"):
            told = _draw(made, output, png)
    except OSError as error:
        fail(f"{error.filename}: cannot be written: {error.strerror}")
    for words in told:
        typer.echo(f"written: {words}", err=True)


def _draw(made: Report, output: Path | None, png: Path | None) -> list[str]:
    """Write the page and the plots; return the files."""
    from browser_gym.reporting.page import page
    from browser_gym.reporting.plots import plots

    drawn, written = plots(made), []
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page(made, drawn), "utf-8")
        written.append(str(output))
    if png:
        png.mkdir(parents=True, exist_ok=True)
        written += [str(plot.save_png(png)) for plot in drawn]
    return written
