"""The servers' apps, to read their routes from; nothing is started."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import DictConfig

from resources_servers.browser_gym.app import BrowserGymServer
from resources_servers.browser_gym.configuration import BrowserGymConfig
from responses_api_agents.browser_agent.app import BrowserAgent
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig

_BASE: dict[str, Any] = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}


def environment_app() -> FastAPI:
    """Return the resources server's app; it looks for no Chromium."""
    config = BrowserGymConfig.model_validate(
        _BASE
        | {"name": "browser_gym", "domain": "agent", "evidence_dir": None}
        | {"browsers": "remote_cdp"}
        | {"session_provider_options": {"endpoints": ["ws://127.0.0.1:1"]}}
    )
    return BrowserGymServer(config=config, server_client=_client()).setup_webserver()


def agent_app() -> FastAPI:
    """Return the agent's app."""
    config = BrowserAgentConfig.model_validate(
        _BASE
        | {
            "name": "browser_openai_agent",
            "model": "",
            "resources_server": {"type": "resources_servers", "name": "browser_gym"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
        }
    )
    return BrowserAgent(config=config, server_client=_client()).setup_webserver()


def _client() -> ServerClient:
    head = BaseServerConfig(host="127.0.0.1", port=1)
    return ServerClient(head_server_config=head, global_config_dict=DictConfig({}))
