"""A judge's model server on a loopback port that replies as a test says."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import DictConfig
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


class OwnClient(ServerClient):
    """NeMo Gym's client, with connections of its own: for a server in a thread of its own."""

    async def post(self, server_name: str, url_path: str, **options: Any) -> Any:  # type: ignore[override]
        """Posts as NeMo Gym's own does, once."""
        url = self._resolve_base_url(server_name)
        async with aiohttp.ClientSession() as session:
            response = await session.post(f"{url}{url_path}", json=options["json"])
            await response.read()
            return response


JUDGE_REF = {"type": "responses_api_models", "name": "judge_model"}


def client_of[T: ServerClient](kind: type[T], url: str) -> T:
    """A client that knows the server `judge_model`."""
    host, port = url.removeprefix("http://").split(":")
    server = {"entrypoint": "app.py", "host": host, "port": int(port)}
    servers = {"judge_model": {"responses_api_models": {"any": server}}}
    head = BaseServerConfig(host="127.0.0.1", port=1)
    return kind(head_server_config=head, global_config_dict=DictConfig(servers))


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
