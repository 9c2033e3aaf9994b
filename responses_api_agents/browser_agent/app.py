"""NeMo Gym agent: routes only; see `episode.py` for the loop."""

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fastapi import Body, FastAPI, HTTPException, Request
from nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunRequest,
    BaseVerifyResponse,
)
from nemo_gym.base_responses_api_agent import (
    AgentCloseSessionResponse,
    AgentSeedSessionRequest,
    AgentSessionState,
    SimpleResponsesAPIAgent,
)
from nemo_gym.global_config import (
    ATTEMPT_INDEX_KEY_NAME,
    ROLLOUT_ID_KEY_NAME,
    ROLLOUT_INDEX_KEY_NAME,
    TASK_INDEX_KEY_NAME,
)
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.tool_access import DirectHTTPToolAccess, MCPToolAccess
from pydantic import ConfigDict, Field

from resources_servers.browser_gym.access import auth_headers, auth_token
from resources_servers.browser_gym.contract import EPISODE_KEY
from resources_servers.browser_gym.faults import Fault, worth_another_try
from resources_servers.browser_gym.malformed import name_fields_only
from resources_servers.browser_gym.redaction import without_secrets
from responses_api_agents.browser_agent.attempts import Attempt, resampled
from responses_api_agents.browser_agent.browser_queue import BrowserQueue
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig, new_adapter
from responses_api_agents.browser_agent.cost import Prices
from responses_api_agents.browser_agent.environment import Environment, SeededEnvironment
from responses_api_agents.browser_agent.episode import Episode, Limits
from responses_api_agents.browser_agent.failures import RolloutFailure, from_model
from responses_api_agents.browser_agent.group_seed import with_group_seed
from responses_api_agents.browser_agent.trajectory import (
    Record,
    Screenshots,
    response_of,
)
from responses_api_agents.browser_agent.transport import GrantedTransport, Transport

logger = logging.getLogger(__name__)

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_ASKED = ("input", "instructions", "tools")


class BrowserRunRequest(BaseRunRequest):
    """A task row."""

    model_config = ConfigDict(extra="allow")

    verifier_metadata: dict[str, Any] = Field(default_factory=dict)


class BrowserRunResponse(BaseVerifyResponse):
    """A rollout row: the verifier's answer and the record of the episode."""

    model_config = ConfigDict(extra="allow")


