"""Serves the page on loopback, and asks the resources server for it.

So the page never learns the server's token. It is read-only, and however many look, the server is
asked for its sessions once a second at most.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from browser_gym.watching.gym import Gym, Json, Unanswered
from browser_gym.watching.table import summary

HOST = "127.0.0.1"
LOOK_EVERY_S = 1.0
_STATIC = Path(__file__).parent / "static"
_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "watch.css": ("watch.css", "text/css; charset=utf-8"),
    "watch.js": ("watch.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    """Answers on loopback to whoever knows the secret in the address.

    Attributes:
        url: of the page.
    """

    daemon_threads = True

    def __init__(self, gym: Gym, port: int = 0) -> None:
        """Listen; `serve_forever` answers.

        Args:
            gym: whose sessions are shown.
            port: to listen on; 0 for any free one.

        Raises:
            OSError: somebody else listens there.
        """
        super().__init__((HOST, port), _Handler)
        self.gym = gym
        self._secret = secrets.token_urlsafe(24)
        self._lock = Lock()
        self._look: Json = {}
        self._looked = -LOOK_EVERY_S
        self.url = f"http://{HOST}:{self.server_port}/{self._secret}/"

    def allows(self, host: str | None, secret: str) -> bool:
        """Whether a request is from the page; other names for this machine are others' pages."""
        hosts = (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}")
        return host in hosts and hmac.compare_digest(secret.encode(), self._secret.encode())

    def look(self) -> Json:
        """Return what the sessions do; what several ask at once is asked once.

        Raises:
            Unanswered: the resources server does not tell.
        """
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_EVERY_S:
                look = self.gym.look()
                self._look = {"sessions": look["sessions"], "summary": summary(look["health"])}
                self._looked = time.monotonic()
            return self._look

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over callers who went away, as pages do that are closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked, _, query = self.path.partition("?")
        secret, _, path = asked.removeprefix("/").partition("/")
        if not self.server.allows(self.headers.get("Host"), secret):
            self._say(HTTPStatus.FORBIDDEN, "open the address that browser-gym watch printed")
            return
        try:
            self._route(path, parse_qs(query))
        except Unanswered as error:
            self._say(HTTPStatus.BAD_GATEWAY, str(error))

    def _route(self, path: str, query: dict[str, list[str]]) -> None:
        if path in _FILES:
            name, media_type = _FILES[path]
            self._answer((_STATIC / name).read_bytes(), media_type)
        elif path == "look":
            self._answer(json.dumps(self.server.look()).encode(), "application/json")
        elif path == "picture" and (env_id := query.get("env_id")):
            picture = self.server.gym.picture(env_id[0])
            if picture:
                self._answer(*picture)
            else:
                self._say(HTTPStatus.NOT_FOUND, "the session is gone, or has no picture")
        else:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _answer(self, body: bytes, media_type: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _say(self, status: HTTPStatus, words: str) -> None:
        self._answer(words.encode("utf-8", "replace"), "text/plain; charset=utf-8", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the address holds the secret."""
