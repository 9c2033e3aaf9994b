"""A report in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from browser_gym.console import printable
from browser_gym.reporting.report import Report
from browser_gym.reporting.words import Table, tables

_RUNS_BESIDE_EACH_OTHER = 4


def show(report: Report) -> None:
    """Print a report."""
    console = Console(highlight=False)
    for table in tables(report):
        one_column_per_run = len(table.head) == len(report.runs) + 1
        step = _RUNS_BESIDE_EACH_OTHER if one_column_per_run else len(table.head)
        for first in range(1, len(table.head), step):
            console.print(_drawn(table, slice(first, first + step)))
            console.print()
    for note in report.notes:
        console.print(Text(printable(note), style="dim"))


def _drawn(table: Table, columns: slice) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, title=_text(table.title), title_justify="left")
    for name in (table.head[0], *table.head[columns]):
        drawn.add_column(_text(name), overflow="fold", header_style="bold")
    for line in table.lines:
        drawn.add_row(*map(_text, (line[0], *line[columns])))
    return drawn


def _text(words: str) -> Text:
    return Text(printable(words))  # as text, for in markup brackets would be commands
