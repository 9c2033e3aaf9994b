"""How the Gemini model server reaches the API, and what it does when that fails."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from omegaconf import OmegaConf
from pydantic import ValidationError

from responses_api_models.api_keys import MissingApiKey
from responses_api_models.gemini_model import transport
from responses_api_models.gemini_model.tests.helpers import (
    ask,
    config,
    error,
    model,
    request,
    server,
)
from tests.simulators import gemini_scripts as scripts
from tests.simulators.faults import dropped_connection, trickle
from tests.simulators.gemini_api import GeminiSimulator
from tests.simulators.http_server import serve

SERVER = Path(__file__).resolve().parents[1]

# Access -------------------------------------------------------------------------------------------


async def test_the_key_and_the_address() -> None:
    simulator = GeminiSimulator(scripts.script())
    with simulator.serve() as base_url:
        for settings in ({}, {"gemini_model": "models/gemini-3.8-flash"}):
            async with model(base_url, **settings) as client:
                await ask(client, request())
        async with model(base_url, gemini_api_key="AIza-wrong") as client:
            assert "API key not valid" in (await error(client, request(), 400))["message"]
        async with model(base_url, gemini_model="gemini-none") as client:
            assert (await error(client, request(), 404))["code"] == "NOT_FOUND"
    assert simulator.requests[0].path == "/v1beta/models/gemini-3.8-flash:generateContent"
    assert simulator.requests[0].path == simulator.requests[1].path


VERTEX = {"vertex": True, "vertex_project": "sim-project", "vertex_location": "global"}
VERTEX_PATH = (
    "/v1beta1/projects/sim-project/locations/global/publishers/google/models/"
    "gemini-3.8-flash:generateContent"
)


async def test_vertex_with_a_key() -> None:
    simulator = GeminiSimulator(scripts.script())
    with simulator.serve() as base_url:
        async with model(base_url, **VERTEX) as client:
            await ask(client, request())
        async with model(base_url, vertex=True, vertex_location="global") as client:
            await ask(client, request())
    assert [r.path for r in simulator.requests] == [
        VERTEX_PATH,
        "/v1beta1/publishers/google/models/gemini-3.8-flash:generateContent",
    ]


def service_account(tmp_path: Path, token_url: str) -> Path:
    """Write the credentials file of a service account whose tokens come from `token_url`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path / "credentials.json"
    account = {
        "type": "service_account",
        "project_id": "sim-project",
        "client_email": "gym@sim-project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "token_uri": token_url,
    }
    path.write_text(json.dumps(account))
    return path


