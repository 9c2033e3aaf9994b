"""`browser-gym gym`."""

from __future__ import annotations

import typer

_EXAMPLE = "example: browser-gym gym --port 8778"


def gym(context: typer.Context) -> None:
    """Serve the demo gym, to click through it or to fetch its tasks."""
    from resources_servers.browser_gym.demo_gym.__main__ import main

    main(context.args, prog="browser-gym gym", epilog=_EXAMPLE)
