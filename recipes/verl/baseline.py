"""Advantages relative to a group, of valid rollouts alone. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

VALID = "browser_gym_valid"
"""Key of a rollout's `extra_fields` that says whether its reward is a measurement."""

EPSILON = 1e-6


@dataclass(frozen=True)
class Rollouts:
    """What the rows of a batch are, one entry per row in each list.

    Attributes:
        groups: which share a task.
        sessions: which rollout of the group a row is of: a rollout has a row per segment.
        positions: of the segment in its rollout; its last one speaks for it.
        valid: whether its reward is a measurement.
    """

    groups: Sequence[Hashable]
    sessions: Sequence[Hashable]
    positions: Sequence[int]
    valid: Sequence[bool]


@dataclass(frozen=True)
class Advantages:
    """Advantages of a batch.

    Attributes:
        values: of each row.
        groups: how many there are.
        idle_groups: how many of them have too few valid rollouts, and so advantages of zero.
        rollouts: how many there should be.
        invalid: how many of them have no valid reward, or are missing.
    """

    values: np.ndarray
    groups: int
    idle_groups: int
    rollouts: int
    invalid: int


def group_advantages(
    scores: Sequence[float] | np.ndarray,
    rows: Rollouts,
    *,
    by_std: bool = True,
    min_valid: int = 2,
    max_invalid_share: float = 0.5,
    group_size: int | None = None,
) -> Advantages:
    """Return each row's advantage over the valid rollouts of its group.

    A rollout counts once, however many segments it has, and gives all of them its advantage. An
    invalid one changes nothing for the others and has an advantage of zero, as have all of a group
    with too few valid ones.

    Args:
        scores: of each row.
        rows: what they are.
        by_std: divide by the group's standard deviation.
        min_valid: the fewest valid rollouts of a group.
        max_invalid_share: the largest share of a group's rollouts that may be invalid.
        group_size: rollouts that each group should have, of which some may have been left out.
    """
    last: dict[tuple[Hashable, Hashable], int] = {}
    for row, rollout in enumerate(zip(rows.groups, rows.sessions, strict=True)):
        if rollout not in last or rows.positions[row] > rows.positions[last[rollout]]:
            last[rollout] = row
    members: dict[Hashable, list[int]] = defaultdict(list)
    for (group, _), row in last.items():
        members[group].append(row)

    of_rollout: dict[tuple[Hashable, Hashable], float] = {}
    idle_groups = rollouts = invalid = 0
    for group, those in members.items():
        valid = [row for row in those if rows.valid[row]]
        size = max(len(those), group_size or 0)
        rollouts += size
        invalid += size - len(valid)
        if len(valid) < min_valid or size - len(valid) > max_invalid_share * size:
            idle_groups += 1
            continue
        rewards = np.array([scores[row] for row in valid], dtype=np.float64)
        relative = rewards - rewards.mean()
        if by_std:
            relative /= (rewards.std(ddof=1) if len(valid) > 1 else 1.0) + EPSILON
        for row, value in zip(valid, relative, strict=True):
            of_rollout[group, rows.sessions[row]] = float(value)
    values = [
        of_rollout.get(rollout, 0.0) for rollout in zip(rows.groups, rows.sessions, strict=True)
    ]
    return Advantages(np.array(values), len(members), idle_groups, rollouts, invalid)
