"""Plots of a report, drawn by Matplotlib without a display."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from browser_gym.console import printable
from browser_gym.reporting.figures import Figures
from browser_gym.reporting.report import Report
from browser_gym.reporting.words import percent, points

# Told apart also by those who see few colors, and by their shapes.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # names are not formulas
    "svg.hashsalt": "browser-gym",
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "font.size": 10,
}
_LONGEST_NAME = 40
_MOST_GROUPS = 40
_WIDTH_IN = 8.0
_LINE_IN = 0.35


@dataclass(frozen=True)
class Plot:
    """One plot.

    Attributes:
        name: of its file, without a suffix.
        title: of it.
        alt: what it shows, in a sentence.
        figure: as drawn.
    """

    name: str
    title: str
    alt: str
    figure: Figure

    def svg(self) -> bytes:
        """Return it as SVG; the same report gives the same bytes."""
        with _drawing():
            file = io.BytesIO()
            FigureCanvasSVG(self.figure).print_svg(file, metadata={"Date": None})
            return file.getvalue()

    def save_png(self, folder: Path) -> Path:
        """Write it into a folder; return the file.

        Raises:
            OSError: it cannot be written.
        """
        with _drawing():
            path = folder / f"{self.name}.png"
            self.figure.savefig(path, dpi=150)
            return path


@contextmanager
def _drawing() -> Iterator[None]:
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # A name may have letters that the font has not; they are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph")
        yield


def plots(report: Report) -> list[Plot]:
    """Return the plots for which a report has figures."""
    drawn = (_success, _groups, _differences, _pass_at_k, _endings, _costs)
    with _drawing():
        return [plot for draw in drawn if (plot := draw(report))]


def _success(report: Report) -> Plot:
    with _axes(len(report.runs)) as (figure, axes):
        for index, run in enumerate(report.runs):
            _point(axes, run.figures, index, index)
        _lines(axes, [run.name for run in report.runs])
        _as_rates(axes, "solved rollouts, with 95 % interval")
    told = "; ".join(f"{r.name} {percent(r.figures.success_rate)}" for r in report.runs)
    return Plot("success", "Success", f"Success rates: {told}", figure)


def _groups(report: Report) -> Plot | None:
    names = list(report.groups)[:_MOST_GROUPS]
    if len(report.groups) < 2:
        return None
    runs = len(report.runs)
    with _axes(len(names) * max(1, runs * 0.6)) as (figure, axes):
        for line, name in enumerate(names):
            for index, part in enumerate(report.groups[name]):
                if part:
                    _point(axes, part, line + (index - (runs - 1) / 2) * 0.7 / runs, index)
        _lines(axes, names)
        _as_rates(axes, "solved rollouts, with 95 % interval")
        _legend(axes, report)
    more = len(report.groups) - len(names)
    first = f", the first {_MOST_GROUPS}" if more else ""
    alt = f"Success rates of each {report.by}{first}; the table has the numbers"
    return Plot("groups", f"Success by {report.by}{first}", alt, figure)


def _differences(report: Report) -> Plot | None:
    compared = [each for each in report.comparisons if each.difference is not None]
    if not compared:
        return None
    with _axes(len(compared)) as (figure, axes):
        for line, each in enumerate(compared):
            assert each.difference is not None
            assert each.interval
            axes.hlines(line, 100 * each.interval.low, 100 * each.interval.high, color=_COLORS[0])
            axes.plot(100 * each.difference, line, "o", color=_COLORS[0])
        axes.axvline(0, color="#444444", linewidth=1)
        _lines(axes, [each.run for each in compared])
        axes.set_xlabel(_name(f"points above {compared[0].baseline}, with 95 % interval"))
    told = "; ".join(f"{each.run} {points(each.difference or 0)} points" for each in compared)
    return Plot("differences", "Differences on the same tasks", f"Differences: {told}", figure)


def _pass_at_k(report: Report) -> Plot | None:
    if all(len(run.figures.pass_at_k) < 2 for run in report.runs):
        return None
    with _axes(8) as (figure, axes):
        longest = 1
        for index, run in enumerate(report.runs):
            known = {int(name.partition("@")[2]): v for name, v in run.figures.pass_at_k.items()}
            longest = max(longest, *known, 1)
            axes.plot(
                list(known),
                [100 * share for share in known.values()],
                marker=_MARKERS[index % len(_MARKERS)],
                color=_COLORS[index % len(_COLORS)],
                label=_name(run.name),
            )
        axes.set_xticks(range(1, longest + 1, max(1, longest // 8)))
        axes.set_xlabel("k")
        axes.set_ylabel("tasks solved by one of k, %")
        axes.set_ylim(-3, 103)
        _legend(axes, report)
    return Plot("pass_at_k", "pass@k", "pass@k of each run", figure)


def _endings(report: Report) -> Plot | None:
    reasons: dict[str, None] = {}
    for run in report.runs:
        reasons |= dict.fromkeys(run.figures.terminations)
    kinds = [*reasons, *(["masked"] if any(run.figures.masked for run in report.runs) else [])]
    if len(kinds) < 2:
        return None
    with _axes(len(report.runs) + len(kinds) / 3) as (figure, axes):
        starts = [0.0] * len(report.runs)
        for number, kind in enumerate(kinds):
            shares = [100 * _share(run.figures, kind) for run in report.runs]
            color = "#999999" if kind == "masked" else _COLORS[number % len(_COLORS)]
            axes.barh(
                range(len(report.runs)),
                shares,
                left=starts,
                color=color,
                hatch="//" if number >= len(_COLORS) else None,
                label=_name(kind),
            )
            starts = [start + share for start, share in zip(starts, shares, strict=True)]
        _lines(axes, [run.name for run in report.runs])
        axes.set_xlabel("of all rollouts, %")
        _legend_of(axes, len(kinds))
    return Plot("endings", "How rollouts ended", "Shares of the reasons why rollouts ended", figure)


def _share(figures: Figures, kind: str) -> float:
    count = sum(figures.masked.values()) if kind == "masked" else figures.terminations.get(kind, 0)
    return count / figures.rollouts


def _costs(report: Report) -> Plot | None:
    known = [
        (index, run.name, run.figures.cost_usd / run.figures.rollouts, run.figures.success_rate)
        for index, run in enumerate(report.runs)
        if run.figures.cost_usd and run.figures.success_rate is not None
    ]
    if len(known) < 2:
        return None
    with _axes(8) as (figure, axes):
        for index, name, cost, rate in known:
            axes.plot(
                cost,
                100 * rate,
                _MARKERS[index % len(_MARKERS)],
                color=_COLORS[index % len(_COLORS)],
                label=_name(name),
            )
        axes.set_xlim(left=0)
        axes.set_ylim(-3, 103)
        axes.set_xlabel("USD per rollout")
        axes.set_ylabel("solved rollouts, %")
        _legend_of(axes, len(known))
    return Plot("costs", "Cost and success", "Cost per rollout and success rate of runs", figure)


@contextmanager
def _axes(lines: float) -> Iterator[tuple[Figure, Axes]]:
    """Give axes high enough for some lines."""
    figure = Figure(figsize=(_WIDTH_IN, 1.2 + _LINE_IN * lines), layout="constrained")
    yield figure, figure.subplots()


def _point(axes: Axes, figures: Figures, line: float, run: int) -> None:
    if figures.success_rate is None or figures.interval is None:
        return
    color = _COLORS[run % len(_COLORS)]
    axes.hlines(line, 100 * figures.interval.low, 100 * figures.interval.high, color=color)
    axes.plot(100 * figures.success_rate, line, _MARKERS[run % len(_MARKERS)], color=color)


def _lines(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _as_rates(axes: Axes, label: str) -> None:
    axes.set_xlim(-3, 103)
    axes.set_xlabel(f"{label}, %")


def _legend(axes: Axes, report: Report) -> None:
    if len(report.runs) == 1:
        return
    if not axes.get_legend_handles_labels()[0]:
        for index, run in enumerate(report.runs):
            axes.plot(
                [],
                [],
                _MARKERS[index % len(_MARKERS)],
                color=_COLORS[index % len(_COLORS)],
                label=_name(run.name),
            )
    _legend_of(axes, len(report.runs))


def _legend_of(axes: Axes, entries: int) -> None:
    figure = axes.get_figure(root=True)
    assert figure
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=min(entries, 3), frameon=False)


def _name(text: str) -> str:
    """Return a name as it is drawn; Matplotlib takes a leading `_` for one to hide."""
    text = printable(text)
    text = text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
    return f"\u200a{text}" if text.startswith("_") else text
