"""Metrics over graded rollouts, beside those NeMo Gym computes from the rows' numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_gym.reward_profile import compute_pass_majority_metrics

from resources_servers.browser_gym.groups import by_name, is_masked, summary

Row = Mapping[str, Any]


def rollout_metrics(rows: Sequence[Row]) -> dict[str, float]:
    """Return what a run's rows say, told apart by whether their reward counts.

    - `reward/valid_mean`: over the rows that are not masked; missing if there is none.
    - `reward/dense_mean`: over all rows, a masked one counting as 0.
    - `masked/share`, `masked/<failure_kind>`: shares of all rows; the kinds only if there are any.
    - `resampled/share`: of the rows whose rollout was run again; only if there are any.
    - `termination/<reason>`: share of the valid rows that ended so.
    - `category/<name>`: mean reward of that category's valid rows.
    - `groups/mean_valid`, `groups/zero_variance_share`: valid rows per task, and the share of tasks
      whose valid rows, two or more, all have the same reward; only if tasks have several rows.

    Args:
        rows: all of a run, masked ones included; at least one.
    """
    valid = [row for row in rows if not is_masked(row)]
    kinds = Counter(row.get("failure_kind") or "unknown" for row in rows if is_masked(row))
    metrics = {
        "reward/dense_mean": sum(row["reward"] for row in valid) / len(rows),
        "masked/share": 1 - len(valid) / len(rows),
    }
    metrics |= {f"masked/{kind}": count / len(rows) for kind, count in sorted(kinds.items())}
    if resampled := sum(bool(row.get("attempts")) for row in rows):
        metrics["resampled/share"] = resampled / len(rows)
    if valid:
        metrics["reward/valid_mean"] = _mean([row["reward"] for row in valid])
    reasons = Counter(r for row in valid if (r := row.get("termination_reason")))
    metrics |= {f"termination/{r}": count / len(valid) for r, count in sorted(reasons.items())}
    return metrics | _category_means(valid) | _group_figures(rows)


def pass_at_k(tasks: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Return `pass@<k>`, 0 to 1: whether one of k rollouts of a task is right, mean over tasks.

    Estimated without bias from all of a task's valid rollouts; a task with fewer than k valid ones
    does not count for that k.

    Args:
        tasks: valid rollouts, grouped by task.
    """
    solved = [[{"reward": float(row["reward"] >= 1)} for row in task] for task in tasks]
    theirs, *_ = compute_pass_majority_metrics(solved)
    return {
        name.removesuffix("/accuracy"): value / 100
        for name, value in theirs.items()
        if name.startswith("pass@") and name.endswith("/accuracy") and "[" not in name
    }


def _category_means(valid: Sequence[Row]) -> dict[str, float]:
    rewards: dict[str, list[float]] = defaultdict(list)
    for row in valid:
        if row.get("category"):
            rewards[row["category"]].append(row["reward"])
    return {f"category/{name}": _mean(values) for name, values in sorted(rewards.items())}


def _group_figures(rows: Sequence[Row]) -> dict[str, float]:
    named = [(str(row["_ng_task_index"]), row) for row in rows if "_ng_task_index" in row]
    if len({name for name, _ in named}) == len(named):
        return {}
    figures = summary(by_name(named))
    return {f"groups/{name}": figures[name] for name in ("mean_valid", "zero_variance_share")}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
