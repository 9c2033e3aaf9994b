"""The figures of a report. Pure functions over outcomes; `dataclasses.asdict` gives the JSON.

Masked rollouts are in no rate and no mean: nobody knows how they would have gone. What they took is
in what a solved task costs, as it was paid all the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from browser_gym.reporting.intervals import Interval, difference_interval, success_interval
from browser_gym.reporting.outcomes import UNKNOWN, Outcome
from browser_gym.reporting.runs import Run
from resources_servers.browser_gym.metrics import pass_at_k


@dataclass(frozen=True)
class Figures:
    """What some outcomes come to. Shares and rates are 0 to 1; None is what is not known.

    Attributes:
        tasks: how many there are.
        rollouts: all, masked ones included.
        valid: how many have a reward that is a measurement.
        solved: how many of these have a reward of 1.
        success_rate: `solved` of `valid`.
        interval: of the success rate.
        mean_reward: of the valid ones.
        pass_at_k: `pass@<k>`.
        masked: how many are, by kind.
        masked_share: of all rollouts.
        failed_attempts: before rollouts that were run again, by kind.
        terminations: how many valid ones ended so.
        steps_mean: of the valid ones that tell, as all means.
        steps_median: likewise.
        seconds_mean: of a rollout, waiting included.
        model_seconds_mean: of these the model took.
        browser_seconds_mean: of these the browser took.
        input_tokens_mean: of a rollout.
        output_tokens_mean: likewise.
        tokens_per_solved: all tokens, of masked rollouts and failed attempts too, by solved ones.
        cost_usd: of everything; None if that of any rollout is not known.
        cost_unknown: of how many it is not.
        cost_per_solved_usd: `cost_usd` by solved rollouts.
    """

    tasks: int
    rollouts: int
    valid: int
    solved: int
    success_rate: float | None
    interval: Interval | None
    mean_reward: float | None
    pass_at_k: dict[str, float]
    masked: dict[str, int]
    masked_share: float
    failed_attempts: dict[str, int]
    terminations: dict[str, int]
    steps_mean: float | None
    steps_median: float | None
    seconds_mean: float | None
    model_seconds_mean: float | None
    browser_seconds_mean: float | None
    input_tokens_mean: float | None
    output_tokens_mean: float | None
    tokens_per_solved: float | None
    cost_usd: float | None
    cost_unknown: int
    cost_per_solved_usd: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs on the tasks that both have valid rollouts of.

    Attributes:
        run: which is compared.
        baseline: with what.
        tasks: how many they share.
        difference: mean over these of the run's success rate less the baseline's, each task
            counting once.
        interval: of the difference.
        better: on how many tasks the run is.
        worse: likewise.
        left_out: how many tasks only one of them has valid rollouts of.
        unnamed: how many of the shared tasks have no name and are taken for the same by their place
            in the input.
    """

    run: str
    baseline: str
    tasks: int
    difference: float | None
    interval: Interval | None
    better: int
    worse: int
    left_out: int
    unnamed: int


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Return the figures of some outcomes of one run; at least one."""
    valid = [one for one in outcomes if not one.masked]
    masked = [one for one in outcomes if one.masked]
    tasks = list(_by(outcomes, lambda one: one.task).values())
    solved = sum(one.solved for one in valid)
    kinds: Counter[str] = Counter()
    for one in outcomes:
        kinds.update(one.failed_attempts)
    costs = [one.cost_usd for one in outcomes if one.cost_usd is not None]
    unknown = len(outcomes) - len(costs)
    cost = None if unknown else sum(costs)
    tokens = [(one.input_tokens, one.output_tokens) for one in outcomes]
    known = [sent + made for sent, made in tokens if sent is not None and made is not None]
    spent = sum(known) if len(known) == len(outcomes) else None
    return Figures(
        tasks=len(tasks),
        rollouts=len(outcomes),
        valid=len(valid),
        solved=solved,
        success_rate=solved / len(valid) if valid else None,
        interval=success_interval([_solved_of_valid(task) for task in tasks]),
        mean_reward=_mean(one.reward for one in valid),
        pass_at_k=_pass_at_k(tasks),
        masked=_counts(one.failure_kind for one in masked),
        masked_share=len(masked) / len(outcomes),
        failed_attempts=dict(sorted(kinds.items())),
        terminations=_counts(one.termination for one in valid),
        steps_mean=_mean(one.steps for one in valid),
        steps_median=_median(one.steps for one in valid),
        seconds_mean=_mean(one.seconds for one in valid),
        model_seconds_mean=_mean(one.model_seconds for one in valid),
        browser_seconds_mean=_mean(one.browser_seconds for one in valid),
        input_tokens_mean=_mean(one.input_tokens for one in valid),
        output_tokens_mean=_mean(one.output_tokens for one in valid),
        tokens_per_solved=spent / solved if spent is not None and solved else None,
        cost_usd=cost,
        cost_unknown=unknown,
        cost_per_solved_usd=cost / solved if cost is not None and solved else None,
    )


def by_group(
    runs: Sequence[Run], group: Callable[[Outcome], str]
) -> dict[str, list[Figures | None]]:
    """Return for each group of tasks the figures of each run, None if it has none of them.

    Args:
        runs: all.
        group: of an outcome.
    """
    parts = [_by(run.outcomes, group) for run in runs]
    names = sorted({name for part in parts for name in part})
    return {
        name: [figures(part[name]) if name in part else None for part in parts] for name in names
    }


def compare(baseline: Run, run: Run) -> Comparison:
    """Compare a run with another on the tasks of both."""
    rates = [_rates(each.outcomes) for each in (baseline, run)]
    shared = [task for task in rates[0] if task in rates[1]]
    differences = [rates[1][task] - rates[0][task] for task in shared]
    places = {one.task for one in run.outcomes if not one.named}
    return Comparison(
        run=run.name,
        baseline=baseline.name,
        tasks=len(shared),
        difference=_mean(differences),
        interval=difference_interval(differences),
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
        left_out=len(rates[0]) + len(rates[1]) - 2 * len(shared),
        unnamed=sum(task in places for task in shared),
    )


def _rates(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the success rate of each task that has a valid rollout."""
    tasks = _by((one for one in outcomes if not one.masked), lambda one: one.task)
    return {name: fmean(one.solved for one in task) for name, task in tasks.items()}


def _solved_of_valid(task: Sequence[Outcome]) -> tuple[int, int]:
    return sum(one.solved for one in task), sum(not one.masked for one in task)


def _pass_at_k(tasks: Sequence[Sequence[Outcome]]) -> dict[str, float]:
    valid = [[{"reward": one.reward} for one in task if not one.masked] for task in tasks]
    return pass_at_k([task for task in valid if task])


def _by(outcomes: Iterable[Outcome], name: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[name(one)].append(one)
    return dict(groups)


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Count, the most frequent first."""
    counts = Counter(name or UNKNOWN for name in names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
