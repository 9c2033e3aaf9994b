"""Serve the environment and the test pages on loopback, with the project's own Python.

Prints `{"url", "site"}` once both take connections, and stops when its input ends.
"""

from __future__ import annotations

import json
import socket
import sys
import threading

import uvicorn

from conftest import build_server
from tests.simulators.http_server import serve
from tests.site import create_site


def main() -> None:
    """Serve until the input ends; the arguments are a port, 0 for any, and settings as JSON."""
    port, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()  # what connects while the app starts waits
    config = uvicorn.Config(build_server(**settings), log_level="critical", timeout_keep_alive=60)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    with serve(create_site()) as site:
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"url": url, "site": site}), flush=True)  # noqa: T201
        sys.stdin.read()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
