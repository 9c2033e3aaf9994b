"""Intervals of 95 %: of a success rate, and of the difference between two. Pure functions.

Tasks are the sample: the rollouts of one task are alike, so they are drawn together or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Method = Literal["wilson", "bootstrap"]

_Z = 1.959963984540054
_AT_ONCE = 1_000_000
_SEED = 20_000
FEW_TASKS = 20
"""With fewer tasks than these, a bootstrap interval is too narrow."""
DRAWS = 5_000
"""How often a bootstrap draws."""


@dataclass(frozen=True)
class Interval:
    """Where a figure lies, in 95 of 100 such samples.

    Attributes:
        low: end of it.
        high: end of it.
        method: how it was found.
    """

    low: float
    high: float
    method: Method


def wilson(solved: float, n: int) -> Interval:
    """Return Wilson's score interval of a share.

    Args:
        solved: of `n`; may be a fraction.
        n: at least one.
    """
    share = solved / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    middle, scale = share + _Z**2 / (2 * n), 1 + _Z**2 / n
    low, high = (middle - spread) / scale, (middle + spread) / scale
    # Nothing but rounding keeps the ends from these.
    return Interval(
        0.0 if not solved else max(low, 0.0), 1.0 if solved == n else min(high, 1.0), "wilson"
    )


def success_interval(tasks: Sequence[tuple[int, int]]) -> Interval | None:
    """Return the interval of a success rate: solved rollouts of valid ones.

    - A rollout per task: Wilson's.
    - Several: bootstrap over tasks, whose draws are the same in each call.
    - Several, but few tasks, or all are solved equally often (always, say): draws would claim to
      know more than they do. So Wilson's again, with as many samples as there are tasks.

    Args:
        tasks: of each, how many valid rollouts are solved, and how many valid rollouts there are.

    Returns:
        None without a valid rollout.
    """
    counts = np.array([task for task in tasks if task[1]], dtype=float).reshape(-1, 2)
    n = len(counts)
    if not n:
        return None
    solved, valid = counts.T
    if (valid == 1).all():
        return wilson(solved.sum(), n)
    if n < FEW_TASKS or _equal(solved / valid):
        return wilson(n * solved.sum() / valid.sum(), n)
    return _bootstrap(solved, valid)


def difference_interval(differences: Sequence[float]) -> Interval | None:
    """Return the interval of a mean difference between two runs on the same tasks.

    It is a bootstrap over tasks. If all tasks differ equally (not at all, say), draws would not:
    then the interval is as wide as the share of other tasks that such a sample can hide.

    Args:
        differences: of each task's success rates, -1 to 1.

    Returns:
        None without a task.
    """
    n = len(differences)
    if not n:
        return None
    values = np.array(differences, dtype=float)
    if _equal(values):
        hidden, mean = wilson(0, n).high, float(values[0])
        return Interval(max(mean - hidden, -1.0), min(mean + hidden, 1.0), "wilson")
    return _bootstrap(values, np.ones(n))


def _equal(values: np.ndarray) -> bool:
    return bool(np.ptp(values) < 1e-12)


def _bootstrap(parts: np.ndarray, wholes: np.ndarray) -> Interval:
    """Return the percentile interval of `sum(parts) / sum(wholes)` over tasks drawn anew."""
    random, n = np.random.default_rng(_SEED), len(parts)
    ratios: list[np.ndarray] = []
    left = DRAWS
    while left:
        draws = min(left, max(_AT_ONCE // n, 1))
        drawn = random.integers(0, n, (draws, n))
        ratios.append(parts[drawn].sum(axis=1) / wholes[drawn].sum(axis=1))
        left -= draws
    low, high = np.quantile(np.concatenate(ratios), (0.025, 0.975))
    return Interval(float(low), float(high), "bootstrap")
