"""`browser-gym bench`."""

from __future__ import annotations

import typer

_EXAMPLE = "example: browser-gym bench --only steps seeds --rounds 5"


def bench(context: typer.Context) -> None:
    """Measure sessions, steps and translators against baselines."""
    from benchmarks.bench import main

    main(context.args, prog="browser-gym bench", epilog=_EXAMPLE)
