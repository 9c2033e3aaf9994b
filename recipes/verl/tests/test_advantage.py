# pyright: reportMissingImports=false
"""The estimator through verl's own way to it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from recipes.verl.advantage import NAME, batch_of
from recipes.verl.tests.rollouts import ROOT

Row = tuple[str, float, list[int], bool]
"""Key, reward, mask of the response, whether it is valid."""


def batch(rows: list[Row]) -> DataProto:
    longest = max(len(mask) for _, _, mask, _ in rows)
    masks = torch.tensor([mask + [0] * (longest - len(mask)) for _, _, mask, _ in rows])
    rewards = torch.zeros(masks.shape)
    for row, (_, reward, mask, _) in enumerate(rows):
        rewards[row, len(mask) - 1] = reward
    data = DataProto.from_dict({"response_mask": masks, "token_level_rewards": rewards})
    uids = [key.rsplit("_", 2)[0] for key, *_ in rows]
    data.non_tensor_batch["uid"] = np.array(uids, dtype=object)
    return data


def advantages(rows: list[Row], estimator: str = NAME, **algorithm: Any) -> list[list[float]]:
    """Return the advantages of each row's tokens, as verl's trainer computes them."""
    keys = [key for key, *_ in rows]
    with batch_of(keys, [valid for *_, valid in rows], group_size=None):
        data = compute_advantage_for_multi_trajectories(
            batch(rows),
            batch_keys=keys,
            adv_estimator=estimator,
            norm_adv_by_std_in_grpo=algorithm.get("norm_adv_by_std_in_grpo", True),
            config=OmegaConf.create(algorithm),
        )
    assert torch.equal(data.batch["advantages"], data.batch["returns"])
    return [
        values[: len(mask)].tolist()
        for values, (_, _, mask, _) in zip(data.batch["advantages"], rows, strict=True)
    ]


ROWS: list[Row] = [
    ("a_0_0", 1.0, [1, 0, 1], True),
    ("a_1_0", 0.0, [1, 1], True),
    ("b_0_0", 1.0, [1], True),
    ("a_2_0", 0.5, [1, 0, 0, 1], True),
    ("a_2_1", 0.5, [0, 1], True),
    ("b_1_0", 0.0, [1, 1], True),
    ("b_2_0", 0.0, [1, 1, 0], True),
]


@pytest.mark.parametrize("by_std", [True, False])
def test_without_invalid_rollouts_it_is_grpo(by_std: bool) -> None:
    ours = advantages(ROWS, norm_adv_by_std_in_grpo=by_std)
    theirs = advantages(ROWS, AdvantageEstimator.GRPO, norm_adv_by_std_in_grpo=by_std)
    for row, values in enumerate(ours):
        assert values == pytest.approx(theirs[row], rel=1e-5)


def test_masked_rollouts_have_no_part_in_it() -> None:
    masked: list[Row] = [("a_3_0", 0.0, [0], False), ("b_3_0", 99.0, [1, 1], False)]
    found = advantages([*ROWS, *masked])
    for row, values in enumerate(advantages(ROWS)):
        assert found[row] == pytest.approx(values)
    assert found[-2:] == [[0], [0, 0]]


def test_a_rollout_that_stops_at_once_has_a_reward_that_counts() -> None:
    rows: list[Row] = [
        ("a_0_0", 1.0, [1], True),
        ("a_1_0", 0.0, [0], True),  # nothing was sampled
        ("a_2_0", 0.0, [0], False),  # neither here, but its reward is none
    ]
    settings = {"norm_adv_by_std_in_grpo": False, "browser_gym": {"max_invalid_share": 0.5}}
    assert advantages(rows, **settings) == [[0.5], [0], [0]]
    stopped_too = [rows[0], rows[1], ("a_2_0", 0.0, [0], True)]
    assert advantages(stopped_too, **settings)[0] == pytest.approx([2 / 3])


def test_groups_with_too_few_valid_rollouts_learn_nothing() -> None:
    rows: list[Row] = [*ROWS, ("b_3_0", 0.0, [0], False)]
    found = advantages(rows, browser_gym={"max_invalid_share": 0.2, "min_valid": 2})
    learning = {key[0] for (key, *_), values in zip(rows, found, strict=True) if any(values)}
    assert learning == {"a"}


def test_it_says_what_it_needs() -> None:
    with pytest.raises(RuntimeError, match="VERL_USE_EXTERNAL_MODULES"):
        compute_advantage_for_multi_trajectories(
            batch(ROWS), batch_keys=[key for key, *_ in ROWS], adv_estimator=NAME
        )


def test_verl_loads_it() -> None:
    program = (
        "import verl; from verl.trainer.ppo.core_algos import get_adv_estimator_fn;"
        f"print(get_adv_estimator_fn({NAME!r}).__module__)"
    )
    variables = {"VERL_USE_EXTERNAL_MODULES": "recipes.verl.advantage", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == "recipes.verl.advantage"
