# pyright: reportMissingImports=false
"""From the agent loop's outputs to advantages, by verl's own worker and trainer.

Only the queue between them is in memory: verl's takes a Ray cluster.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transfer_queue
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from recipes.verl.advantage import NAME
from recipes.verl.baseline import VALID


class Queue:
    """Rows by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, dict[str, Any]] = {}

    def put(
        self,
        keys: list[str],
        partition_id: str,
        fields: TensorDict,
        tags: list[dict[str, Any]] | None = None,
    ) -> KVBatchMeta:
        for index, key in enumerate(keys):
            self.rows.setdefault(key, {}).update(dict(fields[index].items()))
            if tags:
                self.tags[key] = tags[index]
        return self.batch()

    async def async_put(self, **put: Any) -> None:
        self.put(**put)

    def get(
        self, keys: list[str], partition_id: str, select_fields: list[str] | None = None
    ) -> TensorDict:
        return list_of_dict_to_tensordict(
            [
                {
                    name: getattr(value, "data", value)
                    if not isinstance(value, torch.Tensor)
                    else value
                    for name, value in self.rows[key].items()
                    if select_fields is None or name in select_fields
                }
                for key in keys
            ]
        )

    def batch(self) -> KVBatchMeta:
        keys = list(self.rows)
        return KVBatchMeta(partition_id="train", keys=keys, tags=[self.tags[key] for key in keys])


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    """The queue that verl puts rows in and takes them from."""
    queue = Queue()
    monkeypatch.setattr(transfer_queue, "kv_batch_put", queue.put)
    monkeypatch.setattr(transfer_queue, "async_kv_batch_put", queue.async_put)
    monkeypatch.setattr(transfer_queue, "kv_batch_get", queue.get)
    return queue


def segment(reward: float, valid: bool = True, tokens: int = 3) -> AgentLoopOutput:
    return AgentLoopOutput(
        prompt_ids=[5, 6],
        response_ids=[7] * tokens,
        response_mask=[1 if valid else 0] * tokens,
        response_logprobs=[-0.5] * tokens,
        multi_modal_data={},
        reward_score=reward,
        metrics=AgentLoopMetrics(),
        extra_fields={VALID: valid, "reward_extra_info": {VALID: float(valid)}},
    )


async def test_segments_masked_and_dropped_rollouts_and_padding(
    queue: Queue, processor: Any
) -> None:
    kind = AgentLoopWorkerTQ.__ray_metadata__.modified_class
    worker = object.__new__(kind)
    worker.reward_loop_worker_handles = None
    worker.distillation_enabled = False
    worker.processor = None
    worker.tokenizer = processor.tokenizer

    sessions: list[tuple[str, list[AgentLoopOutput]]] = [
        ("a", [segment(1), segment(1, tokens=2)]),
        ("a", [segment(0)]),
        ("a", [segment(0, valid=False, tokens=1)]),
        ("a", []),
        ("b", [segment(1)]),
        ("b", []),
        ("b", []),
        ("b", []),
    ]
    for session_id, (uid, outputs) in enumerate(sessions):
        row = {"uid": uid, "session_id": session_id, "global_steps": 1, "raw_prompt": "Go."}
        await worker._agent_loop_postprocess(outputs, False, **row)
    assert list(queue.rows) == ["a_0_0", "a_0_1", "a_1_0", "a_2_0", "b_4_0"]
    upsample_batch_to_divisible_size(queue.batch(), 4, processor.tokenizer.eos_token_id)
    assert len(queue.rows) == 8

    config = {
        "algorithm": {
            "adv_estimator": NAME,
            "gamma": 1.0,
            "lam": 1.0,
            "use_kl_in_reward": False,
            "norm_adv_by_std_in_grpo": False,
            "browser_gym": {"min_valid": 1, "max_invalid_share": 0.5},
        },
        "actor_rollout_ref": {"rollout": {"n": 4}},
    }
    trainer = SimpleNamespace(config=OmegaConf.create(config))
    metrics: dict[str, float] = {}
    PPOTrainer._compute_advantage(trainer, queue.batch(), metrics)  # type: ignore[arg-type]
    found = {key: row["advantages"].tolist() for key, row in queue.rows.items()}
    assert found["a_0_0"] == [0.5] * 3
    assert found["a_0_1"] == [0.5] * 2
    assert found["a_1_0"] == [-0.5] * 3
    assert found["a_2_0"] == [0]
    assert found["b_4_0"] == [0] * 3  # three of four were left out
    assert all(found[key] == [0] for key in found if key.startswith("pad"))
    assert metrics == {
        "browser_gym/invalid_share": 5 / 8,
        "browser_gym/idle_groups": 1,
        "browser_gym/groups": 2,
    }
