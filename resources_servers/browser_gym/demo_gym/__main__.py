"""Starts the demo gym alone: `python -m resources_servers.browser_gym.demo_gym`."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence

from resources_servers.browser_gym.demo_gym.server import running


async def _serve(host: str, port: int) -> None:
    async with running(host, port) as url:
        print(f"The demo gym is at {url}/ (stop it with Ctrl-C)", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def main(
    argv: Sequence[str] | None = None, *, prog: str = "demo_gym", epilog: str | None = None
) -> None:
    """Serves until interrupted; exits with 1 when the port is taken.

    Args:
        argv: The arguments; those of the process by default.
        prog: How help calls the program.
        epilog: How help ends.
    """
    parser = argparse.ArgumentParser(prog=prog, description=__doc__, epilog=epilog)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8777, help="port, 0 for a free one")
    arguments = parser.parse_args(argv)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(arguments.host, arguments.port))
    except RuntimeError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
