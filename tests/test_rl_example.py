"""The example that learns: its gradient, its tokens, and an iteration in real browsers."""

import dataclasses
import random
from pathlib import Path

import httpx
import numpy as np
import pytest

from examples import reinforce_cpu
from examples.stack import running
from examples.tiny_policy import PATCH, Batch, TinyPolicy, allowed_after
from examples.tiny_server import TinyServer
from examples.tiny_tokens import CELLS, CLICK, DONE, END, options, prompt_of, text_of, tokens_of
from responses_api_agents.browser_agent.policies import policies

REPLIES = [[DONE, END], *([CLICK, cell, END] for cell in CELLS)]


def drawn_batch(policy: TinyPolicy) -> Batch:
    """Tokens as a policy might sample them, of which some ratios are beyond the clip."""
    rng = np.random.default_rng(7)
    chains = [(None, CLICK), (None, DONE), *((CLICK, cell) for cell in CELLS)]
    allowed = np.array([allowed_after(before) for before, _ in chains])
    chosen = np.array([token - END for _, token in chains])
    pixels = rng.uniform(-1, 1, (len(chains), len(CELLS), 3 * PATCH**2))
    batch = Batch(pixels, allowed, chosen, np.zeros(len(chains)), rng.normal(size=len(chains)))
    shift = rng.uniform(-0.5, 0.5, len(chains))
    return dataclasses.replace(batch, log_probs=policy.log_probs(batch) + shift)


def test_the_gradient_is_that_of_the_objective() -> None:
    policy = TinyPolicy(1)
    rng = np.random.default_rng(2)
    for value in policy.parameters.values():
        value += rng.normal(0, 0.3, value.shape)
    batch = drawn_batch(policy)
    for name, slopes in policy.gradient(batch).items():
        value = policy.parameters[name]
        assert np.any(slopes)
        for index in rng.choice(value.size, min(value.size, 20), replace=False):
            place = np.unravel_index(index, value.shape)
            before, sides = value[place], []
            for change in (1e-6, -1e-6):
                value[place] = before + change
                sides.append(policy.objective(batch))
            value[place] = before
            assert slopes[place] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-8), name


def test_steps_raise_the_objective() -> None:
    policy = TinyPolicy(1)
    batch = drawn_batch(policy)
    before = policy.objective(batch)
    for _ in range(5):
        policy.step(batch)
    assert policy.objective(batch) > before


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_in_its_familys_format_and_has_one_spelling(reply: list[int]) -> None:
    assert all(
        after in options(before) for before, after in zip([None, *reply], reply, strict=False)
    )
    assert [*tokens_of(text_of(reply)), END] == reply
    meant = policies()["qwen3_vl"].parse(text_of(reply), 640, 360)
    if reply[0] == DONE:
        assert meant.answer == "Done."
        return
    row, column = divmod(reply[1] - CELLS.start, 4)
    assert meant.error is None
    [click] = meant.actions
    assert (click["type"], click["x"], click["y"]) == ("click", 80 + 160 * column, 90 + 180 * row)


def test_what_cannot_be_read_is_refused() -> None:
    assert tokens_of("Né") == list("Né".encode())
    with pytest.raises(ValueError, match="role 'tool'"):
        prompt_of([{"role": "tool", "content": "4"}])
    with pytest.raises(ValueError, match="type 'video'"):
        prompt_of([{"role": "user", "content": [{"type": "video"}]}])


async def test_the_server_refuses_what_it_cannot_do() -> None:
    transport = httpx.ASGITransport(app=TinyServer(TinyPolicy(1)).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://tiny") as http:
        hello = {"messages": [{"role": "user", "content": "Hello"}]}
        for body, words in (
            (hello, "there is no image"),
            (hello | {"temperature": 0}, "only 1 is served"),
            ({}, "messages"),
        ):
            answer = await http.post("/v1/chat/completions", json=body)
            assert answer.status_code == 400
            assert words in answer.json()["detail"]


class Chosen:
    """Stands for the dice: tokens come in the order in which they are given."""

    def __init__(self, *replies: list[int]) -> None:
        self._outputs = iter([token - END for reply in replies for token in reply])

    def choice(self, outputs: int, p: np.ndarray) -> int:
        assert p.shape == (outputs,)
        assert p.sum() == pytest.approx(1)
        output = next(self._outputs)
        assert p[output] > 0
        return output


async def test_an_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout that finds the tile and one that does not make the first one likelier."""
    monkeypatch.setattr(reinforce_cpu, "AT_ONCE", 1)
    policy = TinyPolicy(1)
    right, wrong, done = [CLICK, CELLS[2], END], [CLICK, CELLS[5], END], [DONE, END]
    monkeypatch.setattr(policy, "dice", Chosen(right, done, wrong, done))
    async with (
        running(TinyServer(policy).app, tmp_path / "artifacts", 1) as (url, pages),
        httpx.AsyncClient(base_url=url, timeout=100) as agent,
    ):
        tasks = reinforce_cpu.task_rows(pages, random.Random(1))[2:3]
        rows = await reinforce_cpu.roll_out(agent, tasks, 2, 8)
    assert [row["failure_reason"] for row in rows] == [None, None]
    assert [(row["reward"], row["num_turns"]) for row in rows] == [(1, 2), (0, 2)]
    assert [row["_ng_task_index"] for row in rows] == [8, 8]

    masked = rows[1] | {"reward": 0, "mask_sample": True}
    assert reinforce_cpu.valid([*rows, masked]) == rows
    assert reinforce_cpu.batch_of(rows[:1], tmp_path) is None
    # Out of time before the first reply: it has a reward, and no tokens.
    silent = {key: value for key, value in rows[1].items() if key != "segments"}
    assert reinforce_cpu.batch_of([rows[0], silent], tmp_path) is not None
    batch = reinforce_cpu.batch_of(rows, tmp_path)
    assert batch is not None
    assert [END + token for token in batch.chosen] == [*right, *done, *wrong, *done]
    assert batch.advantages.tolist() == [0.5] * 5 + [-0.5] * 5

    before = policy.log_probs(batch)
    reinforce_cpu.learn(policy, batch)
    after = policy.log_probs(batch)
    assert after[1] > before[1]  # the right cell
    assert after[6] < before[6]  # the wrong one
    with pytest.raises(RuntimeError, match="from the policy's own"):
        reinforce_cpu.learn(policy, batch)
