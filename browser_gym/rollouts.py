"""Reads rollout rows, one at a time however long the files are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from responses_api_models.whole_text import whole

Row = dict[str, Any]
FAILURES = "_failures.jsonl"
"""How the names of files of failed attempts end."""

_FIELDS: dict[str, tuple[type, ...]] = {
    "verifier_metadata": (dict,),
    "verifier_metadata.task_id": (str, int),
    "_ng_task_index": (int, str),
    "_ng_rollout_index": (int,),
    "first_observation": (dict,),
    "turns": (list,),
    "attempts": (list,),
    "failure_kind": (str,),
    "termination_reason": (str,),
}
"""What rollouts are told apart and counted by; each may be missing or null."""
_WORDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


class UnusableInput(Exception):
    """What a person gave cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Rollout:
    """One row of a rollout file.

    Attributes:
        row: as the agent wrote it.
        path: of its file.
        line: in it, from 1.
    """

    row: Row
    path: Path
    line: int

    @property
    def place(self) -> str:
        """Where the row is, for people."""
        return f"{self.path}:{self.line}"

    @property
    def folder(self) -> Path:
        """What references to screenshots are relative to."""
        return self.path.parent

    @property
    def task_id(self) -> str:
        """The task's name, empty if it has none."""
        return str((self.row.get("verifier_metadata") or {}).get("task_id") or "")

    @property
    def group(self) -> str:
        """What all rollouts of a task in one file share; those of other files are another group.

        A row that names no task is a group of its own: nothing says what it may be compared with.
        """
        index = self.row.get("_ng_task_index")
        name = (self.task_id or f"line {self.line}") if index is None else index
        return f"{self.path.with_suffix('')}/{name}"

    @property
    def rollout(self) -> int:
        """Which of its group it is; the line, if its row does not say."""
        index = self.row.get("_ng_rollout_index")
        return self.line if index is None else index


def read_rollouts(
    paths: Iterable[Path], progress: Callable[[int], None] = lambda _: None
) -> Iterator[Rollout]:
    """Yield the rows of rollout files in order; empty lines are passed over.

    Args:
        paths: of the files.
        progress: told how many bytes each line had.

    Raises:
        UnusableInput: a file cannot be read, or a line is no rollout row.
    """
    for path in paths:
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    progress(len(line))
                    if line.strip():
                        yield Rollout(parse_row(line, path, number), path, number)
        except OSError as error:
            raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error


def check_output(output: Path, paths: Iterable[Path]) -> None:
    """Refuse to write over what is read.

    Raises:
        UnusableInput: the output is one of the files.
    """
    if output.resolve() in [path.resolve() for path in paths]:
        raise UnusableInput(f"--output {output}: is one of the rollout files; give another name")


def parse_row(line: bytes, path: Path, number: int) -> Row:
    """Return the row that a line of a rollout file holds.

    Args:
        line: with or without its end.
        path: of the file, for the message.
        number: of the line, likewise.

    Raises:
        UnusableInput: it is no rollout row.
    """
    place = f"{path}:{number}"
    try:
        row = _loads(line)
    except (ValueError, RecursionError) as error:
        raise UnusableInput(
            f"{place}: is no JSON ({error}); if a run was interrupted while it wrote, take this "
            "line out and run it again with --resume"
        ) from error
    if not isinstance(row, dict) or "response" not in row or "reward" not in row:
        hint = " (this is a file of failed attempts)" if path.name.endswith(FAILURES) else ""
        raise UnusableInput(
            f"{place}: is no rollout row: it has no `response` and `reward`{hint}; give the file "
            "that `gym eval run --output` wrote"
        )
    reward = row["reward"]
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise UnusableInput(f"{place}: `reward` is {reward!r}, not a finite number")
    _check_fields(row, place)
    return row


def _check_fields(row: Row, place: str) -> None:
    metadata = row.get("verifier_metadata")
    task_id = metadata.get("task_id") if isinstance(metadata, dict) else None
    told = row | {"verifier_metadata.task_id": task_id}
    for name, types in _FIELDS.items():
        value = told.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
            words = " or ".join(_WORDS[one] for one in types)
            raise UnusableInput(f"{place}: `{name}` is {str(value)[:60]!r}, not {words}")
    for name in ("turns", "attempts"):
        if not all(isinstance(one, dict) for one in row.get(name) or []):
            raise UnusableInput(f"{place}: `{name}` is no list of objects")
    for attempt in row.get("attempts") or []:
        if not isinstance(attempt.get("failure_kind"), str | None):
            raise UnusableInput(f"{place}: `attempts.failure_kind` is not a text")


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # twice as fast, but refuses NaN and half characters
        # Those can be read as escapes, but not be written.
        return whole(json.loads(line))
