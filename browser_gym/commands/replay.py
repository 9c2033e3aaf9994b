"""`browser-gym replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from browser_gym.console import counting, fail, finite, short, waiting
from browser_gym.rollouts import Rollout, UnusableInput, read_rollouts

if TYPE_CHECKING:
    from browser_gym.replaying.replay import Difference, Outcome, Settings

DIFFERENT, FAILED = 1, 2
"""Exit codes."""


def replay(
    rollouts: Annotated[
        Path,
        typer.Argument(metavar="ROLLOUTS.jsonl", help="A file that `gym eval run --output` wrote."),
    ],
    index: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Only the rollout of this index, from 0."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="Only the rollouts of this task.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="SERVER",
            help="Of a running environment server; without it, one is started for the while.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also grade what comes out, and compare the reward.")
    ] = False,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            callback=finite,
            help="Of a screenshot's pixels may differ.",
        ),
    ] = 0.001,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For screenshots that differ. [default: ROLLOUTS_replay beside the file]",
        ),
    ] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(
            metavar="TASKS.jsonl",
            help="The tasks, for rows that hide their secrets, or to grade by other assertions.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Play rollouts again in a fresh browser, and tell what comes out differently.

    Tells for each step the first difference: an action that fails or not, the address, the
    screenshot; and at the end those in localStorage. Exit code 0: equal, 1: different, 2: could
    not be run.

    Examples:

    `browser-gym replay results/run.jsonl --index 3`

    `browser-gym replay results/run.jsonl --task CRM-02 --verify --json`
    """
    import asyncio

    from browser_gym.environment import CannotRun
    from browser_gym.replaying.replay import Settings

    if index is not None and task is not None:
        fail("give either --index or --task", FAILED)
    try:
        chosen = _chosen(rollouts, index, task)
        settings = Settings(
            verify=verify,
            tolerance=tolerance,
            images=images or rollouts.with_name(f"{rollouts.stem}_replay"),
            tasks=_tasks(tasks, chosen) if tasks else {},
        )
        outcomes = asyncio.run(_replay(chosen, url, settings))
    except (UnusableInput, CannotRun) as error:
        fail(str(error), FAILED)
    if as_json:
        import json

        typer.echo(json.dumps([outcome.as_json() for outcome in outcomes], indent=2))
    else:
        for outcome in outcomes:
            _show(outcome)
    verdicts = {outcome.verdict for outcome in outcomes}
    if "failed" in verdicts:
        raise typer.Exit(FAILED)
    if "different" in verdicts:
        raise typer.Exit(DIFFERENT)


def _chosen(path: Path, index: int | None, task: str | None) -> list[Rollout]:
    """Return the rollouts that were asked for.

    Raises:
        UnusableInput: the file cannot be read, or there are none.
    """
    chosen, known, count = [], {}, 0
    for number, rollout in enumerate(read_rollouts([path])):
        count += 1
        known[rollout.task_id] = None
        if (index is None or index == number) and (task is None or task == rollout.task_id):
            chosen.append(rollout)
    if not count:
        raise UnusableInput(f"{path}: no rollouts")
    if not chosen and task is not None:
        raise UnusableInput(f"--task {task}: {path} has {', '.join(list(known)[:10])}")
    if not chosen:
        raise UnusableInput(f"--index {index}: {path} has {count} rollouts, from 0 to {count - 1}")
    return chosen


def _tasks(path: Path, chosen: list[Rollout]) -> dict[str, dict[str, Any]]:
    """Return `verifier_metadata` by task id.

    Raises:
        UnusableInput: the file is no task file, or does not have the task of a rollout.
    """
    import json

    from resources_servers.browser_gym.task_row import TaskRow
    from resources_servers.browser_gym.verification.errors import InvalidTask

    found: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        for line in filter(str.strip, lines):
            row = json.loads(line)
            if task_id := TaskRow.parse(row).verifier_metadata.task_id:
                found[task_id] = row["verifier_metadata"]
    except OSError as error:
        raise UnusableInput(f"--tasks {path}: cannot be read: {error.strerror}") from error
    except (ValueError, InvalidTask) as error:
        raise UnusableInput(f"--tasks {path}: is no file of tasks: {error}") from error
    for rollout in chosen:
        if rollout.task_id not in found:
            has = ", ".join(list(found)[:10]) or "no task_id"
            raise UnusableInput(f"--tasks {path}: has no task {rollout.task_id!r}, but {has}")
    return found


async def _replay(chosen: list[Rollout], url: str | None, settings: Settings) -> list[Outcome]:
    import tempfile
    from contextlib import AsyncExitStack

    from browser_gym.environment import environment
    from browser_gym.replaying.replay import image_format_of, length_of, replay

    form = image_format_of(chosen[0])
    async with AsyncExitStack() as stack:
        evidence = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with waiting("starting a browser"):
            opening = environment(url, evidence=evidence, image_format=form)
            server = await stack.enter_async_context(opening)
        with counting("replaying", sum(map(length_of, chosen))) as progress:
            return [await replay(rollout, server, settings, progress) for rollout in chosen]


def _show(outcome: Outcome) -> None:
    name = f"{outcome.rollout} {short(outcome.task_id)}".rstrip()
    steps = len(outcome.steps) - 1 if outcome.steps else 0
    reward = "" if outcome.reward is None else f", reward {outcome.reward:g}"
    typer.echo(f"{name}: {outcome.verdict}, {steps} steps{reward}")
    for step in outcome.steps:
        if step.difference:
            actions = f" ({short(', '.join(step.actions))})" if step.actions else ""
            typer.echo(f"  {step.step}{actions}: {_told(step.difference)}")
    for difference in outcome.at_end:
        typer.echo(f"  at the end: {_told(difference)}")
    for text in outcome.not_compared:
        typer.echo(f"  not compared: {short(text)}")
    if outcome.failure is not None:
        typer.echo(f"  could not be run{' on' if outcome.steps else ''}: {short(outcome.failure)}")
        if "the start page did not open" in outcome.failure:
            typer.echo(
                "  The app must run where it ran. For the demo gym: `browser-gym gym --port N`, "
                "N as in the address."
            )


def _told(difference: Difference) -> str:
    if difference.share is not None:
        return f"{difference.share:.2%} of the screenshot; see {' and '.join(difference.images)}"
    if difference.what == "local_storage":
        places = [
            f"{short(place, 100)} is {short(repr(difference.replayed[place]), 100)}, was "
            f"{short(repr(value), 100)}"
            for place, value in difference.recorded.items()
        ]
        return "\n    ".join(["localStorage", *places])
    what = {"status": "the actions", "url": "the address", "reward": "the reward"}[difference.what]
    return f"{what}: {short(difference.replayed)}, was {short(difference.recorded)}"
