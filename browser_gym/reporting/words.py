"""Figures as people read them: the same lines for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from browser_gym.reporting.figures import Comparison, Figures
from browser_gym.reporting.intervals import Interval
from browser_gym.reporting.report import Report

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of words.

    Attributes:
        title: of it.
        head: of its columns, the first of which names the line.
        lines: of cells.
    """

    title: str
    head: list[str]
    lines: list[list[str]]


def tables(report: Report) -> list[Table]:
    """Return the tables of a report that have something to say."""
    names = [run.name for run in report.runs]
    lines = [["model", *(", ".join(run.models) or NOTHING for run in report.runs)]]
    all_figures = [run.figures for run in report.runs]
    for title, say in _lines(all_figures):
        cells = [say(each) for each in all_figures]
        if any(cell != NOTHING for cell in cells):
            lines.append([title, *cells])
    found = [Table("Runs", ["", *names], lines)]
    if len(report.groups) > 1:
        groups = [
            [name, *(NOTHING if part is None else _rate(part) for part in parts)]
            for name, parts in report.groups.items()
        ]
        found.append(Table(f"Solved by {report.by}", [report.by, *names], groups))
    if report.comparisons:
        head = ["", "tasks of both", "difference, points", "better on", "worse on", "same on"]
        found.append(
            Table(
                f"Compared with {report.comparisons[0].baseline}",
                head,
                [_compared(each) for each in report.comparisons],
            )
        )
    return found


def percent(share: float | None) -> str:
    """Return a share in words."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points."""
    return f"{100 * difference:+.1f}"


def _lines(runs: list[Figures]) -> list[tuple[str, Callable[[Figures], str]]]:
    longest = max((len(each.pass_at_k) for each in runs), default=0)
    shown_k = [k for k in range(2, longest + 1) if k & (k - 1) == 0 or k == longest]
    return [
        ("tasks", lambda f: f"{f.tasks}"),
        ("rollouts", lambda f: f"{f.rollouts}"),
        ("masked", lambda f: f"{sum(f.masked.values())} ({percent(f.masked_share)})"),
        ("masked for", lambda f: _counts(f.masked)),
        ("failed attempts", lambda f: _counts(f.failed_attempts)),
        ("solved", lambda f: f"{f.solved} of {f.valid} valid"),
        ("success", lambda f: percent(f.success_rate)),
        ("95 % interval", lambda f: _interval(f.interval)),
        ("found by", lambda f: f.interval.method if f.interval else NOTHING),
        ("mean reward", lambda f: _number(f.mean_reward, "{:.3f}")),
        *((f"pass@{k}", _pass_at(k)) for k in shown_k),
        ("ended", lambda f: _counts(f.terminations)),
        ("steps, mean", lambda f: _number(f.steps_mean, "{:.1f}")),
        ("steps, median", lambda f: _number(f.steps_median, "{:g}")),
        ("time", lambda f: _number(f.seconds_mean, "{:.1f} s")),
        ("time of the model", lambda f: _number(f.model_seconds_mean, "{:.1f} s")),
        ("time of the browser", lambda f: _number(f.browser_seconds_mean, "{:.1f} s")),
        ("input tokens", lambda f: _number(f.input_tokens_mean, "{:,.0f}")),
        ("output tokens", lambda f: _number(f.output_tokens_mean, "{:,.0f}")),
        ("tokens per solved", lambda f: _number(f.tokens_per_solved, "{:,.0f}")),
        ("cost", _cost),
        ("cost per solved", lambda f: _number(f.cost_per_solved_usd, "${:.4f}")),
    ]


def _pass_at(k: int) -> Callable[[Figures], str]:
    return lambda figures: percent(figures.pass_at_k.get(f"pass@{k}"))


def _rate(figures: Figures) -> str:
    if figures.success_rate is None:
        return "all masked"
    return (
        f"{percent(figures.success_rate)} ({_interval(figures.interval)}), "
        f"{figures.solved} of {figures.valid}"
    )


def _compared(each: Comparison) -> list[str]:
    if each.difference is None or each.interval is None:
        return [each.run, "0", *[NOTHING] * 4]
    return [
        each.run,
        f"{each.tasks}",
        f"{points(each.difference)} ({points(each.interval.low)} to {points(each.interval.high)})",
        f"{each.better}",
        f"{each.worse}",
        f"{each.tasks - each.better - each.worse}",
    ]


def _cost(figures: Figures) -> str:
    if figures.cost_unknown == figures.rollouts:
        return NOTHING
    if figures.cost_usd is None:
        return f"not known of {figures.cost_unknown}"
    return f"${figures.cost_usd:.4f}"


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return NOTHING
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(value)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or NOTHING
