"""The demo tasks through every provider: real Chromium, and the same rewards."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from responses_api_agents.browser_agent.tests.providers import PROVIDERS, ROOT, road
from responses_api_agents.browser_agent.tests.stack import served_environment
from scripts.demo import free_port
from tests.simulators.solutions import load_solutions

Json = dict[str, Any]

# All categories of the demo tasks; the solution of BRD-06 is wrong on purpose.
TASKS = (
    *("BRD-02", "BRD-04", "BRD-05", "BRD-06", "CRM-01", "CRM-05", "CRM-06"),
    *("DOC-01", "DOC-07", "SET-02", "SET-04", "SHOP-01"),
)
AT_ONCE = 4


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[str, list[Json]]]:
    """A resources server with the demo gym, and the rows of `TASKS` for it."""
    port = free_port()
    text = (ROOT / "data/demo_tasks.jsonl").read_text("utf-8").replace(":8777", f":{port}")
    rows = [json.loads(line) for line in text.splitlines()]
    chosen = [row for row in rows if row["verifier_metadata"]["task_id"] in TASKS]
    categories = {row["verifier_metadata"]["category"] for row in rows}
    assert {row["verifier_metadata"]["category"] for row in chosen} == categories
    with served_environment(max_sessions=AT_ONCE, demo_gym_port=port) as environment:
        yield environment, chosen


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_demo_tasks_get_the_same_rewards(
    name: str, demo: tuple[str, list[Json]], tmp_path: Path
) -> None:
    environment, rows = demo
    solutions = load_solutions()
    provider = PROVIDERS[name]
    free = asyncio.Semaphore(AT_ONCE)
    async with road(provider, provider.solve(solutions), environment, tmp_path) as to_model:

        async def run(row: Json) -> Json:
            async with free:
                return await to_model.run(row)

        graded = await asyncio.gather(*map(run, rows))
        to_model.check()
    assert [
        (row["failure_reason"], row["mask_sample"]) for row in graded if row["mask_sample"]
    ] == []
    for row in graded:
        solution = solutions[row["verifier_metadata"]["task_id"]]
        found = (row["reward"], row["num_turns"], row["final_answer"])
        turns = solution["turns"]
        assert found == (solution["expected_reward"], len(turns), turns[-1]["answer"])
    assert Counter(row["reward"] for row in graded) == {1: 11, 0: 1}
