"""A web gym on a free loopback port that behaves, or misbehaves, as a test says."""

import json
import socket
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.simulators.http_server import serve

Reply = Response | Callable[[Request], Awaitable[Response]]

EXPECTED = "get_expected_state"
ACTUAL = "get_actual_state"


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A reply with JSON, or with a text as it is."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Response(text, status, headers, media_type="application/json")


async def hang(request: Request) -> Response:
    """Answers only once the client has given up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response()


class FakeGym:
    """Replies to each API call with the next reply set for it; the last one stays.

    A reply that is a function finds the form it was sent in `request.state.form`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.reset()

    def reset(self) -> None:
        """Forgets all replies and requests."""
        self.requests: defaultdict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)

    def set(self, call: str, *replies: Reply, method: str = "POST") -> None:
        """Sets what a call is answered with, one after the other."""
        self._replies[method, call] = list(replies)

    def set_tasks(self, tasks: dict[str, Any]) -> None:
        """Answers the task list."""
        self.set(EXPECTED, answer({"verifiers": tasks}))

    def count(self, call: str) -> int:
        """How often a call was made."""
        return len(self.requests[call])

    async def handle(self, request: Request) -> Response:
        """Notes a request and replies to it."""
        call = request.path_params["call"]
        form: dict[str, Any] = {}
        if request.headers.get("content-type", "").startswith("multipart/"):
            async with request.form() as parts:
                for key, part in parts.items():
                    if isinstance(part, UploadFile):
                        form[key] = (part.filename, part.content_type, await part.read())
                    else:
                        form[key] = part
        self.requests[call].append((request.method, form))
        request.state.form = form
        replies = self._replies[request.method, call]
        if not replies:
            return answer({"detail": "Method Not Allowed"}, 405)
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply if isinstance(reply, Response) else await reply(request)


@contextmanager
def running_fake_gym() -> Iterator[FakeGym]:
    """Serves a gym from a thread, so that blocking callers can talk to it too."""
    gym = FakeGym()
    route = Route("/api/v1/{call}", gym.handle, methods=["GET", "POST"])
    with serve(Starlette(routes=[route])) as gym.url:
        yield gym


@contextmanager
def refusing_address() -> Iterator[str]:
    """Yields an address that refuses connections: bound, so nobody else gets it, not listening."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@contextmanager
def dropping_address() -> Iterator[tuple[str, list[bytes]]]:
    """Yields an address that hangs up on every request, and the requests it got."""
    received: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
