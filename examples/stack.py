"""The servers of the example in one process: pages, browsers, a model server and the agent.

They are those that `gym env start` starts, each on a free port of loopback. NeMo Gym's `vllm_model`
stands before the tiny policy as it would before vLLM.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nemo_gym import server_utils
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient
from omegaconf import DictConfig
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from starlette.staticfiles import StaticFiles

from examples.tiny_server import MODEL
from resources_servers.browser_gym.app import BrowserGymConfig, BrowserGymServer
from resources_servers.browser_gym.embedded_server import embedded
from responses_api_agents.browser_agent.app import BrowserAgent, BrowserAgentConfig

PAGES = Path(__file__).parent / "pages"
_LISTENING = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
"""What every configuration must say; the real ports are those that `embedded` finds."""


@asynccontextmanager
async def running(policy: Any, artifacts: Path, sessions: int) -> AsyncIterator[tuple[str, str]]:
    """Start all servers, and stop them at the end.

    Args:
        policy: the ASGI app of the policy.
        artifacts: folder of the screenshots.
        sessions: how many browsers may be open at once.

    Yields:
        The base URLs of the agent and of the pages.
    """
    async with AsyncExitStack() as stack:

        async def start(app: Any) -> str:
            return await stack.enter_async_context(embedded(app))

        if not server_utils.is_global_aiohttp_client_setup():
            server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
        pages = await start(StaticFiles(directory=PAGES))
        browsers = await start(_browsers(sessions))
        model = await start(_model(await start(policy)))
        agent = await start(_agent(browsers, model, artifacts))
        yield agent, pages


def _browsers(sessions: int) -> Any:
    config = BrowserGymConfig.model_validate(
        _LISTENING
        | {
            "name": "browser_gym",
            "domain": "agent",
            "max_sessions": sessions,
            "allow_private_addresses": True,  # the pages are on loopback
            "evidence_dir": None,
        }
    )
    return BrowserGymServer(config=config, server_client=_client()).setup_webserver()


def _model(policy_url: str) -> Any:
    config = VLLMModelConfig.model_validate(
        _LISTENING
        | {
            "name": "policy_model",
            "base_url": f"{policy_url}/v1",
            "api_key": "none",
            "model": MODEL,
            "return_token_id_information": True,
            "request_prompt_and_generation_token_ids": True,
            "uses_reasoning_parser": False,
        }
    )
    return VLLMModel(config=config, server_client=_client()).setup_webserver()


def _agent(browsers_url: str, model_url: str, artifacts: Path) -> Any:
    config = BrowserAgentConfig.model_validate(
        _LISTENING
        | {
            "name": "browser_policy_agent",
            "resources_server": {"type": "resources_servers", "name": "browser_gym"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "model": MODEL,
            "adapter": "policy",
            "policy": "qwen3_vl",
            "max_steps": 3,
            "token_ids": "segments",
            "artifact_dir": str(artifacts),
        }
    )
    client = _client(
        browser_gym={"resources_servers": {"browser_gym": _address(browsers_url)}},
        policy_model={"responses_api_models": {"vllm_model": _address(model_url)}},
    )
    return BrowserAgent(config=config, server_client=client).setup_webserver()


def _client(**servers: Any) -> ServerClient:
    """Return NeMo Gym's own client, knowing these servers."""
    head = BaseServerConfig(host="127.0.0.1", port=1)  # asked for nothing
    return ServerClient(head_server_config=head, global_config_dict=DictConfig(servers))


def _address(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}
