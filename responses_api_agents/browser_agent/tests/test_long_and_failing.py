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
        number = self.replies[match[1]]
        self.replies[match[1]] += 1
        if number >= int(match[2]):
            return self._provider.say("Done.")
        return self._provider.click(turn, *point(number))


def unanswered(row: Json) -> set[str]:
    """Return ids of the calls in a row that have no output, and of outputs that have no call."""
    items = row["response"]["output"]
    calls = [item["call_id"] for item in items if item["type"] in CALLS]
    outputs = [item["call_id"] for item in items if item["type"].endswith("_call_output")]
    assert len(calls) == len(set(calls))
    return set(calls) ^ set(outputs)


TURNS_KEPT = {"history": {"policy": "hysteresis", "keep": 3, "batch": 7, "max_turns_kept": 30}}


@pytest.mark.parametrize(
    ("provider", "changes"),
    [
        (OPENAI, {}),
        (FUNCTIONS, {}),
        (FUNCTIONS, TURNS_KEPT),
        (ANTHROPIC, {}),
        (ANTHROPIC, TURNS_KEPT),
        (GEMINI, {}),
        (GEMINI, TURNS_KEPT),
    ],
    ids=lambda value: value.agent if isinstance(value, Provider) else "-".join(value) or "default",
)
async def test_200_turns_are_never_refused(
    provider: Provider, changes: Json, tmp_path: Path
) -> None:
    environment = FakeEnvironment()
    with environment.serve() as url:
        policy = Clicker(provider)
        async with road(provider, policy, url, tmp_path, max_steps=250, **changes) as to_model:
            row = await to_model.run(task(1, 200))
            to_model.check()
    assert (row["reward"], row["num_turns"], row["termination_reason"]) == (1, 201, "finished")
    assert {request.status for request in to_model.simulator.requests} == {200}
    assert unanswered(row) == set()
    images = [
        len(re.findall(r"data:image/|\"image/png\"", json.dumps(request.body)))
        for request in to_model.simulator.requests
    ]
    assert max(images) <= (90 if provider is ANTHROPIC and not changes else 10)


EPISODES = 64
ONE_FAULT_IN = 10


class FailingClicker(Clicker):
    """A clicker whose API fails at every tenth request, in turn in each of its ways.

    Attributes:
        failed: how many failures were ordered.
    """

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self.simulator: Any = None
        self.failed = 0

    def __call__(self, turn: Any) -> list[Json]:
        ways = (*self._provider.faults, self._provider.half_a_reply)
        if sum(self.replies.values()) % (ONE_FAULT_IN - 1) == 0:
            self.simulator.fail_next(ways[self.failed % len(ways)])
            self.failed += 1
        return super().__call__(turn)


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
    with environment.serve() as url:
        async with road(
            provider, policy, url, tmp_path, model_config={"max_retries": 6}
        ) as to_model:
            policy.simulator = to_model.simulator
            done = await asyncio.gather(*map(to_model.run, rows))
            requests = to_model.simulator.requests
            assert provider.altered(to_model.simulator) == []
    assert [row["verifier_metadata"]["task_id"] for row in done] == [
        str(n) for n in range(EPISODES)
    ]
    assert environment.sessions == {}
    refused = [request.error for request in requests if request.status in range(400, 429)]
    assert refused == []
    assert policy.failed / len(requests) == pytest.approx(1 / ONE_FAULT_IN, abs=0.02)

    # Half a document is an answer, so it is not asked for again; all else is.
    masked = [row for row in done if row["mask_sample"]]
    halves = policy.failed // (len(provider.faults) + 1)
    assert 1 <= len(masked) <= halves + 1
    for row in masked:
        assert row["failure_kind"] == "provider_unavailable"
        assert "reply cannot be used" in row["failure_reason"]
    valid = [row for row in done if not row["mask_sample"]]
    assert len(valid) == len(environment.graded)
    for row in done:
        assert unanswered(row) == set()
    for row in valid:
        number = int(row["verifier_metadata"]["task_id"])
        assert row["reward"] == (number % 4 != 0)
        assert row["num_turns"] == 4 + number % 6
