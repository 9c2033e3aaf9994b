"""`browser-gym watch`, and the routes of the resources server that it asks."""

import base64
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.async_api import Page, async_playwright, expect
from typer.testing import CliRunner

from browser_gym.cli import app
from browser_gym.watching import table
from browser_gym.watching.gym import Gym, doing
from browser_gym.watching.server import WatchServer
from conftest import build_server
from resources_servers.browser_gym import watching
from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)
from tests.simulators.http_server import serve

TOKEN = "a-token-of-32-letters-and-digits"
HOSTILE = "<img src=x onerror='hacked=1'>\x1b]0;\u202e"

TASK = {
    "task_id": HOSTILE,
    "verifier": "local_storage",
    "assertions": [{"title": "a", "query": "a", "equals": 1}],
}


@pytest.fixture(scope="module")
def gym() -> Iterator[str]:
    """The address of a resources server that asks for a token."""
    with serve(build_server(browser_processes=1, max_sessions=4, auth_token=TOKEN)) as url:
        yield url


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium().executable, args=launch_args(running_as_root())
        )
        yield await browser.new_page()
        await browser.close()


@contextmanager
def shown(gym: str) -> Iterator[WatchServer]:
    asked = Gym(gym, TOKEN)
    server = WatchServer(asked)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        asked.close()


def command(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["watch", *arguments], env={"GYM_TOKEN": TOKEN})
    assert result.exit_code == status, result.output
    return result.output.replace("\n", "")


async def test_two_sessions_are_watched(gym: str, site: str, page: Page) -> None:
    faults: list[str] = []
    told: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))

    async def keep(answer: Any) -> None:
        told.append(str(await answer.all_headers()))
        if "picture" not in answer.url:
            told.append(await answer.text())

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=gym, headers=headers, timeout=60) as http:

        async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = await http.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        start = {"start_url": f"{site}/second.html"}
        first = start | {"env_id": "a/b?c=1&d#<b>", "verifier_metadata": TASK}
        await post("/seed_session", first)
        second = await post("/seed_session", start)
        with shown(gym) as server:
            page.on("response", keep)
            await page.goto(server.url)
            cards = page.locator(".card")
            await expect(cards).to_have_count(2)
            await expect(page.locator("#summary")).to_contain_text("2 of 4 sessions, 0 waiting")
            await expect(cards.nth(0)).to_contain_text("<img src=x onerror='hacked=1'>")
            await expect(cards.nth(1)).to_contain_text("no action yet")
            for index in range(2):
                picture = cards.nth(index).locator("img")
                await expect(picture).to_have_js_property("naturalWidth", 1280)

            typed = {"type": "key", "chords": [["Tab"]]}
            stepped = await post(
                "/step", {"env_id": second["env_id"], "actions": [{"type": "wait", "ms": 1}, typed]}
            )
            await expect(cards.nth(1)).to_contain_text("wait 1 ms, key Tab")
            await expect(cards.nth(1)).to_contain_text("step 1")
            picture = await http.get("/sessions/screenshot", params={"env_id": second["env_id"]})
            assert picture.content == base64.b64decode(stepped["screenshot"])

            await cards.nth(0).click()
            one = page.locator("#one")
            await expect(one).to_contain_text("a/b?c=1&d#<b>")
            await expect(one).to_contain_text(f"{site}/second.html")
            await expect(page.locator("#one img")).to_have_js_property("naturalWidth", 1280)
            await post("/close", {"env_id": first["env_id"]})
            await expect(one).to_contain_text("The session has ended")
            await page.keyboard.press("Escape")
            await expect(cards).to_have_count(1)

            # Looking puts no expiry off: the last request was before them.
            (listed,) = (await http.get("/sessions")).json()["sessions"]
            assert listed["since_request_s"] > 0
            # The cookie is the second session's.
            assert (await http.post("/browser_finish", json={"answer": "42"})).status_code == 200
            await expect(cards).to_contain_text("finished for")
            await post("/close", {"env_id": second["env_id"]})
            await expect(page.locator("#none")).to_be_visible()

            assert await page.evaluate("typeof hacked") == "undefined"
            assert not faults
            assert len(told) > 6
            assert TOKEN not in "".join(told)
            await _refusals(server)
        await expect(page.locator("#error")).to_contain_text("does not answer any more")

        await post("/seed_session", first | {"env_id": "c"})
        line = command(gym, "--token-env", "GYM_TOKEN", "--once")
        assert "1 of 4 sessions" in line
        assert "\x1b" not in line
        assert "\u202e" not in line
        await post("/close", {"env_id": "c"})


