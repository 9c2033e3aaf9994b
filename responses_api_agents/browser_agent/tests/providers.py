"""Each provider for agent tests: its simulator, its model server and its agent's configuration.

What is configured comes from the stacks in `configs`, as a user starts them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from omegaconf import OmegaConf

from responses_api_agents.browser_agent.tests.stack import running_agent, server_client
from responses_api_models.anthropic_model.app import AnthropicModel, AnthropicModelConfig
from responses_api_models.gemini_model.app import GeminiModel, GeminiModelConfig
from responses_api_models.openai_computer_model.app import (
    OpenAIComputerModel,
    OpenAIComputerModelConfig,
)
from tests.simulators import (
    anthropic_scripts,
    anthropic_solutions,
    gemini_scripts,
    gemini_solutions,
    openai_scripts,
    openai_solutions,
)
from tests.simulators.anthropic_api import AnthropicSimulator
from tests.simulators.faults import (
    Fault,
    cut_connection,
    dropped_connection,
    hang,
    malformed_json,
)
from tests.simulators.gemini_api import GeminiSimulator
from tests.simulators.http_server import serve
from tests.simulators.openai_api import OpenAISimulator

ROOT = Path(__file__).resolve().parents[3]
GATEWAY_OVERLOADED = Fault("status", 529, {"error": {"message": "Overloaded."}})
AGENTS = ROOT / "responses_api_agents/browser_agent/configs"


@dataclass(frozen=True)
class Provider:
    """One way to a model.

    Attributes:
        stack: the configuration file in `configs`.
        agent: the agent's name, and that of its configuration file.
        model_server: the model server's name in the stack.
        model_type: its type.
        server: the model server's class.
        config: that of its settings.
        simulator: builds the simulated API around a policy.
        access: the settings that reach the simulator, by its URL.
        solve: the policy that plays the demo tasks' solutions.
        click: one reply that clicks a point of a viewport of 100 by 100 px.
        say: one reply that ends the run.
        errors: what the API itself can answer, and be asked again.
        altered: what of its own replies a simulator got back changed.
    """

    stack: str
    agent: str
    model_server: str
    model_type: str
    server: type[SimpleResponsesAPIModel]
    config: type[BaseResponsesAPIModelConfig]
    simulator: Callable[[Any], Any]
    access: Callable[[str], dict[str, Any]]
    solve: Callable[[Mapping[str, dict[str, Any]]], Any]
    click: Callable[[Any, int, int], list[dict[str, Any]]]
    say: Callable[[str], list[dict[str, Any]]]
    errors: tuple[Fault, ...]
    altered: Callable[[Any], list[Any]]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that an API can fail with, and be asked again."""
        return (*self.errors, hang(), dropped_connection(), cut_connection(), malformed_json())

    def model_settings(self) -> dict[str, Any]:
        """Return the model server's settings in its stack."""
        stack = with_included(f"configs/{self.stack}")
        OmegaConf.update(stack, f"cua_{self.stack.removesuffix('.yaml')}_api_key", "none")
        server = stack[self.model_server].responses_api_models[self.model_type]
        settings: Any = OmegaConf.to_container(server, resolve=True)
        return settings

    def app(self, **settings: Any) -> FastAPI:
        """Return the model server's app with changes of its settings in the stack."""
        address = {"host": "127.0.0.1", "port": 1, "name": self.model_server}
        checked = self.config.model_validate(self.model_settings() | address | settings)
        return self.server(config=checked, server_client=server_client({})).setup_webserver()

    def agent_settings(self) -> dict[str, Any]:
        """Return the agent's settings."""
        document: Any = OmegaConf.load(AGENTS / f"{self.agent}.yaml")
        agent = document[self.agent].responses_api_agents.browser_agent
        settings: Any = OmegaConf.to_container(agent, resolve=True)
        return settings | {"name": self.agent}


def with_included(path: str) -> Any:
    """Return a configuration file over those it names, as NeMo Gym merges them."""
    config: Any = OmegaConf.load(ROOT / path)
    for included in reversed(config.get("config_paths", [])):
        config = OmegaConf.merge(with_included(included), config)
    return config


