"""`make smoke` against servers that work and servers that do not."""

import json

import httpx
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from responses_api_agents.browser_agent.tests.stack import served_environment
from scripts.smoke import main
from tests.front import Passing, front_of


def sessions(url: str) -> int:
    return httpx.get(f"{url}/health").json()["sessions"]


def test_smoke(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served_environment(max_sessions=1, queue_limit=0) as url:
        assert main([url]) == 0
        assert "All is well" in capsys.readouterr().out
        assert sessions(url) == 0

        assert main([url, "--start-url", f"{site}/links.html"]) == 0

        assert main([url, "--start-url", "http://127.0.0.1:9/"]) == 1
        assert "could not seed a session: /seed_session answered HTTP 503" in read(capsys)

        held = httpx.post(f"{url}/seed_session", json={"start_url": f"{site}/links.html"})
        assert main([url]) == 1
        assert "all 1 sessions are in use" in read(capsys)
        httpx.post(f"{url}/close", json={"env_id": held.json()["env_id"]})

        for path, words in WRONGS:
            with front_of(url, wrongly(path)) as front:
                assert main([front]) == 1
            assert words in read(capsys)
            assert sessions(url) == 0, "a failed smoke test left its session open"

    assert main([url]) == 1
    assert "could not reach the server" in read(capsys)


def read(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line printed, which names what is wrong."""
    return capsys.readouterr().out.splitlines()[-1]


WRONGS = [
    ("/health", "this is no Browser Gym resources server"),
    ("/seed_session", "no screenshot"),
    ("/step", "may run twice"),
    ("/dump_local_storage", "should hold one click and the text"),
    ("/verify", "masked: verifier_error: made up"),
    ("/close", "was still open"),
]


def wrongly(path: str):
    """Treat the requests of one route so that the answer is wrong."""
    calls = []

    async def treat(passing: Passing) -> Response:
        answered = await passing.forward()
        if passing.path != path:
            return answered
        calls.append(path)
        body = json.loads(bytes(answered.body))
        match path:
            case "/health":
                return PlainTextResponse('{"status": "ok"}', media_type="application/json")
            case "/seed_session":
                body["screenshot"] = ""
            case "/step":
                body["title"] = str(len(calls))
            case "/dump_local_storage":
                body["origins"][body["start_origin"]]["clicks"] = "2"
            case "/verify":
                body |= {"mask_sample": True, "failure_kind": "verifier_error"}
                body["failure_reason"] = "made up"
            case "/close":
                body["success"] = True
        return JSONResponse(body)

    return treat


@pytest.mark.parametrize("arguments", [["gym.example:8000"], ["http://gym.example:8000"], []])
def test_smoke_says_how_it_is_used(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "usage: make smoke" in capsys.readouterr().err
