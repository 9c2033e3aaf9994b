"""`browser-gym prepare-data`."""

from __future__ import annotations

import typer


def prepare_data(context: typer.Context) -> None:
    """Fetch the tasks of a web gym, or take WebVoyager's, as task rows."""
    from resources_servers.browser_gym.prepare_data import main

    raise typer.Exit(main(context.args, prog="browser-gym prepare-data"))
