"""Pages served on loopback, for whoever knows the secret in their address."""

from __future__ import annotations

import hmac
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class LoopbackServer(ThreadingHTTPServer):
    """Answers on loopback to whoever knows the secret in the address; read-only.

    Attributes:
        url: of the page.
    """

    daemon_threads = True

    def __init__(self, handler: type[LoopbackHandler], port: int = 0) -> None:
        """Listen; `serve_forever` answers.

        Args:
            handler: of requests.
            port: to listen on; 0 for any free one.

        Raises:
            OSError: somebody else listens there.
        """
        super().__init__((HOST, port), handler)
        self._secret = secrets.token_urlsafe(24)
        self.url = f"http://{HOST}:{self.server_port}/{self._secret}/"

    def allows(self, host: str | None, secret: str) -> bool:
        """Whether a request is from the page; other names for this machine are others' pages."""
        hosts = (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}")
        return host in hosts and hmac.compare_digest(secret.encode(), self._secret.encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless a page left before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers requests to a `LoopbackServer`.

    Attributes:
        page_of: the command of `browser-gym` whose page it is.
        policy: the page's content security policy.
    """

    server: LoopbackServer
    protocol_version = "HTTP/1.1"
    page_of: str
    policy: str

    def route(self, path: str, query: str) -> None:
        """Answer a request for a path behind the secret."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer whoever knows the secret."""
        asked, _, query = self.path.partition("?")
        secret, _, path = asked.removeprefix("/").partition("/")
        if self.server.allows(self.headers.get("Host"), secret):
            self.route(path, query)
        else:
            words = f"open the address that browser-gym {self.page_of} printed"
            self.say(HTTPStatus.FORBIDDEN, words)

    def answer(
        self,
        body: bytes,
        media_type: str,
        status: HTTPStatus = HTTPStatus.OK,
        cache: str = "no-store",
    ) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Security-Policy", self.policy)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", cache)
        self.end_headers()
        self.wfile.write(body)

    def say(self, status: HTTPStatus, words: str) -> None:
        """Send words."""
        self.answer(words.encode("utf-8", "replace"), "text/plain; charset=utf-8", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the address holds the secret."""
