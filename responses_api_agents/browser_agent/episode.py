"""The episode loop: model, browser, model, browser, until something ends it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from resources_servers.browser_gym.actions import MAX_BATCH
from resources_servers.browser_gym.event_text import event_text
from resources_servers.browser_gym.faults import Fault
from responses_api_agents.browser_agent.adapters.base import (
    Adapter,
    Call,
    CallOutcome,
    Reply,
    Screen,
)
from responses_api_agents.browser_agent.cost import Prices
from responses_api_agents.browser_agent.environment import Environment
from responses_api_agents.browser_agent.failures import ContextWindowExceeded, RolloutFailure
from responses_api_agents.browser_agent.token_trace import newest_with_tokens, without_tokens
from responses_api_agents.browser_agent.trajectory import Record, Screenshots, TerminationReason

LONGEST_ROUND = 4
"""How many turns a loop may go round, such as two that undo each other."""

SafetyPolicy = Literal["acknowledge", "stop"]

AskModel = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends one Responses request and returns the response.

Raises:
    RolloutFailure: the model server failed.
"""

_NOT_RUN = "Not executed: an earlier action of this turn failed."
_TOO_MANY = f"a call can have {MAX_BATCH} actions; those beyond were left out."
_NO_IMAGE = "The page drew nothing in time; the screenshot is an earlier one."


@dataclass(frozen=True)
class Limits:
    """What ends an episode that does not end itself.

    Attributes:
        max_steps: model replies.
        max_seconds: wall time from the first request to the model.
        loop_limit: equal turns (same actions, same screen) in a row, or equal rounds of two to
            LONGEST_ROUND turns, 2 or more; None for no limit.
        nudges: empty replies in a row after which the model is asked again.
    """

    max_steps: int
    max_seconds: float
    loop_limit: int | None
    nudges: int


