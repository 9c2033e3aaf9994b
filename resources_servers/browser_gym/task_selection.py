"""What every preparation of task rows shares: choosing tasks, checking rows, writing the sets."""

import argparse
import difflib
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from resources_servers.browser_gym.task_row import TaskRow
from resources_servers.browser_gym.task_sets import (
    Row,
    sample,
    shuffle,
    split,
    task_set_id,
    write_jsonl,
)
from resources_servers.browser_gym.verification.errors import InvalidTask
from resources_servers.browser_gym.verification.judge import Judge
from resources_servers.browser_gym.verification.verifiers import Verifiers

SHOWN_NAMES = 20


class PrepareError(Exception):
    """The wanted task set cannot be made; the message says why, in one line."""


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which tasks are written, in what order, and where."""
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="the file to write, .jsonl")
    add("--task-id", **several, default=[], metavar="ID", help="only these tasks")
    add("--category", **several, default=[], metavar="NAME", help="only tasks of these categories")
    add("--seed", type=int, default=0, help="of every random choice (default: 0)")
    add("--shuffle", action="store_true", help="order the tasks at random")
    add("--sample", type=int, metavar="N", help="N tasks at random, each category in proportion")
    add("--limit", type=int, metavar="N", help="at most the first N tasks")
    add(
        "--split",
        **several,
        default=[],
        type=_share,
        metavar="NAME=SHARE",
        help="write one file for each, FILE with _NAME before its ending; the shares make 1 "
        "together, and each set has its share of every category",
    )


def check_output(arguments: argparse.Namespace) -> None:
    """Raises `PrepareError` if `--output` names no file."""
    if not arguments.output.name:
        raise PrepareError(f"--output {arguments.output} is not the name of a file")


def write_selected(rows: list[Row], arguments: argparse.Namespace) -> None:
    """Samples, shuffles, limits, splits and writes rows, as the options say.

    Raises:
        PrepareError: They ask for what cannot be had.
        OSError: A file cannot be written.
    """
    if arguments.sample is not None:
        try:
            rows = sample(rows, arguments.sample, arguments.seed)
        except ValueError as error:
            raise PrepareError(f"--sample: {error}") from error
    if arguments.shuffle:
        rows = shuffle(rows, arguments.seed)
    if arguments.limit is not None:
        if arguments.limit < 1:
            raise PrepareError("--limit: give a number of at least 1")
        rows = rows[: arguments.limit]
    files = _files(arguments.output, rows, arguments.split, arguments.seed)
    write_jsonl(files)
    for path, part in files.items():
        sys.stdout.write(f"{path}: task set {len(part)} tasks, id {task_set_id(part)}\n")


def choose[T](tasks: list[T], what: str, values: list[Any], wanted: list[str]) -> list[T]:
    """Keeps the tasks with one of the wanted values, all tasks if none is wanted."""
    if not wanted:
        return tasks
    known = sorted({value for value in values if isinstance(value, str)})
    missing = [value for value in dict.fromkeys(wanted) if value not in known]
    if missing:
        near = [near for value in missing for near in difflib.get_close_matches(value, known)]
        hint = near or known
        more = f" and {len(hint) - SHOWN_NAMES} more" if len(hint) > SHOWN_NAMES else ""
        raise PrepareError(
            f"unknown {what} {', '.join(map(repr, missing))}; "
            f"{'did you mean' if near else 'there are'}: "
            f"{', '.join(dict.fromkeys(hint[:SHOWN_NAMES])) or 'none'}{more}"
        )
    return [task for task, value in zip(tasks, values, strict=True) if value in wanted]


def check_rows(rows: list[Row], sources: Mapping[str, str]) -> None:
    """Holds each row to what the resources server demands at seed.

    Args:
        rows: The task rows.
        sources: {task id: where it comes from}, words for messages.

    Raises:
        PrepareError: Naming the task and the field.
    """
    verifiers = Verifiers(judge=Judge(ask=None))
    for row in rows:
        metadata = row["verifier_metadata"]
        try:
            TaskRow.parse(row)
            verifiers.parse_verifier(metadata)
        except InvalidTask as error:
            raise PrepareError(
                f"task {metadata['task_id']!r}{sources[metadata['task_id']]}: {error}"
            ) from error


def _files(
    output: Path, rows: list[Row], shares: list[tuple[str, Fraction]], seed: int
) -> dict[Path, list[Row]]:
    if not shares:
        return {output: rows}
    names = [name for name, _ in shares]
    if len(set(names)) < len(names):
        raise PrepareError(f"--split: {', '.join(names)} names a set twice")
    total = sum(share for _, share in shares)
    if abs(total - 1) > Fraction(1, 1000):
        raise PrepareError(f"--split: the shares make {float(total):g} together, not 1")
    parts = split(rows, {name: share / total for name, share in shares}, seed)
    for name, part in parts.items():
        if not part:
            raise PrepareError(f"--split: {len(rows)} tasks are too few to give {name!r} any")
    return {
        output.with_name(f"{output.stem}_{name}{output.suffix}"): part
        for name, part in parts.items()
    }


def _share(text: str) -> tuple[str, Fraction]:
    name, _, number = text.partition("=")
    try:
        share = Fraction(number)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not name.replace("-", "_").isidentifier() or not 0 < share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=SHARE with a share above 0 and up to 1, such as train=0.8"
        )
    return name, share
