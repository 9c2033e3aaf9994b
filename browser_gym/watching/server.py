"""Serves the page on loopback, and asks the resources server for it.

So the page never learns the server's token. It is read-only, and however many look, the server is
asked for its sessions once a second at most.
"""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs

import browser_gym.viewer
from browser_gym.loopback import LoopbackHandler, LoopbackServer
from browser_gym.watching.gym import Gym, Json, Unanswered
from browser_gym.watching.table import summary

LOOK_EVERY_S = 1.0
_STATIC = Path(__file__).parent / "static"
_COLORS = Path(browser_gym.viewer.__file__).parent / "static" / "colors.css"
_FILES = {
    "": (_STATIC / "page.html", "text/html; charset=utf-8"),
    "colors.css": (_COLORS, "text/css; charset=utf-8"),
    "watch.css": (_STATIC / "watch.css", "text/css; charset=utf-8"),
    "watch.js": (_STATIC / "watch.js", "text/javascript; charset=utf-8"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class WatchServer(LoopbackServer):
    """Serves the page, and what it asks for."""

    def __init__(self, gym: Gym, port: int = 0) -> None:
        """Listen; `serve_forever` answers.

        Args:
            gym: whose sessions are shown.
            port: to listen on; 0 for any free one.

        Raises:
            OSError: somebody else listens there.
        """
        super().__init__(_Handler, port)
        self.gym = gym
        self._lock = Lock()
        self._look: Json = {}
        self._looked = -LOOK_EVERY_S

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


class _Handler(LoopbackHandler):
    server: WatchServer
    page_of = "watch"
    policy = _POLICY

    def route(self, path: str, query: str) -> None:
        try:
            self._route(path, parse_qs(query))
        except Unanswered as error:
            self.say(HTTPStatus.BAD_GATEWAY, str(error))

    def _route(self, path: str, query: dict[str, list[str]]) -> None:
        if path in _FILES:
            file, media_type = _FILES[path]
            self.answer(file.read_bytes(), media_type)
        elif path == "look":
            self.answer(json.dumps(self.server.look()).encode(), "application/json")
        elif path == "picture" and (env_id := query.get("env_id")):
            picture = self.server.gym.picture(env_id[0])
            if picture:
                self.answer(*picture)
            else:
                self.say(HTTPStatus.NOT_FOUND, "the session is gone, or has no picture")
        else:
            self.say(HTTPStatus.NOT_FOUND, "there is nothing here")