class Episode:
    """Runs one episode; `record` is complete up to the moment anything raised."""

    def __init__(
        self,
        *,
        adapter: Adapter,
        environment: Environment,
        ask_model: AskModel,
        screenshots: Screenshots,
        limits: Limits,
        safety_policy: SafetyPolicy,
        prices: Prices,
        tokens_on_items: bool = True,
    ) -> None:
        """Prepare an episode; nothing is sent yet."""
        self._adapter = adapter
        self._environment = environment
        self._ask = ask_model
        self._screenshots = screenshots
        self._limits = limits
        self._safety_policy = safety_policy
        self._prices = prices
        self._tokens_on_items = tokens_on_items
        self._nudges_left = limits.nudges
        self._screen = Screen("", "", 0, 0, "")
        self._reference = ""
        self.record = Record()

    async def run(self, seed: dict[str, Any], params: dict[str, Any]) -> Record:
        """Open the session and loop until the episode ends.

        Args:
            seed: body of `/seed_session`.
            params: the run's `responses_create_params`.

        Raises:
            RolloutFailure: the infrastructure failed; `record` holds what was collected.
        """
        record = self.record
        try:
            seeded = await self._timed(self._environment.open(seed))
        finally:
            record.queue_seconds = self._environment.queue_seconds
            record.browser_seconds -= record.queue_seconds
        self._screen = await self._first_screen(seeded)
        self._reference = await self._screenshots.store(self._screen)
        record.first = {
            "url": self._screen.url,
            "screenshot": self._reference,
            "timings_ms": seeded["timings_ms"],
        }
        request = self._adapter.start(params, self._screen)
        record.asked = self._screenshots.refer(request)
        try:
            async with asyncio.timeout(self._limits.max_seconds) as budget:
                while (reason := await self._turn(request)) is None:
                    request = self._adapter.next()
                record.termination_reason = reason
        except TimeoutError:
            if not budget.expired():
                raise
            record.termination_reason = "time_budget"
        except ContextWindowExceeded:
            record.termination_reason = "context_window"
        return record

    async def _first_screen(self, seeded: dict[str, Any]) -> Screen:
        """Return what the start page shows; a machine that is busy may need a second look.

        Raises:
            RolloutFailure: it drew nothing, so there is nothing to ask the model about.
        """
        screen = self._environment.screen(seeded)
        if not screen.image:
            answer = await self._timed(self._environment.step([{"type": "screenshot"}]))
            screen = self._environment.screen(answer)
        if not screen.image:
            raise RolloutFailure(Fault.START_PAGE.kind, "the start page drew nothing in time")
        return screen

    async def _turn(self, request: dict[str, Any]) -> TerminationReason | None:
        """Ask the model once and do what it says; return why the episode ends, if it does."""
        record = self.record
        started = time.monotonic()
        response = await self._ask(request)
        model_seconds = time.monotonic() - started
        reply = self._adapter.read(response)
        record.model_seconds += model_seconds
        record.response = response
        record.usage += reply.usage
        trace = record.tokens
        follows = trace.add(len(record.turns), request, response, self._screenshots.refer)
        kept = newest_with_tokens(reply.items) if follows and self._tokens_on_items else None
        record.items += [item if item is kept else without_tokens(item) for item in reply.items]
        cost = self._prices.cost(response.get("model") or "", reply.usage)
        if cost is None or record.cost_usd is None:
            record.cost_usd = None
        else:
            record.cost_usd += cost
        turn = {
            "index": len(record.turns),
            "response_id": reply.response_id,
            "message": reply.message,
            "reasoning": reply.reasoning,
            "calls": [],
            "usage": dataclasses.asdict(reply.usage),
            "cost_usd": cost,
            "timings_ms": {"model": round(model_seconds * 1000, 1)},
        }
        record.turns.append(turn)
        if trace.drift:
            raise RolloutFailure(Fault.TOKENS_DRIFTED.kind, trace.drift)
        if reply.stop == "empty_reply" and self._nudges_left:
            self._nudges_left -= 1
            turn["nudged"] = True
            record.items += self._adapter.nudge()
        elif reply.stop:
            return reply.stop
        elif reply.calls:
            self._nudges_left = self._limits.nudges
            if self._safety_policy == "stop" and any(call.safety_checks for call in reply.calls):
                turn["calls"] = [self._describe(call, None, []) for call in reply.calls]
                return "safety_stop"
            await self._run_calls(reply, turn)
        elif not reply.paused:
            record.answer = reply.message
            return "finished"
        if len(record.turns) >= self._limits.max_steps:
            return "max_steps"
        if self._looping():
            return "loop"
        return None

    async def _run_calls(self, reply: Reply, turn: dict[str, Any]) -> None:
        outcomes: list[CallOutcome] = []
        for call in reply.calls:
            if outcomes and outcomes[-1].failed:
                outcome, answer = CallOutcome(self._screen, [_NOT_RUN], failed=True), None
            else:
                outcome, answer = await self._run_call(call)
            outcomes.append(outcome)
            turn["calls"].append(self._describe(call, answer, outcome.texts))
        turn["url"] = self._screen.url
        turn["screenshot"] = self._reference
        answers = self._adapter.answer(reply, outcomes)
        self.record.items += [self._screenshots.refer(item) for item in answers]

    async def _run_call(self, call: Call) -> tuple[CallOutcome, dict[str, Any]]:
        actions = call.actions[:MAX_BATCH] or [{"type": "screenshot"}]
        error = _TOO_MANY if len(call.actions) > MAX_BATCH else call.error
        answer = await self._timed(self._environment.step(actions))
        screen = self._environment.screen(answer)
        texts = _texts(answer)
        if not screen.image:
            screen = dataclasses.replace(
                screen, image=self._screen.image, media_type=self._screen.media_type
            )
            texts.append(_NO_IMAGE)
        self._screen = screen
        self._reference = await self._screenshots.store(screen)
        failed = any(result["status"] == "error" for result in answer["results"])
        if error and not failed:
            texts.append(f"Not executed: {error}")
            failed = True
        return CallOutcome(screen, texts, failed), answer

    def _describe(
        self, call: Call, answer: dict[str, Any] | None, texts: list[str]
    ) -> dict[str, Any]:
        described: dict[str, Any] = {
            "call_id": call.call_id,
            "kind": call.kind,
            "native": without_tokens(call.native),
            "actions": call.actions,
            "texts": texts,
        }
        if call.error:
            described["error"] = call.error
        if call.safety_checks:
            described["safety_checks"] = call.safety_checks
            described["safety_policy"] = self._safety_policy
        if answer:
            kept = ("results", "current_url", "events", "settled", "timings_ms")
            described |= {key: answer[key] for key in kept}
            if len(answer["tabs"]) > 1:
                described["tabs"] = answer["tabs"]
        return described

    def _looping(self) -> bool:
        limit = self._limits.loop_limit
        turns = [turn for turn in self.record.turns if turn["calls"]]
        if limit is None or len(turns) < limit:
            return False
        prints = [_fingerprint(turn) for turn in turns[-limit * LONGEST_ROUND :]]
        return any(
            prints[-limit * length :] == prints[-length:] * limit
            for length in range(1, LONGEST_ROUND + 1)
        )

    async def _timed(self, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        started = time.monotonic()
        try:
            return await work
        finally:
            self.record.browser_seconds += time.monotonic() - started


def _fingerprint(turn: dict[str, Any]) -> tuple[str, str]:
    return str([call["actions"] for call in turn["calls"]]), turn["screenshot"]


def _texts(answer: dict[str, Any]) -> list[str]:
    """Return what a step has to say that its screenshot does not show."""
    texts = [result["text"] for result in answer["results"] if result["text"]]
    for result in answer["results"]:
        if result["status"] == "error":
            # It may repeat an address or a key of any length.
            texts.append(f"Action failed: {result['error']:.1000}")
        elif result["status"] == "not_run":
            texts.append(f"Not executed after that failure: {result['type']}")
    return texts + [text for event in answer["events"] if (text := event_text(event))]
