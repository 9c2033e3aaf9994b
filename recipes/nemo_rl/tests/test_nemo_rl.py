"""Rows of real episodes under NeMo RL's rules, and the recipe's configuration."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import nemo_gym
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from browser_gym.exporting.run import Choice, run_export
from browser_gym.exporting.writers import read_samples
from recipes.nemo_rl.prepare_data import AGENT, main
from recipes.nemo_rl.tests.rules import Refused, advantages, is_masked, turns_of
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig
from responses_api_agents.browser_agent.tests.fake_vllm import IMAGE, FakeVllm
from responses_api_agents.browser_agent.tests.stack import running_agent, served_environment
from tests.simulators.http_server import serve

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "recipes/nemo_rl/grpo_browser_gym.yaml"
GYM = yaml.safe_load(RECIPE.read_text())["env"]["nemo_gym"]
SETTINGS = GYM[AGENT]["responses_api_agents"]["browser_agent"]


def call(**arguments: Any) -> Json:
    words = json.dumps({"name": "computer_use", "arguments": arguments})
    return {"content": f"<think>Where?</think>I act.\n<tool_call>\n{words}\n</tool_call>"}


PRESS = call(action="left_click", coordinate=[78, 69])
ANSWER = call(action="answer", text="1")
PRESSES = [PRESS, {"content": "I would rather talk."}, ANSWER]
TALKS = [{"content": "I would rather talk."}, ANSWER]


def task(site: str) -> Json:
    metadata = {
        "task_id": "T-1",
        "start_url": f"{site}/counter.html",
        "viewport": {"width": 1280, "height": 720},
        "verifier": "local_storage",
        "assertions": [{"title": "pressed once", "query": "count", "equals": 1}],
    }
    asked = {"input": [{"role": "user", "content": "Press it once."}]}
    return {"responses_create_params": asked, "verifier_metadata": metadata}


@pytest.fixture(scope="module")
def environment() -> Iterator[str]:
    with served_environment(max_sessions=2) as url:
        yield url


@pytest.fixture(scope="module")
async def group(
    environment: str, site: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Json], Path]:
    """A group of one task: solved, not solved, masked while it ran, and masked before it began."""
    folder = tmp_path_factory.mktemp("group")

    async def rollout(server: FakeVllm, row: Json, number: int) -> Json:
        settings = {"adapter": "policy", "policy": GYM["browser_policy"], "model": "policy"}
        settings |= SETTINGS | {"resamples": 0}
        with serve(server.app) as url:
            async with running_agent(environment, url, folder, **settings) as agent:
                body = {**row, "_ng_task_index": 0, "_ng_rollout_index": number}
                return (await agent.post("/run", json=body)).json()

    nowhere = task("http://127.0.0.1:9")
    rows = [
        await rollout(FakeVllm(PRESSES.__getitem__), task(site), 0),
        await rollout(FakeVllm(TALKS.__getitem__), task(site), 1),
        await rollout(FakeVllm(PRESSES.__getitem__, drifting_at=1), task(site), 2),
        await rollout(FakeVllm(PRESSES.__getitem__), nowhere, 3),
    ]
    async with httpx.AsyncClient(base_url=environment) as http:
        assert (await http.get("/health")).json()["sessions"] == 0
    return rows, folder


async def test_rows_are_taken(group: tuple[list[Json], Path], site: str) -> None:
    """Each turn has its own tokens, numbers and images, as many as its prompt has room for."""
    rows, _ = group
    assert [row["reward"] for row in rows] == [1, 0, 0, 0]
    assert [is_masked(row) for row in rows] == [False, False, True, True]
    for row, replies in zip(rows, (3, 2, 1), strict=False):
        turns = turns_of(task(site), row)
        assert len(turns) == replies
        for turn in turns:
            assert len(turn.generated) == len(turn.log_probs) > 0
            assert turn.prompt.count(IMAGE) == len(turn.images) == 1
            assert turn.images[0].size == (1280, 720)
    assert rows[2]["failure_kind"] == "browser_gym:tokens_not_contiguous"
    with pytest.raises(Refused, match="no generation data"):
        turns_of(task(site), rows[3])  # the recipe has such a group asked for again


async def test_the_rules_refuse(group: tuple[list[Json], Path], site: str) -> None:
    """What NeMo RL takes it takes for a reason: the rules can fail."""
    (row, *_), _ = group

    def changed(change: Callable[[list[Json], Json], Any]) -> Json:
        copy = json.loads(json.dumps(row))
        trained = [item for item in copy["response"]["output"] if "prompt_token_ids" in item]
        change(trained, copy["response"])
        return copy

    with pytest.raises(Refused, match="not contiguous"):
        turns_of(task(site), changed(lambda items, _: items[1]["prompt_token_ids"].insert(0, 9)))
    nan = float("nan")
    with pytest.raises(Refused, match="no number"):
        turns_of(task(site), changed(lambda items, _: items[0].update(generation_log_probs=[nan])))
    unseen = turns_of(task(site), changed(lambda _, response: response.pop("agent_input")))
    assert unseen[0].images == []


async def test_masked_rollouts_change_no_baseline(group: tuple[list[Json], Path]) -> None:
    rows, _ = group
    assert advantages(rows) == [1, -1, 0, 0]
    assert advantages(rows[:2]) == [1, -1]
    # The legacy loops let them count, so the recipe takes the single controller.
    assert advantages(rows, masked_count=True)[1] == pytest.approx(-1 / 3)


@given(
    rewards=st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8),
    masked=st.lists(st.tuples(st.integers(0, 8), st.sampled_from([0.0, 1.0])), max_size=4),
)
def test_no_masked_rollout_ever_changes_a_baseline(
    rewards: list[float], masked: list[tuple[int, float]]
) -> None:
    group: list[Json] = [{"reward": reward} for reward in rewards]
    alone = advantages(group)
    for place, reward in masked:
        group.insert(place, {"reward": reward, "instance_config": {"mask_sample": True}})
    found = advantages(group)
    assert [a for row, a in zip(group, found, strict=True) if not is_masked(row)] == alone


async def test_exported_they_are_the_same_tokens(
    group: tuple[list[Json], Path], site: str, tmp_path: Path
) -> None:
    """What an export trains on is what NeMo RL would."""
    rows, folder = group
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = run_export([path], tmp_path / "whole.jsonl", Choice("whole"))
    assert counts.left_out == {
        "masked: browser_gym:tokens_not_contiguous": 1,
        f"masked: {rows[3]['failure_kind']}": 1,
    }
    for row, sample in zip(rows, read_samples(tmp_path / "whole.jsonl"), strict=False):
        turns = turns_of(task(site), row)
        assert sample["token_ids"] == [t for turn in turns for t in turn.prompt + turn.generated]
        assert sum(sample["loss_mask"]) == sum(len(turn.generated) for turn in turns)
        assert [p for p in sample["log_probs"] if p] == [p for t in turns for p in t.log_probs]
        assert all((tmp_path / image).is_file() for image in sample["images"])
        assert len(sample["images"]) == len(turns)

    run_export([path], tmp_path / "sft.jsonl", Choice("sft", min_reward=1))
    [chat] = read_samples(tmp_path / "sft.jsonl")
    said = [message["role"] for message in chat["messages"]]
    assert said == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert chat["messages"][2]["reasoning_content"] == "Where?"
    assert len(chat["images"]) == 3
    steps = run_export([path], tmp_path / "stepwise.jsonl", Choice("stepwise"))
    assert steps.samples == 5


def test_the_configuration_fits() -> None:
    roots = [ROOT, Path(nemo_gym.__file__).parents[1]]
    for path in GYM["config_paths"]:
        relative = path.removeprefix("${oc.env:BROWSER_GYM}/")
        assert any((root / relative).is_file() for root in roots), path
    agent = yaml.safe_load(
        (ROOT / "responses_api_agents/browser_agent/configs/browser_policy_agent.yaml").read_text()
    )[AGENT]["responses_api_agents"]["browser_agent"]
    known = {"host": "127.0.0.1", "port": 1, "name": AGENT, "policy": GYM["browser_policy"]}
    config = BrowserAgentConfig.model_validate(agent | SETTINGS | known | {"auth_token": None})
    assert (config.token_ids, config.screenshots, config.history.policy) == (
        "items",
        "file_urls",
        "all",
    )


def test_each_task_gets_the_agents_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one with a character that ends a line elsewhere than in JSONL."""
    source, output = tmp_path / "tasks.jsonl", tmp_path / "new" / "train.jsonl"
    tasks = [{"input": "One\u2028two\x85."}, {"input": "Half \ud83d."}]
    lines = [json.dumps(tasks[0], ensure_ascii=False), "", json.dumps(tasks[1])]
    source.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["prepare_data", str(source), "--output", str(output)])
    main()
    reference = {"agent_ref": {"type": "responses_api_agents", "name": AGENT}}
    told = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert told == [task | reference for task in tasks]