@dataclass
class BrowserSessionState(AgentSessionState):
    """One turn in a session that an environment server opened.

    Attributes:
        access: to that session.
        params: of the turn, once it has been asked for.
        turn: the episode, which goes on if the request is repeated or its caller goes away.
    """

    access: DirectHTTPToolAccess
    params: dict[str, Any] | None = None
    turn: asyncio.Task[NeMoGymResponse] | None = None


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
            auth_headers(auth_token(self.config.auth_token)),
        )
        self._model = Transport(
            self.server_client, self.config.model_server.name, self.config.turn_timeout_s
        )
        self._queue = BrowserQueue(self.config.queue_timeout_s)
        self._prices = Prices(self.config.prices)
        self._closing: set[asyncio.Task[None]] = set()

    def setup_webserver(self) -> FastAPI:
        """Keep what is in malformed rows, which may be secrets, out of answers and log."""
        app = super().setup_webserver()
        name_fields_only(app)
        return app

    async def run(self, request: Request, body: BrowserRunRequest) -> BrowserRunResponse:  # type: ignore[override]
        """Run and grade one rollout, and again if the infrastructure fails, `resamples` times.

        Failures make a masked row, never an error: nothing collected is lost.
        """
        started = time.monotonic()
        if self.config.group_seed is not None:
            metadata = body.verifier_metadata
            task = _names(body).get(TASK_INDEX_KEY_NAME, metadata.get("task_id"))
            body.verifier_metadata = with_group_seed(metadata, self.config.group_seed, task)
        # Captured tokens are filed by rollout: those of two attempts could not be told apart.
        resamples = 0 if self._token_id_capture_enabled() else self.config.resamples
        graded, failed = await resampled(lambda: self._attempt(body), resamples)
        if failed:
            graded["attempts"] = failed
        graded["total_seconds"] = round(time.monotonic() - started, 3)
        return BrowserRunResponse.model_validate(graded)

    async def _attempt(self, body: BrowserRunRequest) -> Attempt:
        started = time.monotonic()
        environment = Environment(self._resources.post, self._queue)
        episode = self._episode(environment, self.url_path_for_run("/v1/responses", body))
        seed = {"verifier_metadata": body.verifier_metadata} | _names(body)
        row = body.model_dump(exclude_unset=True)
        verify_seconds = 0.0
        try:
            record = await episode.run(seed, _params(body.responses_create_params))
            answer = record.answer
            row["response"] = response_of(record, self.config.model)
            verify_started = time.monotonic()
            if self.config.skip_verification:
                graded = row | {
                    "reward": self.config.skip_verification_reward,
                    "verification_skipped": True,
                }
            else:
                graded = await environment.verify(row | {"final_answer": record.answer})
                answer = graded["final_answer"]  # another, if the session was finished before
            verify_seconds = time.monotonic() - verify_started
            kind = graded.get("failure_kind") if graded.get("mask_sample") else None
            again = kind is not None and worth_another_try(kind)
        except Exception as error:
            failure = _failure_of(error, str(body.verifier_metadata.get("task_id")))
            again = failure.again
            record = episode.record
            answer = record.answer
            graded = row | _masked(failure, response_of(record, self.config.model))
        finally:
            await self._close(environment)
        if "verifier_metadata" in graded:
            graded["verifier_metadata"] = without_secrets(graded["verifier_metadata"])
        graded |= _told(record, row["responses_create_params"]) | {
            "final_answer": answer,
            "verify_seconds": round(verify_seconds, 3),
            "total_seconds": round(time.monotonic() - started, 3),
        }
        return Attempt(graded, again)

    async def responses(  # type: ignore[override]
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Run one episode without grading it.

        In an agent session it is one in the browser session that its environment server opened.
        Else the start page stands in `metadata`: `start_url`, and on request `viewport_width` and
        `viewport_height` in CSS px.
        """
        path = self.url_path_for_request("/v1/responses", request)
        if agent_session_id := self._agent_session_id_from_request(request):
            state = self._require_agent_session(agent_session_id)
            assert isinstance(state, BrowserSessionState)
            # Environment servers send null for what a row does not say.
            params = {key: value for key, value in _params(body).items() if value is not None}
            return await self._turn_of(state, path, params)
        metadata = dict(body.metadata or {})
        if not metadata.get("start_url"):
            raise HTTPException(422, "metadata.start_url is missing: which page to start on")
        keys = ("start_url", "viewport_width", "viewport_height")
        seed = {key: metadata.pop(key) for key in keys if key in metadata}
        params = _params(body) | {"metadata": metadata or None}
        environment = Environment(self._resources.post, self._queue)
        episode = self._episode(environment, path)
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

    async def _seed_agent_session_state(self, body: AgentSeedSessionRequest) -> BrowserSessionState:
        accesses = self.effective_tool_accesses(body)
        granted = [access for access in accesses if isinstance(access, DirectHTTPToolAccess)]
        if len(granted) != 1:
            raise HTTPException(
                422,
                f"tool_accesses: {len(granted)} of kind direct_http, but the browser session is "
                "reached over exactly one; set resources_tool_transports: [direct_http] on the "
                "environment server",
            )
        others = [a.name for a in accesses if isinstance(a, MCPToolAccess) and a.required]
        if others or body.sandbox_access is not None:
            raise HTTPException(
                422, f"this agent takes no MCP tools and no sandbox: {', '.join(others) or 'one'}"
            )
        return BrowserSessionState(request=body, access=granted[0])

    async def _close_agent_session_state(
        self, state: AgentSessionState
    ) -> AgentCloseSessionResponse:
        assert isinstance(state, BrowserSessionState)
        if state.turn:
            state.turn.cancel()
            await asyncio.wait([state.turn])
        return AgentCloseSessionResponse(agent_session_id=state.request.agent_session_id)

    async def _turn_of(
        self, state: BrowserSessionState, model_path: str, params: dict[str, Any]
    ) -> NeMoGymResponse:
        """Return what the session's one turn comes to; a repeated request waits for the same."""
        if state.turn is None:
            state.params = params
            state.turn = asyncio.create_task(self._play(state, model_path, params))
        elif state.params != params:
            raise HTTPException(409, "an agent session runs one turn, and this one has had another")
        await asyncio.wait([state.turn])
        if state.turn.cancelled():
            raise HTTPException(409, "the agent session was closed during its turn")
        return state.turn.result()

    async def _play(
        self, state: BrowserSessionState, model_path: str, params: dict[str, Any]
    ) -> NeMoGymResponse:
        """Run an episode in a seeded session, and tell of it in the response.

        A failure is told there too: `/verify` makes a masked row of it.
        """
        started = time.monotonic()
        transport = GrantedTransport(
            state.access,
            self.config.environment_timeout_s,
            auth_headers(auth_token(self.config.auth_token)),
        )
        environment = SeededEnvironment(transport.post)
        episode = self._episode(environment, model_path)
        failed = {}
        try:
            await episode.run({}, params)
        except Exception as error:
            failure = _failure_of(error, state.request.task_id.task_id)
            failed = {"failure_kind": failure.kind, "failure_reason": failure.reason}
        told = _told(episode.record, params) | failed
        told["total_seconds"] = round(time.monotonic() - started, 3)
        response = response_of(episode.record, self.config.model)
        return NeMoGymResponse.model_validate(response | {EPISODE_KEY: told})

    def _episode(self, environment: Environment, model_path: str) -> Episode:
        config = self.config

        async def ask_model(body: dict[str, Any]) -> dict[str, Any]:
            status, answer = await self._model.post(model_path, body, repeatable=True)
            if status >= 400 or not isinstance(answer, dict):
                raise from_model(status, answer)
            return answer

        return Episode(
            adapter=new_adapter(config),
            environment=environment,
            ask_model=ask_model,
            screenshots=Screenshots(PROJECT_ROOT / config.artifact_dir, config.screenshots),
            limits=Limits(config.max_steps, config.run_timeout_s, config.loop_limit, config.nudges),
            safety_policy=config.safety_policy,
            prices=self._prices,
            tokens_on_items=config.token_ids == "items",
        )

    async def _close(self, environment: Environment) -> None:
        """End the session; goes on in the background if this request is cancelled meanwhile."""
        task = asyncio.create_task(environment.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)


def _params(params: NeMoGymResponseCreateParamsNonStreaming) -> dict[str, Any]:
    return params.model_dump(mode="json", exclude_unset=True)


def _names(body: BrowserRunRequest) -> dict[str, Any]:
    """Return what names a rollout among its row's fields."""
    keys = (TASK_INDEX_KEY_NAME, ROLLOUT_INDEX_KEY_NAME, ATTEMPT_INDEX_KEY_NAME)
    row = (body.model_extra or {}) | {ROLLOUT_ID_KEY_NAME: body.capture_rollout_id}
    return {key: row[key] for key in (*keys, ROLLOUT_ID_KEY_NAME) if row.get(key) is not None}


def _failure_of(error: Exception, task_id: str) -> RolloutFailure:
    """Return what masks a rollout that raised."""
    if isinstance(error, RolloutFailure):
        failure = error
    else:
        logger.error("a rollout failed by a fault of the agent", exc_info=error)
        failure = RolloutFailure(Fault.AGENT_FAULT.kind, f"{type(error).__name__}: {error}")
    logger.warning("task %s is masked: %s: %s", task_id, failure.kind, failure.reason)
    return failure


def _told(record: Record, params: dict[str, Any]) -> dict[str, Any]:
    """Return what a row has of an episode beside NeMo Gym's and the verifier's fields.

    With exact tokens, the row also has what the model was really asked, which they stand for.
    """
    segments = record.tokens.as_json()
    asked = {key: record.asked[key] for key in _ASKED if key in record.asked}
    exact = {"segments": segments, "responses_create_params": params | asked} if segments else {}
    return exact | {
        "final_answer": record.answer,
        "termination_reason": record.termination_reason,
        "first_observation": record.first,
        "turns": record.turns,
        "num_turns": len(record.turns),
        "cost_usd": record.cost_usd,
        "model_seconds": round(record.model_seconds, 3),
        "browser_seconds": round(record.browser_seconds, 3),
        "queue_seconds": round(record.queue_seconds, 3),
    }


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
