# pyright: reportMissingImports=false
"""verl's agent loop for browser episodes."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from omegaconf import DictConfig, OmegaConf
from verl.experimental.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, register

from recipes.verl.baseline import VALID
from recipes.verl.environment_http import HttpPost
from recipes.verl.settings import Settings
from recipes.verl.token_policy import Segment, TokenPolicy
from responses_api_agents.browser_agent.adapters.policy import PolicyAdapter
from responses_api_agents.browser_agent.browser_queue import BrowserQueue
from responses_api_agents.browser_agent.cost import Prices
from responses_api_agents.browser_agent.environment import Environment
from responses_api_agents.browser_agent.episode import Episode, Limits
from responses_api_agents.browser_agent.failures import RolloutFailure
from responses_api_agents.browser_agent.policies import policies
from responses_api_agents.browser_agent.trajectory import Record, Screenshots, response_of

logger = logging.getLogger(__name__)

_closing: set[asyncio.Task[None]] = set()


@register("browser_gym")
class BrowserGymAgentLoop(AgentLoopBase):
    """Runs one rollout: an episode in a session of its own, and its verdict."""

    def __init__(self, *, settings: Mapping[str, Any] | DictConfig, **kwargs: Any) -> None:
        """Prepare a rollout.

        Args:
            settings: see `Settings`.
            kwargs: verl's.
        """
        super().__init__(**kwargs)
        if isinstance(settings, DictConfig):
            settings = OmegaConf.to_container(settings, resolve=True)  # type: ignore[assignment]
        self._settings = Settings.model_validate(settings)

    async def run(
        self, sampling_params: dict[str, Any], **kwargs: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Run a rollout, with a fresh session if the environment fails.

        What the policy does wrong is told to it. What the environment does wrong is never a
        reward: after the last try the rollout is masked, or left out.

        Args:
            sampling_params: verl's.
            kwargs: a row of the data set; `task` is the task row as JSON.

        Returns:
            The rollout's segments, all with its reward; one without a list, none if it was
            dropped.
        """
        task = json.loads(kwargs["task"])
        options = {"priority": int(kwargs["priority"])} if "priority" in kwargs else {}
        for tries_left in reversed(range(1 + self._settings.resamples)):
            policy = TokenPolicy(self, sampling_params, self._settings.max_reply_tokens, **options)
            try:
                outputs = await self._rollout(task, policy)
                break
            except RolloutFailure as failure:
                task_id = task["verifier_metadata"].get("task_id")
                logger.warning("task %s failed: %s: %s", task_id, failure.kind, failure.reason)
                if not tries_left or not failure.again:
                    outputs = self._invalid(failure, with_logprobs=policy.with_logprobs)
                    break
            await asyncio.sleep(self._settings.resample_delay_s)
        return outputs[0] if len(outputs) == 1 else outputs

    async def _rollout(self, task: dict[str, Any], policy: TokenPolicy) -> list[AgentLoopOutput]:
        """Run one episode and have it graded.

        Raises:
            RolloutFailure: the environment failed.
        """
        http = aiohttp.ClientSession()
        queue = _queue(self._settings.server_url, self._settings.queue_timeout_s)
        environment = Environment(HttpPost(http, self._settings), queue)
        episode = self._episode(environment, policy)
        params = task["responses_create_params"]
        metadata = task["verifier_metadata"]
        try:
            record = await episode.run({"verifier_metadata": metadata}, params)
            started = time.monotonic()
            graded = await environment.verify(
                {
                    "responses_create_params": params,
                    "verifier_metadata": metadata,
                    "response": _words_of(record),
                    "final_answer": record.answer,
                }
            )
            verify_seconds = time.monotonic() - started
        finally:
            await _end(environment, http)
        if graded.get("mask_sample"):
            raise RolloutFailure(graded["failure_kind"], graded["failure_reason"])
        metrics = AgentLoopMetrics(
            generate_sequences=record.model_seconds,
            tool_calls=record.browser_seconds,
            compute_score=verify_seconds,
            num_preempted=policy.num_preempted,
        )
        segments = policy.segments or [self._nothing(with_logprobs=policy.with_logprobs)]
        told = {"termination_reason": record.termination_reason, "failure_kind": None, VALID: True}
        return [
            self._output(segment, graded["reward"], metrics if last else AgentLoopMetrics(), told)
            for segment in segments
            for last in [segment is segments[-1]]
        ]

    def _episode(self, environment: Environment, policy: TokenPolicy) -> Episode:
        settings = self._settings
        adapter = PolicyAdapter(
            model="policy",
            policy=policies()[settings.policy],
            instructions=settings.instructions,
            browser_functions=False,
            history=settings.history,
        )
        return Episode(
            adapter=adapter,
            environment=environment,
            ask_model=policy.ask,
            screenshots=Screenshots(Path(), "inline"),
            limits=Limits(settings.max_steps, settings.run_timeout_s, settings.loop_limit, 0),
            safety_policy="acknowledge",
            prices=Prices(),
        )

    def _invalid(self, failure: RolloutFailure, *, with_logprobs: bool) -> list[AgentLoopOutput]:
        if self._settings.on_fault == "drop":
            return []
        told = {"termination_reason": "failure", "failure_kind": failure.kind, VALID: False}
        segment = self._nothing(with_logprobs=with_logprobs)
        return [self._output(segment, 0.0, AgentLoopMetrics(), told)]

    def _nothing(self, *, with_logprobs: bool) -> Segment:
        """Return a segment in which nothing was sampled: verl takes none that is empty."""
        end = self.tokenizer.eos_token_id
        return Segment([end], [end], [0], [0.0] if with_logprobs else None)

    def _output(
        self, segment: Segment, reward: float, metrics: AgentLoopMetrics, told: dict[str, Any]
    ) -> AgentLoopOutput:
        return AgentLoopOutput(
            prompt_ids=segment.prompt_ids,
            response_ids=segment.response_ids,
            response_mask=segment.mask,
            response_logprobs=segment.logprobs,
            multi_modal_data={"images": segment.images} if segment.images else {},
            mm_processor_kwargs=self._get_mm_processor_kwargs(),
            reward_score=float(reward),
            num_turns=2 * segment.turns,
            metrics=metrics,
            extra_fields={
                **segment.extra_fields,
                **told,
                "reward_extra_info": {VALID: float(told[VALID])},
                "turn_scores": [],
                "tool_rewards": [],
            },
        )


@functools.cache
def _queue(server_url: str, timeout_s: float | None) -> BrowserQueue:
    """Return where all rollouts of this process wait for a browser of one server."""
    return BrowserQueue(timeout_s)


async def _end(environment: Environment, http: aiohttp.ClientSession) -> None:
    """End the session; goes on in the background if the rollout is cancelled meanwhile."""

    async def end() -> None:
        try:
            await environment.close()
        finally:
            await http.close()

    task = asyncio.create_task(end())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    await asyncio.shield(task)


def _words_of(record: Record) -> dict[str, Any]:
    """Return the episode as a response without its screenshots: the server has kept its own."""
    replies = [item for item in record.items if item.get("role") == "assistant"]
    return {**response_of(record, "policy"), "output": replies}
