"""Metrics over graded rollouts, beside those NeMo Gym computes from the row's numbers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any


def category_metrics(tasks: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Return `category/<name>`: the mean reward over that category's valid rollouts.

    Args:
        tasks: rollout rows grouped by task; masked rows are left out.
    """
    rewards: dict[str, list[float]] = defaultdict(list)
    for rollouts in tasks:
        for row in rollouts:
            if row.get("category") and not row.get("mask_sample"):
                rewards[row["category"]].append(row["reward"])
    return {f"category/{name}": sum(r) / len(r) for name, r in sorted(rewards.items())}
