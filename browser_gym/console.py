"""What all commands say in the same way: errors, and progress of what takes long."""

from __future__ import annotations

import math
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

PATIENCE_S = 2.0
"""How long a command may be silent."""


def printable(text: str) -> str:
    """Return a text of pages or models for a terminal: one line, in which nothing is a command."""
    return "".join("�" if _commands(char) else char for char in text)


def short(text: object, most: int = 300) -> str:
    """Return the beginning of what a page or a model wrote, for a terminal."""
    line = printable(str(text)[: most + 1])
    return line if len(line) <= most else line[:most] + "…"


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with an error and an exit code.

    Raises:
        typer.Exit: always.
    """
    typer.echo(f"browser-gym: {printable(message)}", err=True)
    raise typer.Exit(code)


def finite(value: float | None) -> float | None:
    """Return an option's number.

    Raises:
        typer.BadParameter: it is infinite or NaN, which no bounds of an option refuse.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def _commands(char: str) -> bool:
    """Whether a character controls: a terminal, the direction of writing, where a line ends."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show how much of some files is read, if that takes longer than `PATIENCE_S`.

    Yields:
        What to tell how many bytes more were read.
    """
    from rich.progress import DownloadColumn

    total = sum(path.stat().st_size for path in paths if path.is_file())
    with _bar("reading", total, DownloadColumn()) as advance:
        yield advance


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of some things are done, if that takes longer than `PATIENCE_S`.

    Args:
        what: is being done, in a word.
        total: how many things there are.

    Yields:
        What to tell how many more were done.
    """
    from rich.progress import MofNCompleteColumn

    with _bar(what, total, MofNCompleteColumn()) as advance:
        yield advance


@contextmanager
def _bar(what: str, total: int, amount: ProgressColumn) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), amount, TimeRemainingColumn())
    console = Console(file=sys.stderr)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=total)
    started = time.monotonic()

    def advance(size: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > PATIENCE_S:
            bar.start()
        bar.update(task, advance=size)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on a terminal what the block does, for as long as it does."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield
