"""A whole report, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from browser_gym.reporting.costs import Pricing
from browser_gym.reporting.figures import Comparison, Figures, by_group, compare, figures
from browser_gym.reporting.intervals import DRAWS, FEW_TASKS
from browser_gym.reporting.outcomes import Outcome
from browser_gym.reporting.runs import Run

By = Literal["category", "verifier", "task"]

_GROUPS: dict[By, Callable[[Outcome], str]] = {
    "category": lambda one: one.category or "(none)",
    "verifier": lambda one: one.verifier or "(none)",
    "task": lambda one: one.task,
}
_BOOTSTRAP = f"a bootstrap over tasks ({DRAWS:,} draws, always the same)"
_ON_SUCCESS = (
    "95 % intervals of success: Wilson's where each task has one valid rollout. Where tasks have "
    f"several, {_BOOTSTRAP}; but with fewer than {FEW_TASKS} tasks, or if all are solved equally "
    "often, Wilson's as if each task were one rollout."
)
_ON_DIFFERENCES = (
    f"95 % intervals of differences: {_BOOTSTRAP}, too narrow with fewer than {FEW_TASKS} tasks; "
    "if all tasks differ equally, by the share of others that such a sample can hide (Wilson's)."
)
_ON_MASKED = (
    "Masked rollouts are in no rate and no mean. What they took is in what a solved one takes."
)


@dataclass(frozen=True)
class RunReport:
    """One run.

    Attributes:
        name: of it.
        models: that answered.
        figures: of all its rollouts.
    """

    name: str
    models: list[str]
    figures: Figures


@dataclass(frozen=True)
class Report:
    """Some runs.

    Attributes:
        runs: in the order they were given.
        by: what the groups are.
        groups: of each the figures of each run, None where a run has none of it.
        comparisons: of each run but the first with the first.
        notes: what is to be known to read the figures.
    """

    runs: list[RunReport]
    by: By
    groups: dict[str, list[Figures | None]]
    comparisons: list[Comparison]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON objects."""
        return dataclasses.asdict(self)


def report_of(runs: Sequence[Run], by: By, pricing: Pricing) -> Report:
    """Return the report of some runs.

    Args:
        runs: at least one; the first is what the others are compared with.
        by: what to group tasks by.
        pricing: by which the runs were read.
    """
    told = [RunReport(run.name, _models(run), figures(run.outcomes)) for run in runs]
    comparisons = [compare(runs[0], run) for run in runs[1:]]
    notes = [_ON_SUCCESS]
    if comparisons:
        notes.append(_ON_DIFFERENCES)
    if any(run.figures.masked for run in told):
        notes.append(_ON_MASKED)
    notes += [_on_costs(runs, pricing), *_on_tasks(comparisons)]
    return Report(told, by, by_group(runs, _GROUPS[by]), comparisons, notes)


def _models(run: Run) -> list[str]:
    return sorted({one.model for one in run.outcomes if one.model})


def _on_costs(runs: Sequence[Run], pricing: Pricing) -> str:
    outcomes = [one for run in runs for one in run.outcomes]
    by_table = sum(one.priced_by_table and one.cost_usd is not None for one in outcomes)
    unknown = sum(one.cost_usd is None for one in outcomes)
    table = f"{pricing.source} of {pricing.as_of}"
    if pricing.given:
        words = f"Costs: by {table}, whatever the rows tell"
    elif by_table:
        words = f"Costs: as rows tell; of {by_table} rollouts whose rows tell none, by {table}"
    else:
        words = f"Costs: as rows tell, else by {table}"
    return f"{words}; not known of {unknown} of {len(outcomes)} rollouts."


def _on_tasks(comparisons: Sequence[Comparison]) -> list[str]:
    notes: list[str] = []
    for each in comparisons:
        if each.left_out:
            notes.append(
                f"{each.run}, {each.baseline}: not compared is what only one of them has valid "
                f"rollouts of, tasks: {each.left_out}."
            )
        if each.unnamed:
            notes.append(
                f"{each.run}, {each.baseline}: taken for the same by their place in the input, as "
                f"they have no `task_id`, tasks: {each.unnamed}."
            )
    return notes
