"""What is to be learned from the groups of a run: the rollouts of one task each. Pure functions.

A group teaches by how its rollouts differ in reward: one whose valid rollouts all have the same
gives no advantage to any. Masked rollouts count in no mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any

Row = Mapping[str, Any]

TERMINATED = frozenset({"finished", "refusal", "empty_reply"})
"""Reasons for which the model itself ended an episode; all others but a failure are limits."""
FAILED = "failure"


def is_masked(row: Row) -> bool:
    """Whether a rollout's reward is no measurement, said in our way or in NeMo RL's."""
    instance = row.get("instance_config")
    theirs = isinstance(instance, Mapping) and instance.get("mask_sample")
    return bool(row.get("mask_sample") or theirs)


@dataclass(frozen=True)
class Group:
    """The rollouts of one task.

    Attributes:
        name: of the group.
        task_id: of the task; empty if it has none.
        valid: how many rollouts have a reward that is a measurement.
        masked: how many have none, by `failure_kind`.
        mean: reward of the valid ones; None if there is none.
        variance: of these rewards; None likewise.
        terminated: how many valid ones the model itself ended.
        truncated: how many a limit ended, by reason.
        resampled: attempts that failed before the rollouts kept, by `failure_kind`.
    """

    name: str
    task_id: str
    valid: int
    masked: dict[str, int]
    mean: float | None
    variance: float | None
    terminated: int
    truncated: dict[str, int]
    resampled: dict[str, int]

    @property
    def teaches(self) -> bool:
        """Whether its valid rollouts differ in reward."""
        return bool(self.variance)


def group_of(name: str, rows: Sequence[Row]) -> Group:
    """Return the figures of one group.

    Args:
        name: of the group.
        rows: its rollouts, masked ones included; at least one.
    """
    valid = [row for row in rows if not is_masked(row)]
    rewards = [float(row["reward"]) for row in valid]
    reasons = Counter(row.get("termination_reason") for row in valid)
    attempts = [attempt for row in rows for attempt in row.get("attempts") or []]
    return Group(
        name=name,
        task_id=str((rows[0].get("verifier_metadata") or {}).get("task_id") or ""),
        valid=len(valid),
        masked=_kinds(row for row in rows if is_masked(row)),
        mean=fmean(rewards) if rewards else None,
        variance=pvariance(rewards) if rewards else None,
        terminated=sum(count for reason, count in reasons.items() if reason in TERMINATED),
        truncated={
            reason: count
            for reason, count in sorted((r, c) for r, c in reasons.items() if r)
            if reason not in TERMINATED and reason != FAILED
        },
        resampled=_kinds(attempts),
    )


def summary(groups: Sequence[Group]) -> dict[str, Any]:
    """Return what all groups come to; shares are 0 to 1, of all groups.

    Args:
        groups: at least one.
    """
    same = [group for group in groups if group.valid > 1 and not group.teaches]
    valid = sum(group.valid for group in groups)
    return {
        "groups": len(groups),
        "rollouts": valid + sum(sum(group.masked.values()) for group in groups),
        "valid": valid,
        "masked": _total(group.masked for group in groups),
        "resampled": _total(group.resampled for group in groups),
        "mean_reward": _mean_reward(groups),
        "mean_valid": valid / len(groups),
        "teaching_share": sum(group.teaches for group in groups) / len(groups),
        "zero_variance_share": len(same) / len(groups),
        "all_solved_share": sum((group.mean or 0) >= 1 for group in same) / len(groups),
        "none_solved_share": sum(group.mean == 0 for group in same) / len(groups),
        "too_few_valid_share": sum(group.valid < 2 for group in groups) / len(groups),
        "terminated": sum(group.terminated for group in groups),
        "truncated": _total(group.truncated for group in groups),
    }


def by_name(named: Iterable[tuple[str, Row]]) -> list[Group]:
    """Return the groups of rows that come with their group's name, in order of appearance."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for name, row in named:
        rows[name].append(row)
    return [group_of(name, theirs) for name, theirs in rows.items()]


def _mean_reward(groups: Sequence[Group]) -> float | None:
    valid = sum(group.valid for group in groups)
    total = sum((group.mean or 0) * group.valid for group in groups)
    return total / valid if valid else None


def _kinds(failures: Iterable[Row]) -> dict[str, int]:
    kinds = Counter(failure.get("failure_kind") or "unknown" for failure in failures)
    return dict(sorted(kinds.items()))


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for some in counts:
        total.update(some)
    return dict(sorted(total.items()))
