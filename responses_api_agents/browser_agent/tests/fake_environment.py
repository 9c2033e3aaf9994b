"""A resources server without a browser, for tests that are only about the conversation.

It takes clicks, shows a picture that changes with each, and grades how many there were. With the
ids that callers choose it does as the real one.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse
from PIL import Image

from resources_servers.browser_gym.faults import Fault
from tests.simulators.http_server import serve

SIDE_PX = 100
URL = "http://fake.test/"
Json = dict[str, Any]


@functools.cache
def _picture(shade: int) -> str:
    """Return base64 of a PNG of one shade of grey."""
    buffer = io.BytesIO()
    Image.new("L", (SIDE_PX, SIDE_PX), shade).save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode()


class FakeEnvironment:
    """The server; a task row says in `verifier_metadata.points` where must be clicked, in order.

    Attributes:
        sessions: what was clicked in each session that is open.
        closed: ids that were closed, some of them before they were seeded.
        refused: ids that were seeded after that.
        graded: ids of the tasks that were graded.
        blanks: how many of the next answers have no picture.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, list[list[float]]] = {}
        self.closed: set[str] = set()
        self.refused: set[str] = set()
        self.graded: list[str] = []
        self.blanks = 0
        self.app = FastAPI()
        self.app.post("/seed_session")(self._seed)
        self.app.post("/step")(self._step)
        self.app.post("/verify")(self._verify)
        self.app.post("/close")(self._close)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve on a free loopback port; yields the base URL."""
        with serve(self.app) as url:
            yield url

    async def _seed(self, body: Json = Body()) -> Any:
        env_id = body["env_id"]
        if env_id in self.closed:
            self.refused.add(env_id)
            failure = {"failure_kind": Fault.REPEAT_DIFFERS.kind, "failure_reason": "it is closed"}
            return JSONResponse(failure, Fault.REPEAT_DIFFERS.status)
        self.sessions.setdefault(env_id, [])
        size = {"viewport_width": SIDE_PX, "viewport_height": SIDE_PX}
        return {"env_id": env_id, **size, **self._observation(env_id)}

    async def _step(self, body: Json = Body()) -> Json:
        clicks = self.sessions[body["env_id"]]
        clicks += [[a["x"], a["y"]] for a in body["actions"] if a["type"] == "click"]
        results = [
            {"type": action["type"], "status": "ok", "error": None, "text": None}
            for action in body["actions"]
        ]
        return {"results": results, "error": None, **self._observation(body["env_id"])}

    async def _verify(self, body: Json = Body()) -> Json:
        clicks = self.sessions.pop(body["env_id"])
        self.closed.add(body["env_id"])
        task = body["verifier_metadata"]
        self.graded.append(task["task_id"])
        return body | {"reward": float(clicks == task["points"]), "mask_sample": False}

    async def _close(self, body: Json = Body()) -> Json:
        self.closed.add(body["env_id"])
        return {"success": self.sessions.pop(body["env_id"], None) is not None, "message": ""}

    def _observation(self, env_id: str) -> Json:
        drawn = self.blanks <= 0
        self.blanks -= 1
        return {
            "screenshot": _picture(len(self.sessions[env_id]) % 256) if drawn else "",
            "media_type": "image/png",
            "current_url": URL,
            "title": "Fake",
            "tabs": [{"tab_id": "t1", "index": 0, "url": URL, "title": "Fake", "active": True}],
            "events": [],
            "settled": True,
            "timings_ms": {},
        }
