"""NeMo Gym resources server: routes only; see `sessions.py` for what they do."""

import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fastapi import FastAPI, HTTPException, Request, Response
from nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
    ResourcesSeedSessionResponse,
    SimpleResourcesServer,
)
from nemo_gym.openai_utils import NeMoGymResponseOutputMessage
from nemo_gym.server_utils import SESSION_ID_KEY

from resources_servers.browser_gym import element_calls, watching
from resources_servers.browser_gym.access import auth_token
from resources_servers.browser_gym.browser.backend import BrowserError
from resources_servers.browser_gym.browser.capture import valid_unicode
from resources_servers.browser_gym.browser.chromium import ChromiumNotFound
from resources_servers.browser_gym.browser.observation import Observation
from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING
from resources_servers.browser_gym.configuration import (
    BrowserGymConfig,
    browser_supply,
    session_settings,
)
from resources_servers.browser_gym.contract import (
    EPISODE_FIELDS,
    AggregateRequest,
    CloseResponse,
    DumpRequest,
    DumpResponse,
    HealthResponse,
    SeedRequest,
    SeedResponse,
    SessionRequest,
    StepRequest,
    StepResponse,
)
from resources_servers.browser_gym.demo_gym.server import running as running_demo_gym
from resources_servers.browser_gym.disconnect import while_connected
from resources_servers.browser_gym.error_answers import add_error_answers
from resources_servers.browser_gym.grading import Grading, graded, masked
from resources_servers.browser_gym.judge_client import judge_of
from resources_servers.browser_gym.malformed import name_fields_only
from resources_servers.browser_gym.metrics import pass_at_k, rollout_metrics
from resources_servers.browser_gym.redaction import without_secrets
from resources_servers.browser_gym.seed_body import SeedBody, labels_of
from resources_servers.browser_gym.session import Opening, Owner, Session, SessionError
from resources_servers.browser_gym.session_ids import ChosenSessions
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.task_row import BrowserStart, VerifierMetadata
from resources_servers.browser_gym.telemetry import CONTENT_TYPE, Telemetry
from resources_servers.browser_gym.verdicts import Verdicts
from resources_servers.browser_gym.verification.contract import Evidence, Verifier
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.verifiers import Verifiers
from resources_servers.browser_gym.verify_body import (
    BrowserVerifyRequest,
    BrowserVerifyResponse,
    take_episode,
)

PROJECT_ROOT = Path(__file__).resolve().parents[2]
logger = logging.getLogger(__name__)


