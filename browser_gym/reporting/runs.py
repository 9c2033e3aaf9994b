"""Reads runs: the outcomes of rollout files, a run per label and agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from browser_gym.reporting.costs import Pricing
from browser_gym.reporting.outcomes import Outcome, outcome_of
from browser_gym.rollouts import Rollout, UnusableInput, read_rollouts


@dataclass
class Run:
    """The rollouts of one agent under one label.

    Attributes:
        name: of the run.
        outcomes: at least one.
    """

    name: str
    outcomes: list[Outcome] = field(default_factory=list)


def read_runs(
    paths: Sequence[Path],
    labels: Sequence[str],
    pricing: Pricing,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Run]:
    """Return the runs of some rollout files, in order.

    Files of one label are one run, their rollouts of a task repeats. Each agent of a file has a run
    of its own.

    Args:
        paths: of the files.
        labels: one for each, or none: then the files' names.
        pricing: what rollouts cost.
        progress: told how many bytes more were read.

    Raises:
        UnusableInput: a file cannot be read, holds something else than rollouts or a rollout
            twice, or the labels do not fit.
    """
    names = _names(paths, labels)
    found: dict[str, dict[str, list[Outcome]]] = {}
    for path, name in zip(paths, names, strict=True):
        agents = found.setdefault(name, {})
        places: dict[tuple[object, ...], Rollout] = {}
        for rollout in read_rollouts([path], progress):
            outcome = outcome_of(rollout, pricing)
            _refuse_twice(rollout, outcome, places)
            agents.setdefault(outcome.agent, []).append(outcome)
        if not places:
            raise UnusableInput(f"{path}: has no rollouts")
    return [
        Run(name if len(agents) == 1 else f"{name} {agent or 'without agent'}", outcomes)
        for name, agents in found.items()
        for agent, outcomes in agents.items()
    ]


def _names(paths: Sequence[Path], labels: Sequence[str]) -> list[str]:
    if len({path.resolve() for path in paths}) < len(paths):
        raise UnusableInput("a file is given twice: its rollouts would count twice")
    if labels:
        if len(labels) != len(paths):
            raise UnusableInput(
                f"there are {len(paths)} files and {len(labels)} labels: give one --label for each "
                "file, in order"
            )
        return list(labels)
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _refuse_twice(
    rollout: Rollout, outcome: Outcome, places: dict[tuple[object, ...], Rollout]
) -> None:
    index = rollout.row.get("_ng_task_index")
    key = (outcome.agent, outcome.task if index is None else index, rollout.rollout)
    if before := places.get(key):
        raise UnusableInput(
            f"{rollout.place}: is rollout {rollout.rollout} of task {outcome.task} again, which is "
            f"in line {before.line}; give the files of two runs separately"
        )
    places[key] = rollout
