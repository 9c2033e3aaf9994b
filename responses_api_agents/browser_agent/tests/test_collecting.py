"""Groups of rollouts: waiting for browsers, running spoiled ones again, seeds, limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse
from omegaconf import OmegaConf

from conftest import RESPONSE
from resources_servers.browser_gym.faults import Fault, worth_another_try
from responses_api_agents.browser_agent import attempts, browser_queue
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig
from responses_api_agents.browser_agent.failures import NoFreeBrowser
from responses_api_agents.browser_agent.group_seed import with_group_seed
from responses_api_agents.browser_agent.tests.conftest import Start
from responses_api_agents.browser_agent.tests.fake_environment import FakeEnvironment
from responses_api_agents.browser_agent.tests.providers import with_included
from responses_api_agents.browser_agent.tests.stack import running_agent, served_environment
from tests.simulators.http_server import serve
from tests.simulators.openai_scripts import SimTurn, click, computer_call, message
from tests.started import Started
from tests.waiting import eventually

Json = dict[str, Any]
Answer = Json | JSONResponse
Turn = Callable[[int], Awaitable[Answer]]
"""What a model answers, given how many turns the episode has had."""
Wants = Callable[[Json], JSONResponse | None]

DOWN = JSONResponse({"error": {"message": "down"}}, 503)
WAIT, LOOK = {"type": "wait"}, {"type": "screenshot"}


def calls(*actions: Json) -> Json:
    return {"call_id": "c", "id": "i", "status": "completed"} | computer_call(*actions)


def says(text: str) -> Json:
    return {"id": "m", "status": "completed"} | message(text)


async def clicks_once(turn: int) -> Answer:
    return says("Done.") if turn else calls(click(1, 1))


class Crowded(FakeEnvironment):
    """An environment with few browsers, which a test adds and takes away.

    Attributes:
        capacity: how many sessions there may be.
        most: how many there were at once.
        asking: ids of the sessions that were refused, and still are.
        crowd: how many of them there were at once.
        seeds: the bodies of the seeds that were answered.
        held: ids whose seeds have come, but are looked at only once they are closed.
        holds: whether the next seed is one of them.
        verdicts: what `/verify` answers first.
    """

    def __init__(self, capacity: int = 100) -> None:
        super().__init__()
        self.capacity = capacity
        self.most = self.crowd = 0
        self.asking: set[str] = set()
        self.seeds: list[Json] = []
        self.held: list[str] = []
        self.holds = False
        self.verdicts: list[Json] = []

    async def _seed(self, body: Json = Body()) -> Any:
        if self.holds:
            self.holds = False
            self.held.append(body["env_id"])

            async def is_closed() -> bool:
                return body["env_id"] in self.closed

            await eventually(is_closed)
        elif len(self.sessions) >= self.capacity:
            self.asking.add(body["env_id"])
            self.crowd = max(self.crowd, len(self.asking))
            failure = {"failure_kind": Fault.POOL_FULL.kind, "failure_reason": "all in use"}
            return JSONResponse(failure | {"retry_after_s": 0.02}, 503)
        self.asking.discard(body["env_id"])
        self.seeds.append(body)
        seeded = await super()._seed(body)
        self.most = max(self.most, len(self.sessions))
        return seeded

    async def _verify(self, body: Json = Body()) -> Json:
        graded = await super()._verify(body)
        return graded | (self.verdicts.pop(0) if self.verdicts else {})


class Collector:
    """An agent between an environment and a model, both without a browser or a GPU."""

    def __init__(self, http: httpx.AsyncClient, environment: Crowded) -> None:
        self.http = http
        self.environment = environment

    async def run(self, task: int = 0, repeat: int = 0, **browser: Any) -> Json:
        metadata: Json = {"task_id": f"T-{task}", "points": [[1, 1]]}
        if browser:
            metadata["browser"] = browser
        row = {
            "responses_create_params": {"input": [{"role": "user", "content": "Click."}]},
            "verifier_metadata": metadata,
            "_ng_task_index": task,
            "_ng_rollout_index": repeat,
        }
        answer = await self.http.post("/run", json=row)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def collecting(
    folder: Path, model: Turn, environment: Crowded | None = None, **config: Any
) -> AsyncIterator[Collector]:
    """Start a collector; afterwards no session may be open."""
    environment = environment or Crowded()
    app = FastAPI()

    async def respond(body: Json = Body()) -> Any:
        turn = sum(item.get("type") == "computer_call_output" for item in body["input"])
        answer = await model(turn)
        if isinstance(answer, JSONResponse):
            return answer
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        return RESPONSE | {"output": [answer], "status": "completed", "usage": usage}

    app.post("/v1/responses")(respond)
    async with AsyncExitStack() as stack:
        environment_url = stack.enter_context(environment.serve())
        model_url = stack.enter_context(serve(app))
        settings: Json = {"model": "m", "state": "stateless"} | config
        settings["prices"] = {"m": {"input": 1.0, "output": 1.0}}
        agent = running_agent(environment_url, model_url, folder, **settings)
        yield Collector(await stack.enter_async_context(agent), environment)
    assert environment.sessions == {}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FIRST_PAUSE_S", 0.01)


def is_valid(row: Json) -> bool:
    return (row["reward"], row.get("mask_sample")) == (1, False)


# Waiting for a browser.


async def test_runs_follow_the_browsers_there_are(tmp_path: Path) -> None:
    environment = Crowded(capacity=2)
    async with collecting(tmp_path, clicks_once, environment, queue_timeout_s=None) as collector:
        runs = [asyncio.create_task(collector.run(number)) for number in range(64)]

        async def done(count: int) -> None:
            async def enough() -> bool:
                return sum(run.done() for run in runs) >= count

            await eventually(enough)

        await done(8)
        assert environment.most == 2
        environment.capacity = 6
        await done(24)
        assert environment.most == 6
        environment.capacity, environment.most = 1, 0
        await done(36)
        environment.capacity = 100
        rows = await asyncio.gather(*runs)
    assert all(map(is_valid, rows))
    assert not any("attempts" in row for row in rows), "waiting is no failed attempt"
    assert environment.crowd <= browser_queue.ASKING
    # Nobody overtakes those who do not ask yet.
    asked = [int(seed["verifier_metadata"]["task_id"][2:]) for seed in environment.seeds]
    assert all(number < at + browser_queue.ASKING for at, number in enumerate(asked))
    waited = [row["queue_seconds"] for row in rows]
    assert max(waited) > min(waited) >= 0
    assert all(row["browser_seconds"] >= 0 for row in rows)


async def test_who_waits_too_long_is_masked_and_who_leaves_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_queue, "ASKING", 1)
    environment = Crowded(capacity=0)
    settings: Json = {"queue_timeout_s": 0.2, "resamples": 3}
    async with collecting(tmp_path, clicks_once, environment, **settings) as collector:
        rows = await asyncio.gather(*(collector.run(number) for number in range(3)))
        for row in rows:
            assert (row["mask_sample"], row["failure_kind"]) == (True, Fault.POOL_FULL.kind)
            assert "attempts" not in row, "who has waited long enough does not wait again"
            assert row["queue_seconds"] > 0.1

    async with collecting(tmp_path, clicks_once, environment, queue_timeout_s=None) as collector:
        environment.asking.clear()
        first, second = [asyncio.create_task(collector.run(number)) for number in range(2)]

        async def asks() -> bool:
            return len(environment.asking) == 1

        await eventually(asks)
        first.cancel()
        environment.capacity = 1
        assert is_valid(await second)
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_seed_that_comes_after_its_run_has_left_keeps_no_browser(tmp_path: Path) -> None:
    environment = Crowded(capacity=1)
    environment.holds = True
    async with collecting(tmp_path, clicks_once, environment, queue_timeout_s=None) as collector:
        left = asyncio.create_task(collector.run(0))

        async def is_held() -> bool:
            return bool(environment.held)

        await eventually(is_held)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left

        async def is_refused() -> bool:
            return environment.refused == set(environment.held)

        await eventually(is_refused)
        assert is_valid(await collector.run(1))


async def test_who_never_gets_to_ask_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_queue, "ASKING", 1)
    queue, leave = browser_queue.BrowserQueue(0.05), asyncio.Event()
    first = asyncio.create_task(queue.ask(leave.wait))
    await asyncio.sleep(0)
    with pytest.raises(NoFreeBrowser, match="too many runs wait"):
        await queue.ask(leave.wait)
    leave.set()
    assert await first
    assert await queue.ask(leave.wait)


# Running a rollout again.


def test_only_what_may_pass_is_tried_again() -> None:
    final = {fault.name for fault in Fault if fault.outcome == "masked" and not fault.again}
    assert final == {
        *("TASK_UNUSABLE", "REPEAT_DIFFERS", "WRONG_TOKEN", "BODY_TOO_LARGE", "MODEL_REFUSES"),
        *("TOKENS_DRIFTED", "DISK_FULL", "AGENT_FAULT"),
    }
    assert not any(fault.again for fault in Fault if fault.outcome != "masked")
    assert not worth_another_try("browser_gym:something_new")


async def test_a_verdict_without_the_response_costs_no_attempt() -> None:
    usage = {"input_tokens": 3}
    rows = iter(
        [
            attempts.Attempt({"failure_kind": "verifier_error"}, again=True),
            attempts.Attempt({"failure_kind": "lost", "response": {"usage": usage}}, again=True),
            attempts.Attempt({"reward": 1.0}, again=False),
        ]
    )

    async def attempt() -> attempts.Attempt:
        return next(rows)

    row, failed = await attempts.resampled(attempt, 5)
    assert row == {"reward": 1.0}
    assert failed == [
        {"failure_kind": "verifier_error"},
        {"failure_kind": "lost", "usage": usage},
    ]


async def test_a_spoiled_rollout_is_run_again(tmp_path: Path) -> None:
    asked = 0

    async def model(turn: int) -> Answer:
        nonlocal asked
        asked += 1
        if asked == 2:
            return DOWN
        if asked == 3:
            await asyncio.sleep(3600)
        return await clicks_once(turn)

    environment = Crowded()
    settings: Json = {"resamples": 3, "turn_timeout_s": 3}
    async with collecting(tmp_path, model, environment, **settings) as collector:
        verdict = {"mask_sample": True, "failure_kind": "verifier_error", "failure_reason": "no"}
        environment.verdicts = [verdict]
        row = await collector.run()
    assert is_valid(row)
    assert [(a["failure_kind"], a["num_turns"]) for a in row["attempts"]] == [
        ("provider_unavailable", 1),
        ("transport_timeout", 0),
        ("verifier_error", 2),
    ]
    assert "no answer to /v1/responses in 3 s" in row["attempts"][1]["failure_reason"]
    assert [a["usage"]["output_tokens"] for a in row["attempts"]] == [10, 0, 20]
    assert row["attempts"][2]["cost_usd"] == pytest.approx(220 / 1e6)
    assert row["num_turns"] == 2
    assert row["total_seconds"] > sum(a["total_seconds"] for a in row["attempts"])
    assert len({seed["env_id"] for seed in environment.seeds}) == 4


@pytest.mark.parametrize(
    ("answer", "resamples", "failed"),
    [(DOWN, 2, 2), (DOWN, 0, 0), (JSONResponse({"error": "no such model"}, 404), 2, 0)],
)
async def test_a_rollout_is_run_again_within_a_bound_and_not_in_vain(
    tmp_path: Path, answer: JSONResponse, resamples: int, failed: int
) -> None:
    async def model(_: int) -> Answer:
        return answer

    async with collecting(tmp_path, model, resamples=resamples) as collector:
        row = await collector.run()
    assert row["mask_sample"] is True
    assert len(row.get("attempts", [])) == failed


async def test_a_run_that_is_cancelled_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "FIRST_PAUSE_S", 60)
    asked = 0

    async def model(_: int) -> Answer:
        nonlocal asked
        asked += 1
        return DOWN

    environment = Crowded()
    async with collecting(tmp_path, model, environment, resamples=9) as collector:
        run = asyncio.create_task(collector.run())

        async def pauses() -> bool:
            return asked == 1 and not environment.sessions

        await eventually(pauses)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert len(environment.seeds) == asked == 1


async def test_a_browser_that_dies_costs_an_attempt_and_no_rollout(
    start: Start, site: str, started: Started
) -> None:
    killed = False
    with served_environment(max_sessions=1) as url:

        def kill_once(turn: SimTurn) -> list[Json]:
            nonlocal killed
            if not killed:
                started.kill_chromiums()
            killed = True
            return [message("Done.")] if turn.number else [computer_call(click(60, 40))]

        stack = await start(kill_once, environment_url=url, resamples=1)
        row = await stack.run(f"{site}/links.html")
        async with httpx.AsyncClient(base_url=url) as http:
            assert (await http.get("/health")).json()["sessions"] == 0
    assert is_valid(row)
    assert [a["failure_kind"] for a in row["attempts"]] == [Fault.BROWSER_DIED.kind]
    assert row["first_observation"]["timings_ms"]["acquire"] > 0


async def test_a_start_page_that_draws_nothing_is_opened_again(tmp_path: Path) -> None:
    async with collecting(tmp_path, clicks_once, resamples=1) as collector:
        collector.environment.blanks = 2
        row = await collector.run()
    assert (row["reward"], row["mask_sample"]) == (1, False)
    (attempt,) = row["attempts"]
    assert attempt["failure_kind"] == Fault.START_PAGE.kind
    assert attempt["failure_reason"] == "the start page drew nothing in time"


# Seeds.


async def test_a_group_shares_a_seed_that_other_tasks_have_not(tmp_path: Path) -> None:
    environment = Crowded()
    async with collecting(tmp_path, clicks_once, environment, group_seed=7) as collector:
        one, two = await collector.run(1, 0), await collector.run(1, 1, locale="de-DE")
        other, own = await collector.run(2), await collector.run(2, random_seed=5)
    seeds = [seed["verifier_metadata"]["browser"] for seed in environment.seeds]
    assert seeds[0]["random_seed"] == seeds[1]["random_seed"] != seeds[2]["random_seed"]
    assert (seeds[1]["locale"], seeds[3]["random_seed"]) == ("de-DE", 5)
    rows = [row["verifier_metadata"]["browser"] for row in (one, two, other, own)]
    assert rows == seeds, "the row tells what its browser started with"
    async with collecting(tmp_path, clicks_once, environment) as collector:
        assert "browser" not in (await collector.run())["verifier_metadata"]


def test_a_seed_follows_from_the_task() -> None:
    seeds = [with_group_seed({}, g, t)["browser"]["random_seed"] for g in (1, 2) for t in (0, "a")]
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert with_group_seed({}, 1, None) == {}
    assert with_group_seed({"browser": "none"}, 1, 0) == {"browser": "none"}


def test_the_rl_stack_is_the_policy_agent_with_settings_of_its_own() -> None:
    stack = OmegaConf.to_container(with_included("configs/rl.yaml"), resolve=True)
    assert isinstance(stack, dict)
    agent = stack["browser_policy_agent"]["responses_api_agents"]["browser_agent"]
    assert agent.keys() <= BrowserAgentConfig.model_fields.keys() | {"datasets"}
    server = {"host": "127.0.0.1", "port": 1, "name": "agent"}
    config = BrowserAgentConfig.model_validate(agent | server)
    assert (config.adapter, config.group_seed, config.queue_timeout_s) == ("policy", 0, None)
    assert (config.token_ids, config.artifact_dir) == ("segments", "results/artifacts")
    assert config.resamples
    assert config.turn_timeout_s
    assert {"browser_gym", "browser_policy_agent_environment"} < stack.keys()


# Loops.


@pytest.mark.parametrize(
    ("actions", "limit", "turns", "reason"),
    [
        ([WAIT, LOOK], 3, 6, "loop"),
        ([WAIT, WAIT, LOOK], 3, 9, "loop"),
        ([WAIT, WAIT, WAIT, LOOK], 2, 2, "loop"),
        ([WAIT, LOOK, WAIT, click(1, 1)], 2, 12, "max_steps"),  # each click changes the picture
        ([WAIT, LOOK], None, 12, "max_steps"),
    ],
)
async def test_going_round_is_a_loop(
    tmp_path: Path, actions: list[Json], limit: int | None, turns: int, reason: str
) -> None:
    async def model(turn: int) -> Answer:
        return calls(actions[turn % len(actions)])

    async with collecting(tmp_path, model, loop_limit=limit, max_steps=12) as collector:
        row = await collector.run()
    assert (row["termination_reason"], row["num_turns"]) == (reason, turns)
