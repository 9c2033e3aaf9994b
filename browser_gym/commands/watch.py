"""`browser-gym watch`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from browser_gym.console import fail

if TYPE_CHECKING:
    from browser_gym.watching.gym import Gym

_TOKEN_VARIABLE = "BROWSER_GYM_AUTH_TOKEN"


def watch(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Of the resources server; `gym env status` prints the port of `browser_gym`.",
        ),
    ],
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Environment variable with the server's `auth_token`. [default: "
            f"{_TOKEN_VARIABLE}, if set]",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page, on 127.0.0.1. [default: a free one]")
    ] = 0,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show a table in the terminal instead of a page.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print that table once.")] = False,
) -> None:
    """Watch the running sessions of a resources server.

    Read-only: it shows what was shown to models, and takes no screenshots of its own.

    Examples:

    `browser-gym watch http://127.0.0.1:12345`

    `browser-gym watch https://gym.example --token-env GYM_TOKEN --once`
    """
    from browser_gym.watching.gym import Gym, Unanswered

    try:
        gym = Gym(url, _token(token_env))
        try:
            _watch(gym, port, plain=plain, once=once)
        finally:
            gym.close()
    except Unanswered as error:
        fail(str(error))
    except KeyboardInterrupt:
        pass


def _token(name: str | None) -> str | None:
    token = os.environ.get(name or _TOKEN_VARIABLE, "").strip()
    if name and not token:
        fail(f"--token-env {name}: there is no such environment variable, or it is empty")
    if not (token.isascii() and token.isprintable()):
        fail(f"{name or _TOKEN_VARIABLE}: is no token: it has other characters than ASCII's")
    return token or None


def _watch(gym: Gym, port: int, *, plain: bool, once: bool) -> None:
    if once or plain:
        from browser_gym.watching.table import show_on, show_once

        show_once(gym) if once else show_on(gym)
        return
    from browser_gym.loopback import HOST
    from browser_gym.watching.server import WatchServer

    gym.look()  # so that what is wrong is told here
    try:
        server = WatchServer(gym, port)
    except OSError as error:
        fail(f"--port {port}: {HOST} cannot be listened on there ({error.strerror}); try another")
    typer.echo(f"{server.url}\nCtrl-C ends it")
    try:
        server.serve_forever()
    finally:
        server.server_close()