async def test_vertex_with_default_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The SDK would take all of these from the environment.
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-of-someone-else")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v0")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "another-project")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "false")
    simulator = GeminiSimulator(scripts.script())
    settings = {**VERTEX, "gemini_api_key": ""}
    with simulator.serve() as base_url:
        path = service_account(tmp_path, f"{base_url}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        async with model(base_url, **settings) as client:
            await ask(client, request())
        async with model(base_url, **settings | {"vertex_project": "other"}) as client:
            assert (await error(client, request(), 403))["code"] == "PERMISSION_DENIED"
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
        async with model(base_url, **settings) as client:
            assert (await error(client, request(), 401))["code"] == "no_credentials"
    assert simulator.requests[0].path == VERTEX_PATH
    assert simulator.requests[0].headers["authorization"] == "Bearer ya29-simulator"
    assert "x-goog-api-key" not in simulator.requests[0].headers


def test_googles_own_addresses() -> None:
    assert server(None).address == "https://generativelanguage.googleapis.com/"
    for location, host in (
        ("global", "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
    ):
        settings = {**VERTEX, "gemini_api_key": None, "vertex_location": location}
        assert server(None, **settings).address == f"https://{host}/"


def test_a_key_or_a_project_on_vertex_is_needed() -> None:
    for key in (None, " ", "AIza..."):
        with pytest.raises(MissingApiKey, match="vertex_project and vertex_location"):
            config(gemini_api_key=key, vertex=True, vertex_project="p").access()
        assert config(gemini_api_key=key, **VERTEX).access().api_key is None
    assert config(gemini_api_key=" AIza-real ").access().api_key == "AIza-real"


def test_an_unknown_excluded_function_is_named() -> None:
    with pytest.raises(ValidationError, match="not predefined functions of Gemini: clik"):
        config(excluded_functions=["clik", "search"])


def test_the_ready_made_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-real")
    loaded = OmegaConf.load(SERVER / "configs/gemini_model.yaml")
    resolved: Any = OmegaConf.to_container(loaded, resolve=True)
    settings = resolved["policy_model"]["responses_api_models"]["gemini_model"]
    assert config(**settings).access() == transport.Access(api_key="AIza-real")
    # The file spells out the defaults.
    assert config(**settings).settings() == config().settings()


# Failures -----------------------------------------------------------------------------------------


@pytest.fixture
def simulator() -> GeminiSimulator:
    return GeminiSimulator(scripts.script())


@pytest.mark.parametrize(
    "fault",
    [
        scripts.rate_limited(retry_after="0.01"),
        scripts.rate_limited(retry_info="0.01s"),
        scripts.rate_limited(retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    ],
)
async def test_retries_are_bounded_and_honour_what_is_asked(
    simulator: GeminiSimulator, fault: scripts.Fault
) -> None:
    with simulator.serve() as base_url:
        async with model(base_url, max_retries=3) as client:
            simulator.fail_next(fault, times=3)
            await ask(client, request())
            assert [r.status for r in simulator.requests] == [429, 429, 429, 200]
        async with model(base_url, max_retries=1) as client:
            simulator.fail_next(fault, times=2)
            response = await client.post("/v1/responses", json=request())
            assert response.status_code == 429
            assert float(response.headers["retry-after"]) <= 0.01
            assert response.json()["error"]["code"] == "RESOURCE_EXHAUSTED"
            assert len(simulator.requests) == 6


async def test_a_long_delay_is_the_callers_to_wait_for(simulator: GeminiSimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url, max_retries=3) as client:
            simulator.fail_next(scripts.rate_limited(retry_info="86400s"))
            response = await client.post("/v1/responses", json=request())
    assert (response.status_code, response.headers["retry-after"]) == (429, "86400")
    assert len(simulator.requests) == 1


async def test_passing_failures_are_repeated(
    simulator: GeminiSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "FIRST_DELAY_S", 0.01)
    faults = [
        scripts.server_error(),
        scripts.unavailable(),
        scripts.hang(),
        scripts.cut_connection(),
        scripts.rate_limited(),
    ]
    for fault in faults:
        simulator.fail_next(fault)
    with simulator.serve() as base_url:
        async with model(base_url, timeout_s=1, max_retries=5) as client:
            await ask(client, request())
    assert len(simulator.requests) == 6


async def test_failing_servers_and_connections(simulator: GeminiSimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url, timeout_s=1) as client:
            for fault, status, code in (
                (scripts.server_error(), 500, "INTERNAL"),
                (scripts.unavailable(), 503, "UNAVAILABLE"),
                (scripts.hang(), 504, "timeout"),
                (trickle(), 504, "timeout"),
                (scripts.cut_connection(), 502, "connection_failed"),
                (scripts.malformed_json(), 502, "connection_failed"),
                (dropped_connection(), 502, "connection_failed"),
                (scripts.too_long(), 400, "context_length_exceeded"),
            ):
                simulator.fail_next(fault)
                assert (await error(client, request(), status))["code"] == code
            await ask(client, request())
        async with model(base_url, max_retries=2) as client:
            before = len(simulator.requests)
            for fault in (scripts.malformed_json(), dropped_connection()):
                simulator.fail_next(fault)
            await ask(client, request())
            assert len(simulator.requests) == before + 3


async def test_error_pages_of_gateways(simulator: GeminiSimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            simulator.fail_next(scripts.error_page(503, b"<h1>Overloaded</h1>"))
            assert (await error(client, request(), 503))["message"] == "<h1>Overloaded</h1>"
            simulator.fail_next(scripts.error_page(503, "<h1>Überlastet</h1>".encode("latin-1")))
            assert (await error(client, request(), 502))["code"] == "bad_reply"


async def test_what_is_no_reply_is_a_502() -> None:
    for reply, named in (
        (scripts.SimReply(None, extra={"candidates": [1]}), "candidates"),
        (scripts.SimReply(None, extra={"candidates": [{"content": {"parts": [1]}}]}), "malformed"),
    ):
        with GeminiSimulator(scripts.script(reply)).serve() as base_url:
            async with model(base_url) as client:
                assert named in (await error(client, request(), 502))["message"]


async def test_what_cannot_be_translated_is_a_400(simulator: GeminiSimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            refused = await error(client, request(previous_response_id="resp_1"), 400)
            assert refused["message"].startswith("previous_response_id: ")
    assert simulator.requests == []


async def test_shutdown_closes_the_client() -> None:
    instance = server("http://127.0.0.1:1")
    with serve(instance.setup_webserver()):
        assert not instance.is_closed
    assert instance.is_closed
