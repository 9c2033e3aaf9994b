"""Who may ask the server, how large a request may be, and what is never shown or logged."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from nemo_gym import server_utils
from starlette.routing import Route

from conftest import RESPONSE, Client, build_server
from resources_servers.browser_gym import access, strict_json
from resources_servers.browser_gym.redaction import HIDDEN, hide_secrets, without_secrets
from resources_servers.browser_gym.tests.fake_gym import FakeGym

TOKEN = "a-token-of-32-letters-and-digits"


def asking(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    """Return a client of a server whose browsers are not started: it is only asked to refuse."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://gym", headers=headers)


@pytest.mark.parametrize("where", ["config", "environment"])
async def test_every_route_asks_for_the_token(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "environment":
        monkeypatch.setenv(access.TOKEN_VARIABLE, TOKEN)
    app = build_server(**({"auth_token": TOKEN} if where == "config" else {}))
    known = [route for route in app.routes if isinstance(route, Route)]
    routes = [(method, route.path) for route in known for method in route.methods or ()]
    assert ("POST", "/seed_session") in routes
    assert ("GET", "/openapi.json") in routes
    async with asking(app) as http:
        for method, path in [*routes, ("GET", "/nowhere"), ("POST", "//health")]:
            answer = await http.request(method, path, content=b"{")
            if path != "/health":
                assert answer.status_code == 401, path
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "auth_token" in answer.text or method == "HEAD"
                assert TOKEN not in answer.text
        for given in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer \xe9"):
            headers = {"authorization": given.encode("latin-1")}
            answer = await http.get("/reverify_mode", headers=headers)  # type: ignore[arg-type]
            assert answer.status_code == 401, given
    async with asking(app, authorization=f"bearer {TOKEN}") as http:
        assert (await http.get("/reverify_mode")).status_code == 200


async def test_no_token_no_question() -> None:
    async with asking(build_server(auth_token="")) as http:
        assert (await http.get("/reverify_mode")).status_code == 200


async def _chunks(*chunks: bytes, last: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if last:
        await last.wait()


async def test_bodies_that_are_too_large_or_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    app = build_server(max_request_bytes=1000)
    known = [route for route in app.routes if isinstance(route, Route)]
    routes = [route.path for route in known if "POST" in (route.methods or ())]
    assert "/verify" in routes
    async with asking(app) as http:
        for route in routes:
            for content in (b'"' + b"x" * 1000, _chunks(b'"', b"x" * 500, b"x" * 500)):
                answer = await http.post(route, content=content)
                assert answer.status_code == 413
                assert "max_request_bytes" in answer.json()["failure_reason"]
        assert (await http.post("/close", content=b"x" * 1000)).status_code == 422
        monkeypatch.setattr(strict_json, "BODY_PAUSE_S", 0.05)
        answer = await http.post("/close", content=_chunks(b'{"', last=asyncio.Event()))
        assert answer.status_code == 408
        assert "nothing of it came" in answer.json()["failure_reason"]


CANARY = "canary-7f3a"


async def test_a_secret_is_in_no_log_answer_or_row(
    client: Client, gym: FakeGym, site: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = site.removeprefix("http://")
    answers: list[str] = []

    async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await client.http.post(path, json=body)
        answers.append(answer.text)
        return answer.json()

    browser = {
        "headers": {"X-Token": CANARY},
        "http_credentials": {"username": "ann", "password": CANARY},
        "cookies": [{"name": "sid", "value": CANARY, "url": site}],
    }
    good = {
        "start_url": f"{site}/second.html?api_token={CANARY}&a=1",
        "browser": browser,
        "verifier": "local_storage",
        "assertions": [{"title": "any", "only_changed": []}],
    }
    # Rows with the secret in a place that is refused.
    for wrong in (
        {"headers": {"X-Token": f"{CANARY}\n"}},
        {"headers": [CANARY]},
        {"headers": CANARY},
        {"http_credentials": {"username": "ann", "password": [CANARY]}},
        {"http_credentials": CANARY},
        {"cookies": [{"name": "sid", "value": CANARY}]},
        {"cookies": [{"name": "__Host-a", "value": CANARY, "url": site}]},
        {"cookie": CANARY, **browser},
        {"local_storage": {site: {"a": {"token": CANARY}}}},
    ):
        refused = await post("/seed_session", {"verifier_metadata": good | {"browser": wrong}})
        assert refused["failure_reason"]
    for url in (
        f"http://ann:{CANARY}@127.0.0.1:9/",
        f"http://127.0.0.1:9/?access_token={CANARY}",
        f"{site}/status/500?client_secret={CANARY}#id_token={CANARY}",
        f"file://ann:{CANARY}@127.0.0.1/x",
    ):
        refused = await post("/seed_session", {"verifier_metadata": good | {"start_url": url}})
        assert refused["failure_reason"]
    seeded = await post("/seed_session", {"verifier_metadata": good})
    env_id = seeded["env_id"]
    client.opened.append(env_id)
    assert seeded["current_url"] == f"{site}/second.html?api_token={HIDDEN}&a=1"
    for action in (
        {"type": "navigate", "url": f"http://ann:{CANARY}@127.0.0.1:9/?sig=1"},
        {"type": "navigate", "url": f"{site}/status/404?refresh_token={CANARY}"},
        {"type": "list_tabs"},
        {"type": "navigate", "url": f"http://ann:{CANARY}@{host}/second.html?password={CANARY}"},
    ):
        await post("/step", {"env_id": env_id, "action": action})
    await post("/dump_local_storage", {"env_id": env_id})
    # Graded, and masked since its web gym fails.
    row = {"responses_create_params": {"input": []}, "response": RESPONSE, "env_id": env_id}
    graded = await post("/verify", row | {"verifier_metadata": good})
    assert graded["reward"] == 1
    assert graded["verifier_metadata"]["browser"]["headers"] == {"X-Token": HIDDEN}
    metadata = {
        "task_id": "T",
        "gym_url": gym.url.replace("http://", f"http://ann:{CANARY}@") + "/nowhere",
        "start_url": f"{site}/second.html",
    }
    seeded = await post("/seed_session", {"verifier_metadata": metadata})
    client.opened.append(seeded["env_id"])
    masked = await post(
        "/verify", row | {"env_id": seeded["env_id"], "verifier_metadata": metadata}
    )
    assert masked["mask_sample"] is True
    answers += [(await client.http.get(path)).text for path in ("/health", "/metrics")]
    assert [text for text in answers if CANARY in text] == []
    assert [r.getMessage() for r in caplog.records if CANARY in r.getMessage()] == []
    assert CANARY not in caplog.text


_HIDDEN_NAMES = f"http://h/?user[password]={HIDDEN}&api-key={HIDDEN}&sig={HIDDEN}"
_HIDDEN_WITHIN = f"http://h/?to=http%3A%2F%2Fa%2F%3Ftoken%3D{HIDDEN}&b=1"


async def test_what_is_in_a_malformed_body_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app = build_server()
    # As NeMo Gym does once the app is made.
    app.exception_handler(RequestValidationError)(server_utils._validation_exception_handler)
    metadata = {"browser": {"headers": {"X-Token": CANARY}}}
    async with asking(app) as http:
        for path in ("/verify", "/seed_session"):
            body = {"verifier_metadata": metadata, "resources_session_id": "a"}
            answer = await http.post(path, json=body)
            assert answer.status_code == 422
            assert answer.json()["detail"][0]["loc"][0] == "body"
            assert CANARY not in answer.text
    assert "/verify: malformed" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://a/?x=1&token=abc&y=2", f"http://a/?x=1&token={HIDDEN}&y=2"),
        ("see https://u:p@h/x?API_KEY=1.", f"see https://{HIDDEN}@h/x?API_KEY={HIDDEN}"),
        ("http://h/#access_token=abc", f"http://h/#access_token={HIDDEN}"),
        ("https://token@h/", f"https://{HIDDEN}@h/"),
        (
            "X-Amz: http://h/?X-Amz-Signature=00ff 'b'",
            f"X-Amz: http://h/?X-Amz-Signature={HIDDEN} 'b'",
        ),
        ("http://h/a@b?q=token&tokens_used=5", "http://h/a@b?q=token&tokens_used=5"),
        ("mail ann@h and a = b", "mail ann@h and a = b"),
        ("http://ann:p@ss@h/", f"http://{HIDDEN}@h/"),
        ("http://h/?user[password]=a&api-key=b&sig=c;d", _HIDDEN_NAMES),
        ("http://h/?user%5Bpwd%5D=a&b=1", f"http://h/?user%5Bpwd%5D={HIDDEN}&b=1"),
        ("http://h/?to=http%3A%2F%2Fa%2F%3Ftoken%3Dabc&b=1", _HIDDEN_WITHIN),
    ],
)
def test_what_is_hidden_in_a_text(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown


def test_a_row_is_changed_nowhere_else() -> None:
    metadata: dict[str, Any] = {
        "task_id": "T",
        "start_url": "http://h/?a=1",
        "browser": {"locale": "de-DE", "headers": None, "cookies": [{"name": "a", "value": "b"}]},
    }
    before = json.dumps(metadata)
    shown = without_secrets(metadata)
    assert json.dumps(metadata) == before
    assert shown["browser"]["cookies"] == [{"name": "a", "value": HIDDEN}]
    shown["browser"]["cookies"] = metadata["browser"]["cookies"]
    assert shown == metadata
    parts = [{"verifier": "all_of", "verifiers": [{"gym_url": "http://ann:word@h/"}, 1]}]
    shown = without_secrets({"task_id": "T", "verifiers": parts})
    assert shown["verifiers"][0]["verifiers"] == [{"gym_url": f"http://{HIDDEN}@h/"}, 1]
