"""Run an ASGI app on a free loopback port, in a thread, for the length of a `with` block."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

STARTUP_TIMEOUT_S = 30


class _AnnouncingServer(uvicorn.Server):
    """A uvicorn server that says when it accepts connections and stops when told: no polling."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._told_to_stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._loop = asyncio.get_running_loop()
        self.ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # sets the headers of every answer
        await self._told_to_stop.wait()

    def stop(self) -> None:
        """Stop it, from another thread."""
        self.should_exit = True  # for a server that is still starting
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._told_to_stop.set)


@contextmanager
def serve(app: Any, *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve an ASGI app over real HTTP.

    Args:
        app: The ASGI app. Its lifespan runs: start-up before the block, shutdown after it.
        tls: What to serve it with over HTTPS.

    Yields:
        The base URL, `http://127.0.0.1:<port>`, or `https://…`.

    Raises:
        RuntimeError: The app did not start within `STARTUP_TIMEOUT_S` seconds.
    """
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        # Faults that cut a connection on purpose are errors to uvicorn; they are not to us.
        log_level="critical",
        timeout_graceful_shutdown=1,
        # An idle connection that is closed just as a client uses it again is a lost request.
        timeout_keep_alive=60,
        ssl_context_factory=(lambda *_: tls) if tls else None,
    )
    server = _AnnouncingServer(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        if not server.ready.wait(STARTUP_TIMEOUT_S):
            raise RuntimeError(f"{app!r} did not start within {STARTUP_TIMEOUT_S} s")
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()
        thread.join(timeout=STARTUP_TIMEOUT_S)
        listener.close()
