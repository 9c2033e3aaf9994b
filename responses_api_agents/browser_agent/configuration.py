"""The agent's configuration, and the adapter that it chooses."""

from __future__ import annotations

from typing import Any, Literal

from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from pydantic import Field, SecretStr, model_validator

from responses_api_agents.browser_agent.adapters.base import Adapter
from responses_api_agents.browser_agent.adapters.functions import Coordinates, FunctionsAdapter
from responses_api_agents.browser_agent.adapters.generic import GenericAdapter
from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
from responses_api_agents.browser_agent.adapters.openai import ComputerTool, OpenAIAdapter, State
from responses_api_agents.browser_agent.adapters.openai_actions import browser_function_tools
from responses_api_agents.browser_agent.adapters.policy import PolicyAdapter
from responses_api_agents.browser_agent.cost import Price
from responses_api_agents.browser_agent.episode import SafetyPolicy
from responses_api_agents.browser_agent.policies import policies
from responses_api_agents.browser_agent.trajectory import Storing


class BrowserAgentConfig(BaseResponsesAPIAgentConfig):
    """Configuration; every key is described in the README."""

    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    model: str
    adapter: Literal["openai", "generic", "policy"] = "openai"
    policy: str | None = None
    trained_screenshots: bool = False
    computer_tool: ComputerTool | Literal["functions"] = "auto"
    state: State = "previous_response_id"
    history: HistoryPolicy = HistoryPolicy()
    coordinates: Coordinates = "pixels"
    instructions: str | None = None
    browser_functions: bool | list[str] = True
    nudges: int = Field(default=1, ge=0)
    max_steps: int = Field(default=100, ge=1)
    run_timeout_s: float = Field(default=3600, gt=0)
    turn_timeout_s: float | None = Field(default=None, gt=0)
    environment_timeout_s: float = Field(default=900, gt=0)
    queue_timeout_s: float | None = Field(default=3600, ge=0)
    resamples: int = Field(default=0, ge=0)
    group_seed: int | None = None
    loop_limit: int | None = Field(default=10, ge=2)
    safety_policy: SafetyPolicy = "acknowledge"
    screenshots: Storing = "files"
    token_ids: Literal["items", "segments"] = "items"
    artifact_dir: str = "results/artifacts"
    auth_token: SecretStr | None = None
    prices: dict[str, Price] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_the_adapter(self) -> BrowserAgentConfig:
        other = {
            "openai": ("functions",),
            "generic": ("computer",),
            "policy": ("computer", "computer_use_preview", "functions"),
        }
        if self.adapter == "policy" and self.policy not in policies():
            known = ", ".join(policies())
            raise ValueError(f"policy: the policy adapter needs one of {known}")
        if self.computer_tool in other[self.adapter]:
            raise ValueError(
                f"computer_tool: the {self.adapter} adapter does not offer {self.computer_tool!r}"
            )
        known = {tool["name"] for tool in browser_function_tools()}
        if isinstance(self.browser_functions, list) and not known.issuperset(
            self.browser_functions
        ):
            raise ValueError(f"browser_functions: there are {', '.join(sorted(known))}")
        return self


def new_adapter(config: BrowserAgentConfig) -> Adapter:
    """Return a new adapter, which serves one episode."""
    common: dict[str, Any] = {
        "model": config.model,
        "instructions": config.instructions,
        "browser_functions": config.browser_functions,
        "history": config.history,
    }
    if config.adapter == "policy":
        family = policies()[config.policy or ""]
        history = config.history
        if config.trained_screenshots and family.screenshots:
            history = HistoryPolicy(policy="last_n", keep=family.screenshots)
        elif "history" not in config.model_fields_set:
            history = HistoryPolicy(max_image_bytes=None)  # nothing is ever taken out
        return PolicyAdapter(**common | {"history": history}, policy=family)
    if config.adapter == "openai":
        tool = config.computer_tool
        assert tool != "functions"
        return OpenAIAdapter(**common, computer_tool=tool, state=config.state)
    if config.computer_tool == "functions":
        return FunctionsAdapter(**common, coordinates=config.coordinates)
    return GenericAdapter(**common)
