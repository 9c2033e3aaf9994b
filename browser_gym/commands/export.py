"""`browser-gym export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from browser_gym.console import fail, finite, reading, short
from browser_gym.rollouts import UnusableInput


class _Form(StrEnum):
    whole = "whole"
    segmented = "segmented"
    stepwise = "stepwise"
    sft = "sft"


class _Images(StrEnum):
    reference = "reference"
    copy = "copy"


def export(
    rollouts: Annotated[
        list[Path],
        typer.Argument(metavar="ROLLOUTS.jsonl", help="Files that `gym eval run --output` wrote."),
    ],
    form: Annotated[
        _Form,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="**whole**: one token sequence per rollout. **segmented**: one per segment of its "
            "history. **stepwise**: one sample per reply, with the last screenshot. **sft**: one "
            "chat per rollout.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The samples: a `.jsonl` or `.parquet` file."
        ),
    ],
    include_masked: Annotated[
        bool,
        typer.Option(
            "--include-masked",
            help="Also rollouts whose reward is no measurement (`mask_sample`).",
        ),
    ] = False,
    min_reward: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            callback=finite,
            help="Leave out what has a lower reward. [default: 1 for sft, else none]",
        ),
    ] = None,
    images: Annotated[
        _Images,
        typer.Option(
            metavar="HOW",
            help="**reference**: refer to screenshots where they are. **copy**: copy them into a "
            "folder beside the output.",
        ),
    ] = _Images.reference,
) -> None:
    """Make training samples of rollouts.

    Says what it leaves out and why, also in a `….counts.json` beside the output.

    Examples:

    `browser-gym export results/run.jsonl --format segmented -o results/train.parquet`

    `browser-gym export results/run.jsonl --format sft -o results/sft.jsonl --images copy`
    """
    from browser_gym.exporting.run import SOLVED, Choice, counts_path, run_export

    if min_reward is None and form is _Form.sft:
        min_reward = SOLVED
    choice = Choice(form.value, images.value, include_masked, min_reward)
    try:
        with reading(rollouts) as progress:
            counts = run_export(rollouts, output, choice, progress)
    except UnusableInput as error:
        fail(str(error))
    what = f"{counts.samples} samples of {counts.exported} of {counts.rollouts} rollouts"
    typer.echo(f"{output}: {what}; see {counts_path(output)}")
    for reason, count in sorted(counts.left_out.items()):
        typer.echo(f"  left out, {short(reason)}: {count}; first {short(counts.first[reason])}")
    if not counts.samples:
        fail("there is nothing to export")
