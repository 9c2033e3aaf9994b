"""`browser-gym demo`."""

from __future__ import annotations

import typer

_EXAMPLE = "example: browser-gym demo --tasks 6 --repeats 1"


def demo(context: typer.Context) -> None:
    """Run the demo tasks in a real browser, without a key, and show a table."""
    from scripts.demo import main

    raise typer.Exit(main(context.args, prog="browser-gym demo", epilog=_EXAMPLE))
