"""`browser-gym groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from browser_gym.console import fail, reading, short
from browser_gym.rollouts import UnusableInput, read_rollouts

if TYPE_CHECKING:
    from rich.text import Text

    from resources_servers.browser_gym.groups import Group

# What of a row the figures need: rows are large, and a run has many.
_NEEDED = (
    *("reward", "mask_sample", "instance_config", "failure_kind", "termination_reason"),
    *("attempts", "verifier_metadata"),
)


def groups(
    rollouts: Annotated[
        list[Path],
        typer.Argument(metavar="ROLLOUTS.jsonl", help="Files that `gym eval run --output` wrote."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what each task's rollouts, its group, have to teach.

    A group whose valid rollouts all have the same reward gives no advantage to any of them.

    Examples:

    `browser-gym groups results/run.jsonl`

    `browser-gym groups results/run.jsonl --json`
    """
    from resources_servers.browser_gym.groups import by_name, summary

    try:
        with reading(rollouts) as progress:
            found = by_name(
                (rollout.group, {key: rollout.row.get(key) for key in _NEEDED})
                for rollout in read_rollouts(rollouts, progress)
            )
    except UnusableInput as error:
        fail(str(error))
    if not found:
        fail(f"{', '.join(map(str, rollouts))}: no rollouts")
    figures = summary(found)
    if as_json:
        import dataclasses
        import json

        listed = [dataclasses.asdict(group) for group in found]
        typer.echo(json.dumps({"summary": figures, "groups": listed}, indent=2))
    else:
        _show(found, figures)


def _show(found: list[Group], figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", overflow="fold")
    for name in ("valid", "mean", "variance", "ended"):
        table.add_column(name, justify="right")
    for name in ("cut off", "masked", "resampled"):
        table.add_column(name, overflow="fold")
    for group in found:
        table.add_row(
            _text(group.task_id or group.name),
            f"{group.valid}",
            _number(group.mean),
            _number(group.variance),
            f"{group.terminated}",
            _text(_counts(group.truncated)),
            _text(_counts(group.masked)),
            _text(_counts(group.resampled)),
            style=None if group.teaches else "dim",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"\n{figures['groups']} groups, {figures['mean_valid']:.1f} valid rollouts each; mean "
        f"reward {_number(figures['mean_reward'])}. "
        f"{figures['teaching_share']:.0%} teach; {figures['zero_variance_share']:.0%} have one "
        f"reward (all solved {figures['all_solved_share']:.0%}, none solved "
        f"{figures['none_solved_share']:.0%}), {figures['too_few_valid_share']:.0%} fewer than two "
        "valid rollouts."
    )


def _text(words: str) -> Text:
    from rich.text import Text

    return Text(short(words))  # as text, for in markup brackets would be commands


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
