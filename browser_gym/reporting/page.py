"""A report as one HTML file that needs nothing else and runs no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from pathlib import Path

from browser_gym.console import printable
from browser_gym.reporting.plots import Plot
from browser_gym.reporting.report import Report
from browser_gym.reporting.words import Table, tables

_STYLE = (Path(__file__).parent / "report.css").read_text("utf-8")


def page(report: Report, plots: Iterable[Plot]) -> str:
    """Return a report as HTML."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    title = "Report: " + ", ".join(run.name for run in report.runs)
    body = [f"<h1>{_text(title)}</h1>", *map(_table, tables(report)), *map(_plot, plots)]
    notes = "".join(f"<li>{_text(note)}</li>" for note in report.notes)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n<h2>How to read this</h2>\n<ul>{notes}</ul>\n</main></body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    lines = (
        f'<tr><th scope="row">{_text(line[0])}</th>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in line[1:])
        + "</tr>"
        for line in table.lines
    )
    return (
        f'<h2>{_text(table.title)}</h2>\n<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _plot(plot: Plot) -> str:
    # As an image, an SVG can neither run scripts nor take part in the page.
    data = base64.b64encode(plot.svg()).decode()
    return (
        f"<h2>{_text(plot.title)}</h2>\n"
        f'<img alt="{_text(plot.alt)}" src="data:image/svg+xml;base64,{data}">'
    )


def _text(words: str) -> str:
    return escape(printable(words))
