"""`browser-gym doctor`."""

from __future__ import annotations

import typer


def doctor() -> None:
    """Show what this machine has, and what is missing with what to do about it.

    Exit code 1 if something is missing that the demo needs.

    Example: `browser-gym doctor`
    """
    from scripts.doctor import main

    raise typer.Exit(main())
