"""NeMo Gym agent: routes only; see `episode.py` for the loop."""

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Any, Literal

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fastapi import Body, HTTPException, Request
from nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunRequest,
    BaseVerifyResponse,
)
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from pydantic import ConfigDict, Field, model_validator

from resources_servers.browser_gym.faults import Fault
from responses_api_agents.browser_agent.adapters.base import Adapter
from responses_api_agents.browser_agent.adapters.functions import Coordinates, FunctionsAdapter
from responses_api_agents.browser_agent.adapters.generic import GenericAdapter
from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
from responses_api_agents.browser_agent.adapters.openai import ComputerTool, OpenAIAdapter, State
from responses_api_agents.browser_agent.adapters.openai_actions import browser_function_tools
from responses_api_agents.browser_agent.cost import Price, Prices
from responses_api_agents.browser_agent.environment import Environment
from responses_api_agents.browser_agent.episode import Episode, Limits, SafetyPolicy
from responses_api_agents.browser_agent.failures import RolloutFailure, from_model
from responses_api_agents.browser_agent.trajectory import Screenshots, Storing, response_of
from responses_api_agents.browser_agent.transport import Transport

logger = logging.getLogger(__name__)

PROJECT_ROOT = Path(__file__).resolve().parents[2]


class BrowserAgentConfig(BaseResponsesAPIAgentConfig):
    """Configuration; every key is described in the README."""

    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    model: str
    adapter: Literal["openai", "generic"] = "openai"
    computer_tool: ComputerTool | Literal["functions"] = "auto"
    state: State = "previous_response_id"
    history: HistoryPolicy = HistoryPolicy()
    coordinates: Coordinates = "pixels"
    instructions: str | None = None
    browser_functions: bool | list[str] = True
    nudges: int = Field(default=1, ge=0)
    max_steps: int = Field(default=100, ge=1)
    run_timeout_s: float = Field(default=3600, gt=0)
    environment_timeout_s: float = Field(default=900, gt=0)
    loop_limit: int | None = Field(default=10, ge=2)
    safety_policy: SafetyPolicy = "acknowledge"
    screenshots: Storing = "files"
    artifact_dir: str = "results/artifacts"
    prices: dict[str, Price] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_the_adapter(self) -> "BrowserAgentConfig":
        other = {"openai": ("functions",), "generic": ("computer",)}[self.adapter]
        if self.computer_tool in other:
            raise ValueError(
                f"computer_tool: the {self.adapter} adapter does not offer {self.computer_tool!r}"
            )
        known = {tool["name"] for tool in browser_function_tools()}
        if isinstance(self.browser_functions, list) and not known.issuperset(
            self.browser_functions
        ):
            raise ValueError(f"browser_functions: there are {', '.join(sorted(known))}")
        return self


class BrowserRunRequest(BaseRunRequest):
    """A task row."""

    model_config = ConfigDict(extra="allow")

    verifier_metadata: dict[str, Any] = Field(default_factory=dict)


class BrowserRunResponse(BaseVerifyResponse):
    """A rollout row: the verifier's answer and the record of the episode."""

    model_config = ConfigDict(extra="allow")


