# pyright: reportMissingImports=false
"""The advantage estimator `grpo_valid`: GRPO in which invalid rollouts count for nothing.

verl tells an estimator neither which rows are valid nor which belong to one rollout. The trainer's
own method that computes advantages is wrapped to remember both for as long as it runs; all else is
verl's. Load this module in every process: `VERL_USE_EXTERNAL_MODULES=recipes.verl.advantage`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import transfer_queue
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from recipes.verl.baseline import VALID, Rollouts, group_advantages

NAME = "grpo_valid"


@dataclass
class _Batch:
    """What the estimator needs beside verl's arguments, and what it tells."""

    rows: Rollouts
    padding: np.ndarray
    group_size: int | None
    metrics: dict[str, float] = field(default_factory=dict)


_batch: ContextVar[_Batch | None] = ContextVar("batch", default=None)


@contextmanager
def batch_of(
    keys: list[str], valid: list[bool], *, padding: list[bool] | None = None, group_size: int | None
) -> Iterator[dict[str, float]]:
    """Tell the estimator about the rows of a batch; yields metrics, which it fills in.

    Args:
        keys: of the rows: `{uid}_{session}_{segment}`.
        valid: whether each row's reward is a measurement.
        padding: whether a row is verl's own, to fill up a batch.
        group_size: rollouts per task.
    """
    names = [key.rsplit("_", 2) for key in keys]
    rows = Rollouts(
        groups=[name[0] for name in names],
        sessions=[name[1] for name in names],
        positions=[int(name[2]) for name in names],
        valid=valid,
    )
    batch = _Batch(rows, np.array(padding or [False] * len(keys)), group_size)
    token = _batch.set(batch)
    try:
        yield batch.metrics
    finally:
        _batch.reset(token)


@register_adv_est(NAME)
def grpo_valid(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    config: Mapping[str, Any] | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return advantages and returns, zero wherever nothing was sampled.

    Args:
        token_level_rewards: (rows, tokens).
        response_mask: likewise.
        config: verl's `algorithm`; of it `norm_adv_by_std_in_grpo`, and `browser_gym` with
            `min_valid` and `max_invalid_share`.

    Raises:
        RuntimeError: the trainer's method is not wrapped.
    """
    batch = _batch.get()
    if batch is None:
        raise RuntimeError(
            f"{NAME} knows nothing of the rows: it needs verl's V1 trainer (trainer.use_v1) with "
            "VERL_USE_EXTERNAL_MODULES=recipes.verl.advantage"
        )
    own = dict((config or {}).get("browser_gym") or {})
    real = np.flatnonzero(~batch.padding)
    scores = token_level_rewards.sum(dim=-1).double().cpu().numpy()
    found = group_advantages(
        scores[real],
        Rollouts(*([column[row] for row in real] for column in vars(batch.rows).values())),
        by_std=(config or {}).get("norm_adv_by_std_in_grpo", True),
        group_size=batch.group_size,
        **own,
    )
    values = np.zeros(len(scores))
    values[real] = found.values
    batch.metrics |= {
        "browser_gym/invalid_share": found.invalid / max(1, found.rollouts),
        "browser_gym/idle_groups": found.idle_groups,
        "browser_gym/groups": found.groups,
    }
    per_row = torch.as_tensor(values, dtype=torch.float32, device=response_mask.device)
    advantages = per_row.unsqueeze(-1) * response_mask
    return advantages, advantages


def _wrapped(original: Any) -> Any:
    @functools.wraps(original)
    def compute_advantage(self: PPOTrainer, batch: Any, metrics: dict[str, Any]) -> Any:
        if self.config.algorithm.adv_estimator != NAME:
            return original(self, batch, metrics)
        stored = transfer_queue.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"]
        )
        fields = [getattr(value, "data", value) for value in stored["extra_fields"]]
        with batch_of(
            batch.keys,
            [bool(row[VALID]) for row in fields],
            padding=[bool(tag.get("is_padding")) for tag in batch.tags],
            group_size=self.config.actor_rollout_ref.rollout.n,
        ) as told:
            result = original(self, batch, metrics)
        metrics.update(told)
        return result

    return compute_advantage


PPOTrainer._compute_advantage = _wrapped(PPOTrainer._compute_advantage)
