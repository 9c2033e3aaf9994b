"""A judge's model server on a loopback port that replies as a test says."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conftest import RESPONSE
from tests.simulators.http_server import serve

Reply = Callable[[dict[str, Any]], Response]


def code_in(body: dict[str, Any]) -> str:
    """The code that a verdict on this request must have, read as a model would."""
    match = re.search(r"^VERDICT (\w+): YES$", body["input"][0]["content"], re.MULTILINE)
    assert match
    return match[1]


def says(text: str, **fields: Any) -> Reply:
    """A reply with a text, in which `CODE` becomes the request's code."""

    def reply(body: dict[str, Any]) -> Response:
        part = {
            "type": "output_text",
            "text": text.replace("CODE", code_in(body)),
            "annotations": [],
        }
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
        return JSONResponse(RESPONSE | {"output": [message | {"content": [part]}]} | fields)

    return reply


def fails(status: int) -> Reply:
    """An HTTP error."""
    return lambda body: Response("it is busy", status)


YES = says("It is done.\nVERDICT CODE: YES")
NO = says("It is not done.\nVERDICT CODE: NO\n")


class FakeJudge:
    """Replies with each of `replies` in turn, the last one for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: list[Reply] = [YES]
        self.requests: list[dict[str, Any]] = []

    async def answer(self, request: Request) -> Response:
        """Serves `/v1/responses`."""
        body = await request.json()
        self.requests.append(body)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(body)


@contextmanager
def running_fake_judge() -> Iterator[FakeJudge]:
    """Serve a judge for the block."""
    judge = FakeJudge()
    app = Starlette(routes=[Route("/v1/responses", judge.answer, methods=["POST"])])
    with serve(app) as judge.url:
        yield judge
