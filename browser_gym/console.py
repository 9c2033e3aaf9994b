"""What all commands say in the same way: errors, and progress of what takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

PATIENCE_S = 2.0
"""How long a command may be silent."""


def fail(message: str) -> NoReturn:
    """End the command with an error.

    Raises:
        typer.Exit: always.
    """
    typer.echo(f"browser-gym: {message}", err=True)
    raise typer.Exit(1)


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show how much of some files is read, if that takes longer than `PATIENCE_S`.

    Yields:
        What to tell how many bytes more were read.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(path.stat().st_size for path in paths if path.is_file())
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
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
