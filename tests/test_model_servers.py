"""What the model servers of all providers do alike; each one's own tests have the rest."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig
from omegaconf import OmegaConf

from responses_api_agents.browser_agent.tests.providers import PROVIDERS, ROOT, Provider
from responses_api_models.api_keys import MissingApiKey
from tests.documented import first_column
from tests.simulators.http_server import serve

SERVERS = ROOT / "responses_api_models"
NOWHERE = "http://127.0.0.1:1"
# How each provider's own examples of keys look.
EXAMPLES = {"openai": "sk-...", "anthropic": "sk-ant-...", "gemini": "AIza..."}

every_provider = pytest.mark.parametrize("name", PROVIDERS)


def key_setting(provider: Provider) -> str:
    """Name of the setting that holds the key."""
    return next(name for name in provider.access(NOWHERE) if name.endswith("_api_key"))


@asynccontextmanager
async def client_of(name: str, url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a model server before an API at `url`."""
    provider = PROVIDERS[name]
    app = provider.app(**provider.access(url), max_retries=0, **settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app=app)
        client = httpx.AsyncClient(transport=transport, base_url="http://model", timeout=30)
        yield await stack.enter_async_context(client)


@every_provider
def test_the_ready_made_config_has_known_settings_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = PROVIDERS[name]
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "none")
    path = SERVERS / provider.model_type / f"configs/{provider.model_type}.yaml"
    document: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    settings = document["policy_model"]["responses_api_models"][provider.model_type]
    assert settings.keys() <= provider.config.model_fields.keys()


@every_provider
def test_the_readme_lists_all_settings(name: str) -> None:
    provider = PROVIDERS[name]
    own = provider.config.model_fields.keys() - BaseResponsesAPIModelConfig.model_fields.keys()
    assert first_column(SERVERS / provider.model_type / "README.md", "setting") == own


@every_provider
def test_a_missing_or_placeholder_key_is_named(name: str) -> None:
    setting = key_setting(PROVIDERS[name])
    words = rf"Set cua_{name}_api_key in env.yaml, or {name.upper()}_API_KEY"
    for key in (None, "", "  ", "<your key>", "your-api-key", "CHANGEME", EXAMPLES[name]):
        with pytest.raises(MissingApiKey, match=words):
            PROVIDERS[name].app(**{setting: key})


@contextmanager
def started(provider: Provider) -> Iterator[subprocess.Popen[str]]:
    """A model server without a key, started as NeMo Gym does: `python app.py` in its folder."""
    settings = provider.model_settings() | {"host": "127.0.0.1", "port": 1}
    settings[key_setting(provider)] = None
    servers = {
        "policy_model": {"responses_api_models": {provider.model_type: settings}},
        "head_server": {"host": "127.0.0.1", "port": 1},
    }
    variables = {
        "NEMO_GYM_CONFIG_DICT": json.dumps(servers),
        "NEMO_GYM_CONFIG_PATH": "policy_model",
    }
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=SERVERS / provider.model_type,
        env=os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# Each takes seconds to start, and as many times that on a busy machine.
@pytest.mark.timeout(300)
def test_without_a_key_each_server_ends_with_one_line() -> None:
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(provider)) for name, provider in PROVIDERS.items()
        }
        for name, process in processes.items():
            told = process.communicate()[1]
            assert process.returncode == 1
            last = told.strip().splitlines()[-1]
            assert last.startswith(f"{PROVIDERS[name].model_type}: the ")
            assert f"cua_{name}_api_key" in last
            assert "Traceback" not in told


@every_provider
async def test_no_more_requests_in_flight_than_allowed(name: str) -> None:
    now = most = 0
    enough = asyncio.Event()

    async def api(scope: Any, receive: Any, send: Any) -> None:
        nonlocal now, most
        if scope["type"] != "http":
            return
        now += 1
        most = max(most, now)
        if now == expected:
            enough.set()
        await enough.wait()
        await asyncio.sleep(0.1)  # the chance for one request too many to arrive
        now -= 1
        await send({"type": "http.response.start", "status": 400})
        await send({"type": "http.response.body", "body": b"{}"})

    with serve(api) as url:
        for limit, expected in ((2, 2), (None, 4)):
            most = 0
            enough.clear()
            async with client_of(name, url, max_concurrent_requests=limit) as client:
                asked = (client.post("/v1/responses", json={"input": "Hi."}) for _ in range(4))
                assert {answer.status_code for answer in await asyncio.gather(*asked)} == {400}
            assert most == expected


@every_provider
async def test_what_cannot_be_reached_or_served_is_told(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with client_of(name, url) as client:
            lost = await client.post("/v1/responses", json={"input": "Hi."})
            chat = await client.post("/v1/chat/completions", json={"messages": []})
    assert (lost.status_code, lost.json()["error"]["code"]) == (502, "connection_failed")
    assert f"could not be reached at {url}" in lost.json()["error"]["message"]
    assert (chat.status_code, chat.json()["error"]["code"]) == (501, "not_implemented")
