"""Long conversations, and APIs that fail, through every provider; an environment of clicks."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from responses_api_agents.browser_agent.tests.fake_environment import FakeEnvironment
from responses_api_agents.browser_agent.tests.providers import (
    ANTHROPIC,
    FUNCTIONS,
    GEMINI,
    OPENAI,
    PROVIDERS,
    Provider,
    road,
)
from tests.simulators.faults import cut_connection, malformed_json

Json = dict[str, Any]

CALLS = ("computer_call", "function_call")


def point(number: int) -> list[int]:
    """Where the click of a turn goes, in px: none is like the one before."""
    return [10 + number % 80, 10 + number // 80]


def task(number: int, clicks: int, *, asked: int | None = None) -> Json:
    """A row of a task for which the simulated model clicks `clicks` times.

    Args:
        number: of the task.
        clicks: how often the model clicks.
        asked: how often it ought to.
    """
    prompt = f"Task <{number}>: click <{clicks}> times."
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "verifier_metadata": {
            "task_id": str(number),
            "start_url": "http://fake.test/",
            "points": [point(n) for n in range(clicks if asked is None else asked)],
        },
    }


class Clicker:
    """A policy that clicks as often as the task's text says.

    It counts the replies itself: a conversation whose oldest turns were left out does not tell.

    Attributes:
        replies: given by task.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.replies: Counter[str] = Counter()

    def __call__(self, turn: Any) -> list[Json]:
        said = json.dumps(getattr(turn, "conversation", None) or turn.body)
        match = re.search(r"Task <(\d+)>: click <(\d+)> times", said)
        assert match
        number = self._number(turn, match[1])
        self.replies[match[1]] += 1
        if number >= int(match[2]):
            return self._provider.say("Done.")
        return self._provider.click(turn, *point(number))

    def _number(self, turn: Any, task_id: str) -> int:
        return self.replies[task_id]


def unanswered(row: Json) -> set[str]:
    """Return ids of the calls in a row that have no output, and of outputs that have no call."""
    items = row["response"]["output"]
    calls = [item["call_id"] for item in items if item["type"] in CALLS]
    outputs = [item["call_id"] for item in items if item["type"].endswith("_call_output")]
    assert len(calls) == len(set(calls))
    return set(calls) ^ set(outputs)


TURNS_KEPT = {"history": {"policy": "hysteresis", "keep": 3, "batch": 7, "max_turns_kept": 30}}
# Turns go in batches of 8 beyond 30, so this is several prunings.
PRUNED_TURNS = 60


@pytest.mark.parametrize(
    ("provider", "changes", "turns"),
    [
        pytest.param(OPENAI, {}, 200, marks=pytest.mark.long),
        pytest.param(ANTHROPIC, {}, 200, marks=pytest.mark.long),
        pytest.param(GEMINI, {}, 200, marks=pytest.mark.long),
        (FUNCTIONS, TURNS_KEPT, PRUNED_TURNS),
        (ANTHROPIC, TURNS_KEPT, PRUNED_TURNS),
        (GEMINI, TURNS_KEPT, PRUNED_TURNS),
    ],
    ids=lambda value: value.agent if isinstance(value, Provider) else None,
)
async def test_long_conversations_are_never_refused(
    provider: Provider, changes: Json, turns: int, tmp_path: Path
) -> None:
    environment = FakeEnvironment()
    with environment.serve() as url:
        policy = Clicker(provider)
        async with road(provider, policy, url, tmp_path, max_steps=250, **changes) as to_model:
            row = await to_model.run(task(1, turns))
            to_model.check()
    assert (row["reward"], row["num_turns"], row["termination_reason"]) == (
        1,
        turns + 1,
        "finished",
    )
    assert {request.status for request in to_model.simulator.requests} == {200}
    assert unanswered(row) == set()
    images = [
        len(re.findall(r"data:image/|\"image/png\"", json.dumps(request.body)))
        for request in to_model.simulator.requests
    ]
    assert max(images) <= (90 if provider is ANTHROPIC and not changes else 10)


EPISODES = 64
ONE_FAULT_IN = 10
# Longer than an answer takes where 64 are asked for at once.
HANG_S = 5


class FailingClicker(Clicker):
    """A clicker whose API fails at every tenth request, in turn in each of its ways.

    Its conversations are whole, so it goes by them: a reply that comes too late, on a busy machine,
    is asked for again.

    Attributes:
        failed: how many failures were ordered, by their kind and HTTP status.
    """

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self.simulator: Any = None
        self.failed: Counter[tuple[str, int]] = Counter()

    def __call__(self, turn: Any) -> list[Json]:
        faults = self._provider.faults
        if self.replies.total() % (ONE_FAULT_IN - 1) == 0:
            fault = faults[self.failed.total() % len(faults)]
            self.simulator.fail_next(fault)
            self.failed[fault.kind, fault.status] += 1
        return super().__call__(turn)

    def _number(self, turn: Any, task_id: str) -> int:
        return turn.number


@pytest.mark.long
@pytest.mark.parametrize("name", PROVIDERS)
async def test_failing_apis_lose_no_row_and_spoil_no_reward(name: str, tmp_path: Path) -> None:
    provider = PROVIDERS[name]
    environment = FakeEnvironment()
    policy = FailingClicker(provider)
    # Every fourth task asks for one click more than the model makes.
    rows = [
        task(number, clicks := 3 + number % 6, asked=clicks + (number % 4 == 0))
        for number in range(EPISODES)
    ]
    settings = {"max_retries": 6, "timeout_s": HANG_S}
    with environment.serve() as url:
        async with road(provider, policy, url, tmp_path, model_config=settings) as to_model:
            policy.simulator = to_model.simulator
            done = await asyncio.gather(*map(to_model.run, rows))
            requests = to_model.simulator.requests
            to_model.check()
    assert [row["verifier_metadata"]["task_id"] for row in done] == [
        str(n) for n in range(EPISODES)
    ]
    assert environment.sessions == {}
    statuses = {("status", status) for status in (429, 500, 529)}
    assert policy.failed.keys() >= statuses | {
        (k, 200) for k in ("hang", "drop", "cut", "malformed")
    }
    assert min(policy.failed.values()) >= 4
    assert policy.failed.total() / len(requests) == pytest.approx(1 / ONE_FAULT_IN, abs=0.03)

    assert [row["failure_reason"] for row in done if row["mask_sample"]] == []
    assert len(environment.graded) == EPISODES
    for number, row in enumerate(done):
        assert unanswered(row) == set()
        assert row["reward"] == (number % 4 != 0)
        assert row["num_turns"] == 4 + number % 6


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_reply_that_is_never_whole_masks_the_row(name: str, tmp_path: Path) -> None:
    provider = PROVIDERS[name]
    environment = FakeEnvironment()
    with environment.serve() as url:
        async with road(
            provider, Clicker(provider), url, tmp_path, model_config={"max_retries": 1}
        ) as to_model:
            for fault in (malformed_json(), cut_connection()):
                to_model.simulator.fail_next(fault)
            row = await to_model.run(task(1, 1))
    assert (row["mask_sample"], row["failure_kind"]) == (True, "provider_unavailable")
    assert "could not be reached" in row["failure_reason"]
    assert len(to_model.simulator.requests) == 2
    assert environment.sessions == {}
