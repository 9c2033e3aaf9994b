"""An ASGI app served within the caller's event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

STOP_TIMEOUT_S = 2
"""How long requests that are still running may take when the server stops."""


@asynccontextmanager
async def embedded(app: Any, listener: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve an app while the context is open; its lifespan runs around that.

    Args:
        app: the ASGI app.
        listener: a listening socket, which is closed at the end; by default one on a free port of
            127.0.0.1.

    Yields:
        The base URL, without a slash at the end.

    Raises:
        RuntimeError: the app did not start.
    """
    with listener or socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=STOP_TIMEOUT_S)
        server = _EmbeddedServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        started = asyncio.create_task(server.ready.wait())
        try:
            await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            host, port = listener.getsockname()[:2]
            yield f"http://{host}:{port}"
        finally:
            started.cancel()
            server.should_exit = True
            await serving


class _EmbeddedServer(uvicorn.Server):
    """A server that says when it is up, and leaves the process's signals to the program."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets=sockets)
        except SystemExit as error:  # would end the program, past all its cleaning up
            raise RuntimeError(f"{self.config.app!r} did not start") from error
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
