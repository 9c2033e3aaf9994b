"""Serves the viewer on loopback: one rollout file and the images its rows name, read-only."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from http import HTTPStatus
from threading import Lock
from typing import Any

from browser_gym.loopback import LoopbackHandler, LoopbackServer
from browser_gym.rollouts import UnusableInput
from browser_gym.viewer.index import RolloutFile
from browser_gym.viewer.page import page, policy
from browser_gym.viewer.pictures import read_picture
from browser_gym.viewer.trajectory import trajectory_of

_KEPT_ROWS = 16
_JSON = "application/json"
# Numbers only: no path of a file is ever in a request.
_ROLLOUT = re.compile(r"rollouts/([0-9]{1,9})/([0-9]{1,9})")
_IMAGE = re.compile(_ROLLOUT.pattern + r"/images/([0-9]{1,9})")


class ViewerServer(LoopbackServer):
    """Serves one rollout file."""

    def __init__(self, rollouts: RolloutFile, port: int = 0) -> None:
        """Listen; `serve_forever` answers.

        Args:
            rollouts: indexed.
            port: to listen on; 0 for any free one.

        Raises:
            OSError: somebody else listens there.
        """
        super().__init__(_Handler, port)
        self._rollouts = rollouts
        self._lock = Lock()
        self._trajectory = lru_cache(_KEPT_ROWS)(self._read)

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

    def _read(self, _: int, row: int) -> tuple[bytes, list[str]]:
        trajectory, images = trajectory_of(self._rollouts.row(row))
        return _dump(trajectory), images


class _Handler(LoopbackHandler):
    server: ViewerServer
    page_of = "view"
    policy = policy("img-src 'self'; connect-src 'self'; frame-ancestors 'none'")

    def route(self, path: str, query: str) -> None:
        try:
            self._route(path)
        except IndexError:
            self.say(HTTPStatus.NOT_FOUND, "there is no such rollout or image")
        except UnusableInput as error:
            self.say(HTTPStatus.CONFLICT, f"{error}; if the file was changed, reload the page")

    def _route(self, path: str) -> None:
        if path == "":
            self.answer(page().encode(), "text/html; charset=utf-8")
        elif path == "index":
            self.answer(self.server.index(), _JSON)
        elif match := _ROLLOUT.fullmatch(path):
            self.answer(self.server.trajectory(*map(int, match.groups()))[0], _JSON)
        elif match := _IMAGE.fullmatch(path):
            image = self.server.image(*map(int, match.groups()))
            if image is None:
                self.say(HTTPStatus.NOT_FOUND, "the file is gone, or is no image")
            else:
                self.answer(*image, cache="private, max-age=3600")
        else:
            self.say(HTTPStatus.NOT_FOUND, "there is nothing here")


def _dump(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