class BrowserGymServer(SimpleResourcesServer):
    """Serves browser sessions and grades them."""

    ray_enabled = False
    config: BrowserGymConfig

    def model_post_init(self, context: Any) -> None:
        """Refuse more than one worker: sessions live in this process.

        Raises:
            ValueError: `num_workers` is set to something else than 1.
        """
        if self.config.num_workers not in (None, 1):
            raise ValueError(
                f"num_workers is {self.config.num_workers}, but browser sessions live in one "
                "process and a second worker would not know them: set num_workers to 1"
            )
        super().model_post_init(context)

    def setup_webserver(self) -> FastAPI:
        """Add the session routes and the browsers' life cycle to NeMo Gym's app.

        Raises:
            SystemExit: there is no Chromium, or no such source of browsers; the message says what
                to do.
        """
        try:
            self._new_supply = browser_supply(self.config)
        except (ChromiumNotFound, ValueError) as error:
            sys.exit(f"browser_gym: {error}")
        self._telemetry = Telemetry()
        self._verifiers = Verifiers(
            self.config.verify_timeout_s, judge_of(self.config, self.server_client)
        )
        self._grading = Grading(self.config.evidence_dir, PROJECT_ROOT)
        app = super().setup_webserver()
        app.post("/observation", response_model=SeedResponse)(self.observation)
        app.post("/step", response_model=StepResponse)(self.step)
        app.post("/dump_local_storage", response_model=DumpResponse)(self.dump_local_storage)
        app.post("/close", response_model=CloseResponse)(self.close)
        app.get("/health", response_model=HealthResponse)(self.health)
        app.get("/metrics")(self.metrics)
        token = auth_token(self.config.auth_token)
        watching.add_routes(app, lambda: self._sessions.running(), token=token is not None)
        add_error_answers(app)
        name_fields_only(app)
        element_calls.add_routes(app, self.use_tool)
        element_calls.check_requests(
            app,
            max_bytes=self.config.max_request_bytes,
            token=token,
        )
        outer = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
            async with self._running(), outer(app) as state:
                yield state

        app.router.lifespan_context = lifespan
        return app

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Browsers, sessions and the demo gym, up for the block and released after it."""
        config = self.config
        self._supply = self._new_supply()
        self._sessions = Sessions(self._supply, session_settings(config))
        self._chosen = ChosenSessions(self._sessions)
        self._verdicts = Verdicts()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._verifiers.aclose)
            stack.push_async_callback(self._sessions.close)
            stack.push_async_callback(self._verdicts.close)
            await self._sessions.start()
            if config.demo_gym_port is not None:
                await stack.enter_async_context(running_demo_gym("127.0.0.1", config.demo_gym_port))
            yield

    async def seed_session(  # type: ignore[override]
        self, request: Request, body: SeedBody
    ) -> SeedResponse | ResourcesSeedSessionResponse:
        """Open a session on the task's start page."""
        if isinstance(body, ResourcesSeedSessionRequest):
            with self._telemetry.seeding():
                return await self._seed_chosen(request, body)
        if body.env_id:
            session, observation = await self._seed_named(body.env_id, body)
        else:
            session, observation = await while_connected(request, self._seed(body))
        request.session[SESSION_ID_KEY] = session.session_id
        return _opened(session, observation)

    async def _seed(self, body: SeedRequest) -> tuple[Session, Observation]:
        with self._telemetry.seeding():
            return await self._sessions.seed(self._opening(body, labels_of(body)))

    async def _seed_named(self, env_id: str, body: SeedRequest) -> tuple[Session, Observation]:
        with self._telemetry.seeding():
            labels = labels_of(body)
            opening = self._opening(body, labels)
            owner = Owner(env_id, labels.get("task_id") or opening.start_url)
            await self._chosen.seed(env_id, owner, opening)
        return self._sessions.shown(env_id)

    async def _seed_chosen(
        self, request: Request, body: ResourcesSeedSessionRequest
    ) -> ResourcesSeedSessionResponse:
        episode, task = body.episode_id.capture_key, body.task_id
        owner = Owner(episode, f"{task.taskset}/{task.task_id}")
        row = SeedRequest.model_validate(body.task_data)
        # NeMo Gym numbers tasks whose rows have no `task_id` outside of `verifier_metadata`.
        labels = {"episode_id": episode, "task_id": task.task_id} | labels_of(row)
        opening = self._opening(row, labels)
        session = await self._chosen.seed(body.resources_session_id, owner, opening)
        request.session[SESSION_ID_KEY] = session.session_id
        # This body takes no more; `/observation` tells the rest.
        return ResourcesSeedSessionResponse(resources_session_id=session.session_id)

    def _opening(self, body: SeedRequest, labels: dict[str, str]) -> Opening:
        """Return what a seed asks for.

        Raises:
            InvalidTask: it cannot be graded or opened.
        """
        keep = KEEP_NOTHING
        if body.verifier_metadata is not None:
            keep = self._verifiers.parse_verifier(body.verifier_metadata).keep
        task = VerifierMetadata.parse(body.verifier_metadata or {})
        start_url = body.start_url or task.start_url
        if not start_url:
            raise InvalidTask("start_url: missing; give it in the body or in verifier_metadata")
        width, height = self.config.viewport_width, self.config.viewport_height
        if task.viewport:
            width, height = task.viewport.width, task.viewport.height
        return Opening(
            start_url,
            body.viewport_width or width,
            body.viewport_height or height,
            start=task.browser or BrowserStart(),
            gym_url=task.gym_url,
            keep=keep,
            labels=labels,
        )

    async def close_resources_session(
        self, body: ResourcesCloseSessionRequest
    ) -> ResourcesCloseSessionResponse:
        """Close the session of an id that its caller chose, or keep it from being opened."""
        await self._chosen.close(body.resources_session_id, body.episode_id.capture_key)
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)

    async def observation(self, request: Request, body: SessionRequest) -> SeedResponse:
        """Tell again what the last seed or step showed."""
        return _opened(*self._sessions.shown(_session_id(request, body.env_id)))

    async def step(self, request: Request, body: StepRequest) -> StepResponse:
        """Run one action or a batch and take one screenshot."""
        results, observation = await self._sessions.step(
            _session_id(request, body.env_id), body.batch, body.operation_id
        )
        self._telemetry.stepped(observation.timings_ms)
        error = next((result.error for result in results if result.error), None)
        if observation.image is None and error is None:
            error = "the page drew nothing in time, so there is no screenshot"
        return StepResponse(
            results=[vars(result) for result in results],  # type: ignore[arg-type]
            error=error,
            **_observed(observation),
        )

    async def use_tool(self, request: Request, name: str) -> str:
        """Use an element tool in the session of the cookie; return the text for the model."""
        return await element_calls.use_tool(
            self._sessions,
            _session_id(request, None),
            name,
            await request.body(),
            self.config.observation_max_chars,
            self._telemetry.stepped,
        )

    def mcp_tools(self, harvested: list[Any], catchall: Any) -> list[Any]:
        """Offer the element tools over MCP, if `expose_tools_over_mcp` is set, and nothing else."""
        return element_calls.over_mcp(harvested)

    async def dump_local_storage(self, request: Request, body: DumpRequest) -> DumpResponse:
        """Tell what is in localStorage now, what was there at the start, and what is asked for."""
        state, more = await self._sessions.dump(_session_id(request, body.env_id), body.include)
        return DumpResponse(
            local_storage_dump=json.dumps(state.final.get(state.start_origin, {})),
            initial_local_storage=json.dumps(state.initial.get(state.start_origin, {})),
            start_origin=state.start_origin,
            origins={
                origin: {valid_unicode(k): valid_unicode(v) for k, v in items.items()}
                for origin, items in state.final.items()
            },
            **more,
        )

    async def close(self, request: Request, body: SessionRequest) -> CloseResponse:
        """Close a session; `success` is true only if this call closed it."""
        session_id = _session_id(request, body.env_id)
        reason = await self._sessions.end(session_id)
        if reason and await self._chosen.abandon(session_id):
            reason = None
        return CloseResponse(success=reason is None, message=reason or "closed")

    async def health(self) -> HealthResponse:
        """Tell occupancy, queue, browsers and their memory."""
        health = await self._supply.health()
        launched_and_gone = any(not b["alive"] and b["sessions"] for b in health.browsers)
        return HealthResponse(status="degraded" if launched_and_gone else "ok", **vars(health))

    async def metrics(self) -> Response:
        """Tell what the server has done and is doing, in Prometheus' text format."""
        return Response(
            self._telemetry.render(await self._supply.health()), media_type=CONTENT_TYPE
        )

    async def verify(self, request: Request, body: BrowserVerifyRequest) -> BrowserVerifyResponse:  # type: ignore[override]
        """Grade what the session left behind and release its browser.

        A stored rollout, which names no session, is graded by the evidence that was kept of it. A
        session or verifier that fails gives a masked row, never a reward of 0 that counts. A
        repeated request gets the same verdict.
        """
        started = time.monotonic()
        verifier = self._verifiers.parse_verifier(body.verifier_metadata)
        row: dict[str, Any] = body.model_dump()
        row["category"] = body.verifier_metadata.get("category")
        row["verifier_metadata"] = without_secrets(body.verifier_metadata)
        told = take_episode(row["response"])
        row |= {key: told[key] for key in EPISODE_FIELDS if key in told}
        if told.get("failure_kind"):
            verdict = masked(told["failure_kind"], told.get("failure_reason") or "")
            self._count(verdict)
        elif body.env_id is None and body.deliverables_dir is not None:
            verdict = await self._grade(verifier, self._grading.of_row(body.deliverables_dir))
        else:
            row["env_id"] = _session_id(request, body.env_id)
            answer, named = _answer(body, told), body.env_id is not None
            verdict = await self._verdicts.once(
                row["env_id"],
                [body.verifier_metadata, answer, row["responses_create_params"]["input"]],
                lambda: self._grade(verifier, self._left_behind(row, answer, named=named)),
                is_open=self._sessions.opened(row["env_id"]) is not None,
            )
        if told:
            seconds = time.monotonic() - started
            verdict["verify_seconds"] = round(seconds, 3)
            verdict["total_seconds"] = round(row.get("total_seconds", 0) + seconds, 3)
        return BrowserVerifyResponse.model_validate(row | verdict)

    async def _grade(
        self, verifier: Verifier, finding: Awaitable[tuple[Evidence, dict[str, Any]]]
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        try:
            evidence, kept = await finding
            verdict = kept | graded(await verifier.verify(evidence))
        except (BrowserError, SessionError, VerifierError) as error:
            verdict = kept | masked(error.fault.kind, str(error))
        self._count(verdict)
        return verdict

    def _count(self, verdict: dict[str, Any]) -> None:
        passed = "passed" if verdict["reward"] == 1 else "failed"
        self._telemetry.verified(verdict.get("failure_kind") or passed)

    async def _left_behind(
        self, row: dict[str, Any], answer: str, *, named: bool
    ) -> tuple[Evidence, dict[str, Any]]:
        """End a row's session and return what it left behind."""
        try:
            finished = await self._sessions.conclude(row["env_id"], answer)
        except SessionError as error:
            if named:
                raise
            reason = (
                f"{error}; a stored rollout is graded again by its deliverables_dir, if it has one"
            )
            raise SessionError(reason, error.fault) from error
        task_input = row["responses_create_params"]["input"]
        evidence, kept = await self._grading.of_session(finished.state, finished.answer, task_input)
        return evidence, kept | {"final_answer": finished.answer}

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Add pass@k over valid rollouts to NeMo Gym's metrics; it leaves masked ones out."""
        return pass_at_k(tasks)

    async def aggregate_metrics(self, body: AggregateRequest) -> AggregateMetrics:  # type: ignore[override]
        """Add to NeMo Gym's metrics what needs the masked rollouts too."""
        rows = [row.model_dump(by_alias=True, exclude_unset=True) for row in body.verify_responses]
        try:
            metrics = await super().aggregate_metrics(
                AggregateMetricsRequest(verify_responses=rows)
            )
            ours = rollout_metrics(rows) if rows else {}
        except Exception as error:
            # NeMo Gym looks at every column, and at nothing but these rows.
            logger.exception("rows could not be aggregated")
            fault = f"these rows cannot be aggregated: {type(error).__name__}: {error}"[:500]
            detail = [{"type": "value_error", "loc": ["body", "verify_responses"], "msg": fault}]
            raise HTTPException(422, detail) from error
        if rows:
            metrics.agent_metrics |= ours
            metrics.key_metrics |= ours
        return metrics


def _session_id(request: Request, env_id: str | None) -> str:
    """Return the session named in the body, else the one of the session cookie."""
    return env_id or request.session[SESSION_ID_KEY]


def _answer(body: BrowserVerifyRequest, told: dict[str, Any]) -> str:
    """Return the model's answer: the one its agent names, else the message that ends it all."""
    if "final_answer" in told or "final_answer" in body.model_fields_set:
        return told.get("final_answer", body.final_answer) or ""
    last = body.response.output[-1] if body.response.output else None
    if not isinstance(last, NeMoGymResponseOutputMessage):
        return ""
    return "\n".join(part.text for part in last.content if part.type == "output_text")


def _opened(session: Session, observation: Observation) -> SeedResponse:
    return SeedResponse(
        env_id=session.session_id,
        viewport_width=session.width,
        viewport_height=session.height,
        **_observed(observation),
    )


def _observed(observation: Observation) -> dict[str, Any]:
    image = observation.image
    return {
        "screenshot": image.data if image else "",
        "media_type": image.media_type if image else "",
        "current_url": observation.url,
        "title": observation.title,
        "tabs": observation.tabs,
        "events": observation.events,
        "settled": observation.settled,
        "timings_ms": observation.timings_ms,
    }


if __name__ == "__main__":
    BrowserGymServer.run_webserver()
