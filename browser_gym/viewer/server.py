"""Serves the viewer on loopback: one rollout file and the images its rows name, read-only."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sys
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from browser_gym.rollouts import UnusableInput
from browser_gym.viewer.index import RolloutFile
from browser_gym.viewer.page import page, policy
from browser_gym.viewer.pictures import read_picture
from browser_gym.viewer.trajectory import trajectory_of

HOST = "127.0.0.1"
_KEPT_ROWS = 16
_HEADERS = {
    "Content-Security-Policy": policy("img-src 'self'; connect-src 'self'; frame-ancestors 'none'"),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_JSON = "application/json"
# Numbers only: no path of a file is ever in a request.
_ROLLOUT = re.compile(r"rollouts/([0-9]{1,9})/([0-9]{1,9})")
_IMAGE = re.compile(_ROLLOUT.pattern + r"/images/([0-9]{1,9})")


class ViewerServer(ThreadingHTTPServer):
    """Answers on loopback to whoever knows the token in the address.

    Attributes:
        url: of the page.
    """

    daemon_threads = True

    def __init__(self, rollouts: RolloutFile, port: int = 0) -> None:
        """Listen; `serve_forever` answers.

        Args:
            rollouts: indexed.
            port: to listen on; 0 for any free one.

        Raises:
            OSError: somebody else listens there.
        """
        super().__init__((HOST, port), _Handler)
        self._rollouts = rollouts
        self._token = secrets.token_urlsafe(24)
        self._lock = Lock()
        self._trajectory = lru_cache(_KEPT_ROWS)(self._read)
        self.url = f"http://{HOST}:{self.server_port}/{self._token}/"

    def allows(self, host: str | None, token: str) -> bool:
        """Whether a request is from the page; other names for this machine are others' pages."""
        hosts = (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}")
        known = hmac.compare_digest(token.encode(), self._token.encode())
        return host in hosts and known

    def index(self) -> bytes:
        """Return the list of rollouts as JSON, with those that were written meanwhile."""
        with self._lock:
            self._rollouts.read_on()
            index = {
                "name": self._rollouts.path.name,
                "generation": self._rollouts.generation,
                "rollouts": self._rollouts.summaries,
            }
            return _dump(index)

    def trajectory(self, generation: int, row: int) -> tuple[bytes, list[str]]:
        """Return a rollout as JSON, and its images' references.

        Args:
            generation: of the index that the row is from.
            row: its place there.

        Raises:
            IndexError: there is no such row.
            UnusableInput: the index is an old one, or the file cannot be read.
        """
        if generation != self._rollouts.generation:
            raise UnusableInput(f"{self._rollouts.path}: was written anew")
        return self._trajectory(generation, row)

    def image(self, generation: int, row: int, number: int) -> tuple[bytes, str] | None:
        """Return an image of a row and its media type, None if it is missing.

        Raises:
            IndexError: the row has no such image.
            UnusableInput: see `trajectory`.
        """
        reference = self.trajectory(generation, row)[1][number]
        picture = read_picture(reference, self._rollouts.path.parent)
        return (picture.data, picture.media_type) if picture else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless a page left before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def _read(self, _: int, row: int) -> tuple[bytes, list[str]]:
        trajectory, images = trajectory_of(self._rollouts.row(row))
        return _dump(trajectory), images


class _Handler(BaseHTTPRequestHandler):
    server: ViewerServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        token, _, path = self.path.removeprefix("/").partition("/")
        if not self.server.allows(self.headers.get("Host"), token):
            self._say(HTTPStatus.FORBIDDEN, "open the address that browser-gym view printed")
            return
        try:
            self._route(path)
        except IndexError:
            self._say(HTTPStatus.NOT_FOUND, "there is no such rollout or image")
        except UnusableInput as error:
            self._say(HTTPStatus.CONFLICT, f"{error}; if the file was changed, reload the page")

    def _route(self, path: str) -> None:
        if path == "":
            self._answer(page().encode(), "text/html; charset=utf-8")
        elif path == "index":
            self._answer(self.server.index(), _JSON)
        elif match := _ROLLOUT.fullmatch(path):
            self._answer(self.server.trajectory(*map(int, match.groups()))[0], _JSON)
        elif match := _IMAGE.fullmatch(path):
            image = self.server.image(*map(int, match.groups()))
            if image is None:
                self._say(HTTPStatus.NOT_FOUND, "the file is gone, or is no image")
            else:
                self._answer(*image, cache="private, max-age=3600")
        else:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _answer(
        self,
        body: bytes,
        media_type: str,
        status: HTTPStatus = HTTPStatus.OK,
        cache: str = "no-store",
    ) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", cache)
        self.end_headers()
        self.wfile.write(body)

    def _say(self, status: HTTPStatus, words: str) -> None:
        self._answer(words.encode(), "text/plain; charset=utf-8", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the address holds the token."""


def _dump(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
