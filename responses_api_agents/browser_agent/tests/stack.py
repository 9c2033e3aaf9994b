"""The whole stack for agent tests: real servers on loopback around a simulated OpenAI API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from nemo_gym import server_utils
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient
from omegaconf import DictConfig

from conftest import build_server
from responses_api_agents.browser_agent.app import BrowserAgent
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig
from responses_api_models.openai_computer_model.app import (
    OpenAIComputerModel,
    OpenAIComputerModelConfig,
)
from responses_api_models.scripted_model.app import ScriptedModel, ScriptedModelConfig
from tests.simulators.http_server import serve
from tests.simulators.openai_api import OpenAISimulator
from tests.simulators.openai_scripts import Policy

MODEL = "gpt-5.4"


@contextmanager
def served_environment(**config: Any) -> Iterator[str]:
    """A resources server over real HTTP."""
    with serve(build_server(**config)) as url:
        yield url


@contextmanager
def served_model(api_url: str, model: str, **config: Any) -> Iterator[str]:
    """The OpenAI model server over real HTTP."""
    settings = OpenAIComputerModelConfig(
        host="127.0.0.1",
        port=1,
        entrypoint="app.py",
        name="policy_model",
        openai_base_url=api_url,
        openai_model=model,
        **{"openai_api_key": "sk-simulator", "max_retries": 0, "timeout_s": 30, **config},
    )
    server = OpenAIComputerModel(config=settings, server_client=server_client({}))
    with serve(server.setup_webserver()) as url:
        yield url


@contextmanager
def served_script(scripts_path: Path) -> Iterator[str]:
    """The scripted model server over real HTTP."""
    settings = ScriptedModelConfig(
        host="127.0.0.1",
        port=1,
        entrypoint="app.py",
        name="policy_model",
        scripts_path=str(scripts_path),
    )
    server = ScriptedModel(config=settings, server_client=server_client({}))
    with serve(server.setup_webserver()) as url:
        yield url


def _address(url: str, server_type: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {server_type: {"any": {"host": parts.hostname, "port": parts.port}}}


class Stack:
    """An agent, and the simulator behind its model server."""

    def __init__(self, http: httpx.AsyncClient, simulator: OpenAISimulator, folder: Path) -> None:
        self.http = http
        self.simulator = simulator
        self.folder = folder

    async def run(self, start_url: str, *, check: bool = True, **row: Any) -> dict[str, Any]:
        """Run one rollout of a task that is solved when localStorage has `second`.

        Args:
            start_url: of the task.
            check: whether the API must have refused nothing.
            row: other fields of the task row.
        """
        metadata = {
            "task_id": "T-1",
            "start_url": start_url,
            "viewport": {"width": 1280, "height": 720},
            "verifier": "local_storage",
            "assertions": [{"title": "second page seen", "query": "second", "equals": "visited"}],
        }
        body = {
            "responses_create_params": {"input": [{"role": "user", "content": "Do the task."}]},
            "verifier_metadata": metadata,
        }
        answer = await self.http.post("/run", json=body | row)
        assert answer.status_code == 200, answer.text
        if check:
            self.check_requests()
        return answer.json()

    def check_requests(self) -> None:
        """Check that the API refused nothing and got its own items back unchanged."""
        refused = [r.error for r in self.simulator.requests if r.status == 400]
        assert refused == []
        assert self.simulator.altered_items() == []

    def stored(self, reference: str) -> bytes:
        """Return a screenshot a row refers to."""
        return (self.folder / reference).read_bytes()


@asynccontextmanager
async def running_agent(
    environment_url: str, model_url: str, folder: Path, **config: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Start an agent between a resources server and a model server, and yield a client of it.

    Args:
        environment_url: of the resources server.
        model_url: of the model server.
        folder: where its `artifacts` go.
        config: of the agent; its servers are the two given whatever they are called.
    """
    settings = BrowserAgentConfig.model_validate(
        {
            "host": "127.0.0.1",
            "port": 1,
            "entrypoint": "app.py",
            "name": "browser_openai_agent",
            "resources_server": {"type": "resources_servers", "name": "browser_gym"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "artifact_dir": str(folder / "artifacts"),
            **config,
        }
    )
    servers = {
        settings.resources_server.name: _address(environment_url, "resources_servers"),
        settings.model_server.name: _address(model_url, "responses_api_models"),
    }
    agent = BrowserAgent(config=settings, server_client=server_client(servers))
    app = agent.setup_webserver()
    if not server_utils.is_global_aiohttp_client_setup():
        server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent", timeout=120) as http:
        yield http


@asynccontextmanager
async def running_stack(
    policy: Policy, environment_url: str, folder: Path, *, model: str = MODEL, **config: Any
) -> AsyncIterator[Stack]:
    """Start a simulated API, a model server and an agent around a resources server."""
    simulator = OpenAISimulator(policy)
    model_config = config.pop("model_server_config", {})
    model_url = config.pop("model_url", None)
    with simulator.serve() as api_url, served_model(api_url, model, **model_config) as served_url:
        async with running_agent(
            environment_url, model_url or served_url, folder, model=model, **config
        ) as http:
            yield Stack(http, simulator, folder)


def server_client(servers: dict[str, Any]) -> ServerClient:
    """NeMo Gym's own client, knowing these servers."""
    return ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1),
        global_config_dict=DictConfig(servers),
    )