OPENAI = Provider(
    stack="openai.yaml",
    agent="browser_openai_agent",
    model_server="policy_model",
    model_type="openai_computer_model",
    server=OpenAIComputerModel,
    config=OpenAIComputerModelConfig,
    simulator=OpenAISimulator,
    access=lambda url: {"openai_base_url": url, "openai_api_key": "sk-simulator"},
    solve=openai_solutions.solve,
    click=lambda turn, x, y: [openai_scripts.computer_call(openai_scripts.click(x, y))],
    say=lambda words: [openai_scripts.message(words)],
    errors=(
        openai_scripts.rate_limited(0.01),
        openai_scripts.server_error(),
        openai_scripts.unavailable(),
        GATEWAY_OVERLOADED,
    ),
    altered=OpenAISimulator.altered_items,
)
ANTHROPIC = Provider(
    stack="anthropic.yaml",
    agent="browser_anthropic_sonnet_agent",
    model_server="anthropic_sonnet_model",
    model_type="anthropic_model",
    server=AnthropicModel,
    config=AnthropicModelConfig,
    simulator=AnthropicSimulator,
    access=lambda url: {"anthropic_base_url": url, "anthropic_api_key": "sk-ant-simulator"},
    solve=anthropic_solutions.solve,
    click=lambda turn, x, y: [
        anthropic_scripts.thinking(f"Click at {x}, {y}."),
        anthropic_scripts.call(turn.tool, "left_click", coordinate=[x, y]),
    ],
    say=lambda words: [anthropic_scripts.text(words)],
    errors=(
        anthropic_scripts.rate_limited(0.01),
        anthropic_scripts.server_error(),
        anthropic_scripts.overloaded(),
    ),
    altered=AnthropicSimulator.altered_replies,
)
GEMINI = Provider(
    stack="gemini.yaml",
    agent="browser_gemini_agent",
    model_server="gemini_model",
    model_type="gemini_model",
    server=GeminiModel,
    config=GeminiModelConfig,
    simulator=GeminiSimulator,
    access=lambda url: {"gemini_base_url": url, "gemini_api_key": "AIza-simulator"},
    solve=gemini_solutions.solve,
    click=lambda turn, x, y: [
        gemini_scripts.thought(f"Click at {x}, {y}."),
        gemini_scripts.call("click", x=10 * x, y=10 * y),
    ],
    say=lambda words: [gemini_scripts.text(words)],
    errors=(
        gemini_scripts.rate_limited(retry_after="0.01"),
        gemini_scripts.server_error(),
        gemini_scripts.unavailable(),
        GATEWAY_OVERLOADED,
    ),
    altered=GeminiSimulator.altered_contents,
)
FUNCTIONS = Provider(
    **{
        **OPENAI.__dict__,
        "agent": "browser_functions_agent",
        "click": lambda turn, x, y: [openai_scripts.function_call("click", x=x, y=y)],
    }
)
PROVIDERS = {"openai": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI}


@dataclass(frozen=True)
class Road:
    """An agent, and the simulator at the end of its road."""

    provider: Provider
    http: httpx.AsyncClient
    simulator: Any

    async def run(self, row: dict[str, Any]) -> dict[str, Any]:
        """Run one rollout of a task row."""
        answer = await self.http.post("/run", json=row)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def check(self) -> None:
        """Check that the API refused nothing, and got its own replies back unchanged."""
        refused = [r.error for r in self.simulator.requests if 400 <= r.status < 429]
        assert refused == []
        assert self.provider.altered(self.simulator) == []


@asynccontextmanager
async def road(
    provider: Provider,
    policy: Any,
    environment_url: str,
    folder: Path,
    *,
    model_config: Mapping[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Road]:
    """Start a simulator, the model server before it and the agent, as the stack configures them.

    Args:
        provider: which.
        policy: what the simulated model answers.
        environment_url: of the resources server.
        folder: for the agent's artifacts.
        model_config: changes of the model server's settings.
        config: changes of the agent's.
    """
    simulator = provider.simulator(policy)
    with ExitStack() as servers:
        access = provider.access(servers.enter_context(simulator.serve()))
        app = provider.app(**access | dict(model_config or {}))
        model_url = servers.enter_context(serve(app))
        agent = provider.agent_settings() | config
        async with running_agent(environment_url, model_url, folder, **agent) as http:
            yield Road(provider, http, simulator)