class BrowserAgent(SimpleResponsesAPIAgent):
    """Runs browser episodes."""

    ray_enabled = False
    config: BrowserAgentConfig

    def model_post_init(self, context: Any) -> None:
        """Set up what outlives a request."""
        super().model_post_init(context)
        self._resources = Transport(
            self.server_client,
            self.config.resources_server.name,
            self.config.environment_timeout_s,
        )
        self._model = Transport(self.server_client, self.config.model_server.name)
        self._prices = Prices(self.config.prices)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, request: Request, body: BrowserRunRequest) -> BrowserRunResponse:  # type: ignore[override]
        """Run and grade one rollout.

        Failures make a masked row, never an error: nothing collected is lost.
        """
        started = time.monotonic()
        environment = Environment(self._resources.post)
        episode = self._episode(environment, self.url_path_for_run("/v1/responses", body))
        seed = {"verifier_metadata": body.verifier_metadata}
        row = body.model_dump(exclude_unset=True)
        verify_seconds = 0.0
        try:
            record = await episode.run(seed, _params(body.responses_create_params))
            row["response"] = response_of(record, self.config.model)
            verify_started = time.monotonic()
            if self.config.skip_verification:
                graded = row | {
                    "reward": self.config.skip_verification_reward,
                    "verification_skipped": True,
                }
            else:
                graded = await environment.verify(row | {"final_answer": record.answer})
            verify_seconds = time.monotonic() - verify_started
        except Exception as error:
            if isinstance(error, RolloutFailure):
                failure = error
            else:
                logger.exception("a rollout failed by a fault of the agent")
                failure = RolloutFailure(Fault.AGENT_FAULT.kind, f"{type(error).__name__}: {error}")
            task = body.verifier_metadata.get("task_id")
            logger.warning("task %s is masked: %s: %s", task, failure.kind, failure.reason)
            record = episode.record
            graded = row | _masked(failure, response_of(record, self.config.model))
        finally:
            await self._close(environment)
        graded |= {
            "final_answer": graded.get("final_answer", record.answer),
            "termination_reason": record.termination_reason,
            "first_observation": record.first,
            "turns": record.turns,
            "num_turns": len(record.turns),
            "cost_usd": record.cost_usd,
            "model_seconds": round(record.model_seconds, 3),
            "browser_seconds": round(record.browser_seconds, 3),
            "verify_seconds": round(verify_seconds, 3),
            "total_seconds": round(time.monotonic() - started, 3),
        }
        return BrowserRunResponse.model_validate(graded)

    async def responses(  # type: ignore[override]
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Run one episode without grading it.

        The start page stands in `metadata`: `start_url`, and on request `viewport_width` and
        `viewport_height` in CSS px.
        """
        metadata = dict(body.metadata or {})
        if not metadata.get("start_url"):
            raise HTTPException(422, "metadata.start_url is missing: which page to start on")
        keys = ("start_url", "viewport_width", "viewport_height")
        seed = {key: metadata.pop(key) for key in keys if key in metadata}
        params = _params(body) | {"metadata": metadata or None}
        environment = Environment(self._resources.post)
        episode = self._episode(environment, self.url_path_for_request("/v1/responses", request))
        try:
            record = await episode.run(seed, params)
        except RolloutFailure as failure:
            detail = {"failure_kind": failure.kind, "failure_reason": failure.reason}
            raise HTTPException(503, detail) from failure
        finally:
            await self._close(environment)
        return NeMoGymResponse.model_validate(response_of(record, self.config.model))

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        """Let the resources server aggregate: it knows what its rows mean."""
        status, answer = await self._resources.post("/aggregate_metrics", body.model_dump())
        if status >= 400:
            raise HTTPException(502, f"the resources server answered HTTP {status}: {answer}")
        return AggregateMetrics.model_validate(answer)

    def _episode(self, environment: Environment, model_path: str) -> Episode:
        config = self.config

        async def ask_model(body: dict[str, Any]) -> dict[str, Any]:
            status, answer = await self._model.post(model_path, body, repeatable=True)
            if status >= 400 or not isinstance(answer, dict):
                raise from_model(status, answer)
            return answer

        return Episode(
            adapter=_adapter(config),
            environment=environment,
            ask_model=ask_model,
            screenshots=Screenshots(PROJECT_ROOT / config.artifact_dir, config.screenshots),
            limits=Limits(config.max_steps, config.run_timeout_s, config.loop_limit, config.nudges),
            safety_policy=config.safety_policy,
            prices=self._prices,
        )

    async def _close(self, environment: Environment) -> None:
        """End the session; goes on in the background if this request is cancelled meanwhile."""
        task = asyncio.create_task(environment.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)


def _adapter(config: BrowserAgentConfig) -> Adapter:
    """Return a new adapter, which serves one episode."""
    common: dict[str, Any] = {
        "model": config.model,
        "instructions": config.instructions,
        "browser_functions": config.browser_functions,
        "history": config.history,
    }
    if config.adapter == "openai":
        tool = config.computer_tool
        assert tool != "functions"
        return OpenAIAdapter(**common, computer_tool=tool, state=config.state)
    if config.computer_tool == "functions":
        return FunctionsAdapter(**common, coordinates=config.coordinates)
    return GenericAdapter(**common)


def _params(params: NeMoGymResponseCreateParamsNonStreaming) -> dict[str, Any]:
    return params.model_dump(mode="json", exclude_unset=True)


def _masked(failure: RolloutFailure, response: dict[str, Any]) -> dict[str, Any]:
    return {
        "response": response,
        "reward": 0.0,
        "mask_sample": True,
        "instance_config": {"mask_sample": True},
        "failure_kind": failure.kind,
        "failure_reason": failure.reason,
    }


if __name__ == "__main__":
    BrowserAgent.run_webserver()
