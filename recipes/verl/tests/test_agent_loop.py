# pyright: reportMissingImports=false
"""Episodes with verl's own builder of tokens, a real processor and real browsers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker

from recipes.verl.baseline import VALID
from recipes.verl.tests.rollouts import (
    CLICK,
    DONE,
    LOGPROB,
    Reply,
    RunningEnvironment,
    ScriptedServer,
    action,
    agent_loop,
)
from recipes.verl.tests.tiny_model import ModelServer, tiny_model
from recipes.verl.tests.tiny_processor import IMAGE_PAD

SAMPLING = {"temperature": 1.0, "logprobs": True}


class Rollout:
    """One run of the agent loop: what came of it, and what was sampled."""

    def __init__(self, outputs: list[AgentLoopOutput], server: ScriptedServer) -> None:
        self.outputs = outputs
        self.asked = server.asked

    @property
    def only(self) -> AgentLoopOutput:
        assert len(self.outputs) == 1
        return self.outputs[0]


async def run(
    environment: RunningEnvironment,
    processor: Any,
    replies: Sequence[Reply],
    task: dict[str, Any] | None = None,
    sampling: dict[str, Any] = SAMPLING,
    **options: Any,
) -> Rollout:
    server = ScriptedServer(processor.tokenizer, replies)
    loop = agent_loop(environment.url, processor, server, **options)
    made = await loop.run(sampling, task=json.dumps(task or environment.task()))
    return Rollout(made if isinstance(made, list) else [made], server)


def sampled_runs(output: AgentLoopOutput) -> list[list[int]]:
    """Return the runs of tokens that are trained on."""
    runs: list[list[int]] = []
    before = 0
    for token, trained in zip(output.response_ids, output.response_mask, strict=True):
        if trained and not before:
            runs.append([])
        if trained:
            runs[-1].append(token)
        before = trained
    return runs


def check_images(output: AgentLoopOutput, processor: Any) -> None:
    """Check that verl makes as many image features of the images as there are places for them."""
    ids = output.prompt_ids + output.response_ids
    worker = SimpleNamespace(
        processor=processor,
        tokenizer=processor.tokenizer,
        _get_mm_processor_kwargs=lambda audios=None: {},
    )
    inputs = AgentLoopWorker._compute_multi_modal_inputs(worker, output, torch.tensor([ids]))
    grid = inputs["image_grid_thw"]
    assert len(grid) == len(output.multi_modal_data["images"])
    pad = processor.tokenizer.convert_tokens_to_ids(IMAGE_PAD)
    assert ids.count(pad) == int(grid.prod(dim=1).sum()) // 4


async def test_a_whole_episode_is_one_growing_sequence(
    environment: RunningEnvironment, processor: Any
) -> None:
    task = environment.task(
        assertions=[
            {"title": "the answer", "answer_equals": "done"},
            {"title": "one click", "query": "count", "equals": 1},
        ]
    )
    rollout = await run(environment, processor, ["no call at all", CLICK, DONE], task)
    output = rollout.only
    assert output.reward_score == 1
    assert output.num_turns == 6
    assert sampled_runs(output) == [asked.sampled for asked in rollout.asked]
    assert output.prompt_ids == rollout.asked[0].prompt_ids
    for asked in rollout.asked:
        whole = output.prompt_ids + output.response_ids
        assert whole[: len(asked.prompt_ids)] == asked.prompt_ids
    assert [len(asked.images) for asked in rollout.asked] == [1, 2, 3]
    assert len(output.multi_modal_data["images"]) == 3
    assert output.multi_modal_data["images"][0].size == (640, 480)
    check_images(output, processor)
    assert [
        LOGPROB if trained else 0.0 for trained in output.response_mask
    ] == output.response_logprobs
    text = processor.tokenizer.decode(output.prompt_ids + output.response_ids)
    # What the policy does wrong is told to it, and the episode goes on.
    assert "Not executed: the reply holds no call" in text
    assert text.count("<|im_start|>") == 1 + 3 * 2
    assert "<|im_end|>\n<|im_start|>user" in text
    assert output.metrics.tool_calls > 0
    assert output.extra_fields[VALID] is True
    assert output.extra_fields["termination_reason"] == "finished"
    assert output.extra_fields["min_global_steps"] == 7
    assert output.extra_fields["max_global_steps"] == 10
    assert environment.sessions() == 0


async def test_what_is_wrong_with_an_action_is_told_and_costs_nothing_else(
    environment: RunningEnvironment, processor: Any
) -> None:
    wrong = [
        action(action="left_click", coordinate=[5000, 60]),
        action(action="key", keys=["NoSuchKey"]),
        action(action="fly"),
        "<tool_call>\n{broken\n</tool_call>",
        DONE,
    ]
    rollout = await run(environment, processor, wrong, sampling={"temperature": 1.0})
    output = rollout.only
    assert output.reward_score == 1
    assert output.response_logprobs is None
    told = processor.tokenizer.decode(output.response_ids)
    for part in (
        "which is not from 0 to 1000",
        "NoSuchKey",
        "there is no action 'fly'",
        "not JSON",
    ):
        assert part in told


async def test_history_that_is_left_out_makes_segments(
    environment: RunningEnvironment, processor: Any
) -> None:
    replies = [CLICK, CLICK, CLICK, CLICK, DONE]
    history = {"policy": "hysteresis", "keep": 1, "batch": 1}
    rollout = await run(environment, processor, replies, history=history)
    assert [len(output.multi_modal_data["images"]) for output in rollout.outputs] == [2, 2, 1]
    assert [output.num_turns for output in rollout.outputs] == [4, 4, 2]
    assert [output.reward_score for output in rollout.outputs] == [1, 1, 1]
    trained = [run_ for output in rollout.outputs for run_ in sampled_runs(output)]
    assert trained == [asked.sampled for asked in rollout.asked]
    for output in rollout.outputs:
        check_images(output, processor)
        assert output.extra_fields["reward_extra_info"] == {VALID: 1.0}
    assert "[screenshot omitted]" in processor.tokenizer.decode(rollout.outputs[1].prompt_ids)
    assert rollout.outputs[0].metrics.tool_calls == 0 < rollout.outputs[-1].metrics.tool_calls


async def test_an_episode_ends_where_there_is_no_more_room(
    environment: RunningEnvironment, processor: Any
) -> None:
    one_turn = len(CLICK) + 1
    rollout = await run(
        environment, processor, [CLICK, CLICK, CLICK], lengths=(4096, one_turn + 50)
    )
    output = rollout.only
    # The screenshot after the click has no room, and nothing was sampled from it.
    assert len(output.multi_modal_data["images"]) == 1
    assert output.response_mask == [1] * one_turn
    assert output.reward_score == 0
    assert output.extra_fields[VALID] is True
    assert output.extra_fields["termination_reason"] == "context_window"

    cut = await run(environment, processor, [CLICK], max_reply_tokens=5)
    assert cut.only.response_mask == [1] * 5
    assert cut.asked[0].sampling_params["max_tokens"] == 5
    assert cut.only.extra_fields["termination_reason"] == "truncated_reply"
    assert environment.sessions() == 0

    with pytest.raises(ValueError, match="prompt_length is 10"):
        await run(environment, processor, [CLICK], lengths=(10, 100))
    assert environment.sessions() == 0


async def test_a_policy_that_says_nothing_in_time_has_a_reward(
    environment: RunningEnvironment, processor: Any
) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    rollout = await run(environment, processor, [never], run_timeout_s=0.1)
    output = rollout.only
    assert output.response_mask == [0]
    assert output.reward_score == 0
    assert output.extra_fields[VALID] is True
    assert output.extra_fields["termination_reason"] == "time_budget"


async def test_a_cancelled_rollout_closes_its_session(
    environment: RunningEnvironment, processor: Any
) -> None:
    asked = asyncio.Event()

    async def never() -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    rollout = asyncio.create_task(run(environment, processor, [never]))
    await asked.wait()
    assert environment.sessions() == 1
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    assert environment.sessions() == 0


async def test_a_fault_of_the_rollout_server_is_not_hidden(
    environment: RunningEnvironment, processor: Any
) -> None:
    async def dies() -> str:
        raise RuntimeError("the engine died")

    with pytest.raises(RuntimeError, match="the engine died"):
        await run(environment, processor, [dies])
    assert environment.sessions() == 0


async def test_a_model_gives_the_whole_sequence_the_probabilities_it_was_sampled_with(
    environment: RunningEnvironment, processor: Any
) -> None:
    server = ModelServer(tiny_model(processor.tokenizer), processor)
    options: dict[str, Any] = {"policy": "hysteresis", "keep": 1, "batch": 2}
    loop = agent_loop(environment.url, processor, server, history=options, max_steps=4)
    outputs = await loop.run(SAMPLING, task=json.dumps(environment.task()))
    assert isinstance(outputs, list)
    assert [output.num_turns for output in outputs] == [6, 2]
    for output in outputs:
        assert output.response_logprobs
        assert output.multi_modal_data
        ids = output.prompt_ids + output.response_ids
        whole = server.logprobs(ids, output.multi_modal_data["images"])
        trained = torch.tensor(output.response_mask).bool()
        again = whole[len(output.prompt_ids) - 1 :][trained]
        sampled = torch.tensor(output.response_logprobs)[trained]
        assert torch.allclose(again, sampled, atol=1e-3)
        assert sampled.std() > 0.1