async def _refusals(server: WatchServer) -> None:
    base = f"http://127.0.0.1:{server.server_port}"
    async with httpx.AsyncClient() as http:
        for url, headers in (
            (f"{base}/", {}),
            (f"{base}/guessed/look", {}),
            (server.url, {"host": f"evil.example:{server.server_port}"}),
        ):
            answer = await http.get(url, headers=headers)
            assert answer.status_code == 403
            assert "browser-gym watch" in answer.text
        answer = await http.get(f"{server.url}picture?env_id=none")
        assert answer.status_code == 404
        assert (await http.get(f"{server.url}nothing")).status_code == 404
        assert (await http.post(f"{server.url}look")).status_code == 501
        csp = (await http.get(server.url)).headers["content-security-policy"]
        assert "default-src 'none'" in csp
        assert "unsafe" not in csp


HERE = {watching.HEADER: "1"}


@pytest.mark.parametrize(
    ("url", "peer", "headers", "status"),
    [
        ("http://127.0.0.1:1", "127.0.0.1", HERE, 200),
        ("http://localhost", "::1", HERE, 200),
        ("http://127.0.0.1:1", "127.0.0.1", {}, 403),
        ("http://127.0.0.1:1", "10.0.0.1", HERE, 403),
        ("http://evil.example", "127.0.0.1", HERE, 403),
        ("http://127.0.0.1:1", "unknown", HERE, 403),
    ],
)
async def test_without_a_token_only_this_machine_looks(
    url: str, peer: str, headers: dict[str, str], status: int
) -> None:
    server = FastAPI()
    watching.add_routes(server, lambda: [], token=False)
    transport = httpx.ASGITransport(app=server, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url=url, headers=headers) as http:
        answer = await http.get("/sessions")
        assert answer.status_code == status
        if status == 200:
            assert answer.json() == {"sessions": []}
            assert answer.headers["cache-control"] == "no-store"
        else:
            assert watching.HEADER in answer.json()["failure_reason"]
        answer = await http.get("/sessions/screenshot", params={"env_id": "a"})
        assert answer.status_code == (404 if status == 200 else status)


def test_a_server_on_this_machine_needs_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also how the command ends, in each of its ways."""
    monkeypatch.delenv("BROWSER_GYM_AUTH_TOKEN", raising=False)
    browsers = [{"alive": True}, {"alive": False}]
    health = {"sessions": 0, "max_sessions": 3, "queued": 5, "restarts": 1, "rss_mb": 12.3}
    server = FastAPI()
    server.get("/health")(lambda: health | {"browsers": browsers})
    watching.add_routes(server, lambda: [], token=False)
    line = "0 of 3 sessions, 5 waiting for one, 1 of 2 browsers alive, 12 MB, 1 restarts"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with serve(server) as url:
        assert line in command(f"{url}/", "--once")
        monkeypatch.setattr(table.time, "sleep", interrupt)
        assert line in command(url, "--plain")
        monkeypatch.setattr(WatchServer, "serve_forever", interrupt)
        assert "http://127.0.0.1:" in command(url)
        taken = url.rpartition(":")[2]
        assert f"--port {taken}" in command(url, "--port", taken, status=1)


def test_what_cannot_be_watched(gym: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROWSER_GYM_AUTH_TOKEN", raising=False)
    assert "cannot be reached" in command("http://127.0.0.1:9", "--once", status=1)
    for url in ("file:///etc/passwd", "127.0.0.1:80", "http://ann:word@h/", "http://"):
        assert "is no address of a server" in command(url, status=1)
    for more in ((), ("--once",)):
        assert "--token-env" in command(gym, *more, status=1)
    assert "tells no sessions" in command(site, status=1)
    assert "no such environment variable" in command(gym, "--token-env", "NONE", status=1)
    monkeypatch.setenv("ODD", "secret\x01é")
    words = command(gym, "--token-env", "ODD", status=1)
    assert "is no token" in words
    assert "secret" not in words


def test_actions_in_words() -> None:
    actions = [{"type": "click", "x": 1.5, "y": 20, "modifiers": ["Shift"]}, {"type": "go_back"}, 1]
    said = ["click at 1.5, 20 (Shift)", "go back", "and 3 more"]
    assert doing({"actions": actions, "actions_left_out": 3}) == said
    assert doing({}) == []
