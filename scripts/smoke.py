"""`make smoke URL=…`: walk one episode over HTTP against a running environment, without a model.

Each step is checked, and the first thing that is wrong is named: so an environment that does not
work is told from a training that does not, before a node is spent.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx
from PIL import Image

Json = dict[str, Any]

WIDTH, HEIGHT = 800, 600
ANSWER = "smoke test"
TOKEN_VARIABLE = "BROWSER_GYM_AUTH_TOKEN"
PAGE = b"""<!doctype html><meta charset="utf-8"><title>Smoke</title>
<style>body { margin: 0 } * { position: absolute; left: 0; width: 800px; height: 100px }
body, html { height: 600px; background: #eef }</style>
<button style="top: 0" onclick="localStorage.clicks = Number(localStorage.clicks ?? 0) + 1;
  document.body.style.background = '#9f9'">one more</button>
<input style="top: 100px" oninput="localStorage.text = this.value">"""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Wrong(Exception):
    """Something does not work; the text says what, and what to look at."""


class Smoke:
    """One episode, step by step.

    Args:
        http: client of the resources server.
        start_url: page to start on.
        own_page: whether that is the page of this program, which it knows how to use.
    """

    def __init__(self, http: httpx.Client, start_url: str, *, own_page: bool) -> None:
        self._http = http
        self._start_url = start_url
        self._own_page = own_page
        self._env_id = ""
        self._graded = False
        self._screen = b""

    def run(self) -> None:
        """Walk the episode, and print a line for each step.

        Raises:
            Wrong: a step went wrong.
        """
        steps = [
            ("reach the server", self._reach),
            ("seed a session", self._seed),
            ("act", self._act),
            ("read what it left behind", self._read),
            ("verify", self._verify),
            ("close", self._close),
        ]
        try:
            for name, step in steps:
                started = time.monotonic()
                try:
                    told = step()
                except Wrong as wrong:
                    raise Wrong(f"could not {name}: {wrong}") from wrong
                print(f"  ok  {name:<26}{(time.monotonic() - started) * 1000:6.0f} ms  {told}")
        finally:
            if self._env_id and not self._graded:
                with suppress(httpx.HTTPError):  # what is wrong was named before
                    self._http.post("/close", json={"env_id": self._env_id})

    def _reach(self) -> str:
        health = self._ask("GET", "/health")
        if "max_sessions" not in health:
            raise Wrong(f"this is no Browser Gym resources server: /health says {_short(health)}")
        if health["status"] != "ok":
            raise Wrong(f"a browser is gone and not replaced: /health says {_short(health)}")
        if health["sessions"] >= health["max_sessions"]:
            raise Wrong(f"all {health['max_sessions']} sessions are in use")
        return f"{health['chromium']}, {health['sessions']}/{health['max_sessions']} sessions"

    def _seed(self) -> str:
        seeded = self._ask("POST", "/seed_session", self._task() | {"start_url": self._start_url})
        self._env_id = seeded.get("env_id", "")
        if not self._env_id:
            raise Wrong(f"no env_id in {_short(seeded)}")
        self._screen = self._picture(seeded)
        return f"{seeded['current_url']}, {len(self._screen):,} bytes of {seeded['media_type']}"

    def _act(self) -> str:
        click = {"type": "click", "x": 100, "y": 50}
        write = {"type": "type", "x": 100, "y": 150, "text": "hällo 🚀"}
        actions = [click, write] if self._own_page else [{"type": "wait", "ms": 100}]
        body = {"env_id": self._env_id, "actions": actions, "operation_id": "smoke-1"}
        stepped = self._ask("POST", "/step", body)
        if stepped["error"]:
            raise Wrong(f"the action failed: {stepped['error']}")
        picture = self._picture(stepped)
        if self._own_page and picture == self._screen:
            raise Wrong("the page changed its colour, but the screenshot is the same as before")
        if self._ask("POST", "/step", body) != stepped:
            raise Wrong("a repeated operation_id gave another answer, so actions may run twice")
        return ", ".join(f"{name} {ms:.0f} ms" for name, ms in stepped["timings_ms"].items())

    def _read(self) -> str:
        dumped = self._ask("POST", "/dump_local_storage", {"env_id": self._env_id})
        stored = dumped["origins"].get(dumped["start_origin"], {})
        if self._own_page and stored != {"clicks": "1", "text": "hällo 🚀"}:
            raise Wrong(f"localStorage should hold one click and the text, but is {stored}")
        return f"{len(stored)} keys in localStorage of {dumped['start_origin']}"

    def _verify(self) -> str:
        params = {"input": [{"role": "user", "content": "Smoke test."}]}
        row = {"responses_create_params": params, "response": _response(), **self._task()}
        graded = self._ask(
            "POST", "/verify", row | {"env_id": self._env_id, "final_answer": ANSWER}
        )
        self._graded = True
        if graded.get("mask_sample"):
            raise Wrong(f"masked: {graded.get('failure_kind')}: {graded.get('failure_reason')}")
        if graded["reward"] != 1:
            raise Wrong(f"the reward should be 1: {_short(graded.get('verification_result'))}")
        return "reward 1"

    def _close(self) -> str:
        closed = self._ask("POST", "/close", {"env_id": self._env_id})
        if closed["success"]:
            raise Wrong("the session was still open after it had been graded")
        return closed["message"]

    def _task(self) -> Json:
        assertions: list[Json] = [{"title": "the answer", "answer_equals": ANSWER}]
        if self._own_page:
            assertions.append({"title": "one click", "query": "clicks", "equals": 1})
        metadata = {
            "task_id": "smoke",
            "start_url": self._start_url,
            "viewport": {"width": WIDTH, "height": HEIGHT},
            "verifier": "local_storage",
            "assertions": assertions,
        }
        return {"verifier_metadata": metadata}

    def _picture(self, observation: Json) -> bytes:
        data = base64.b64decode(observation["screenshot"])
        if not data:
            raise Wrong(f"there is no screenshot: the page drew nothing; {_events(observation)}")
        size = Image.open(io.BytesIO(data)).size
        if size != (WIDTH, HEIGHT):
            raise Wrong(f"the screenshot has {size} px instead of {WIDTH} by {HEIGHT}")
        return data

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise Wrong(f"{self._http.base_url}: {type(error).__name__}: {error}") from error
        try:
            content = answer.json()
        except ValueError:
            content = answer.text
        if answer.status_code in (401, 403):
            raise Wrong(
                f"{path} answered HTTP {answer.status_code}: set {TOKEN_VARIABLE} to the server's "
                "token"
            )
        if not answer.is_success:
            reason = content
            if isinstance(content, dict) and "failure_kind" in content:
                reason = f"{content['failure_kind']}: {content['failure_reason']}"
            raise Wrong(f"{path} answered HTTP {answer.status_code}: {_short(reason)}")
        if not isinstance(content, dict):
            raise Wrong(f"{path} answered no JSON object: {_short(content)}")
        return content


def _response() -> Json:
    """Return the response of a model that said nothing, as `/verify` wants one."""
    return {
        "id": "smoke",
        "object": "response",
        "created_at": 0,
        "model": "none",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _events(observation: Json) -> str:
    return f"events: {_short(observation.get('events'))}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 500 else text[:500] + "…"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _own_page() -> Iterator[str]:
    """Serve the page on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the smoke test; 0 if all is well, 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="make smoke",
        description=__doc__,
        epilog=f"If the server asks for a token: it is read from {TOKEN_VARIABLE}.",
    )
    parser.add_argument("url", help="of the resources server, as `gym env start` prints it")
    parser.add_argument(
        "--start-url",
        help="page to start on; needed if the server runs on another machine, which cannot reach "
        "the page of this program",
    )
    parser.add_argument("--timeout", type=float, default=180, help="for one answer, in s")
    options = parser.parse_args(arguments)
    if urlsplit(options.url).hostname is None:
        parser.error(f"not an http address: {options.url!r}")
    start_url = options.start_url
    if start_url is None and urlsplit(options.url).hostname not in LOOPBACK:
        parser.error("the server is on another machine: give --start-url, a page it can reach")
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    print(f"Browser Gym at {options.url}")
    try:
        with httpx.Client(base_url=options.url, headers=headers, timeout=options.timeout) as http:
            if start_url:
                Smoke(http, start_url, own_page=False).run()
            else:
                with _own_page() as page_url:
                    Smoke(http, page_url, own_page=True).run()
    except Wrong as wrong:
        print(f"WRONG {wrong}")
        return 1
    print("All is well.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
