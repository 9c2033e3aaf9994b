"""Exports rollout files, one row at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from browser_gym.exporting.images import ImagePlaces, Images
from browser_gym.exporting.left_out import LeftOut
from browser_gym.exporting.samples import Format, samples_of
from browser_gym.exporting.writers import SUFFIXES, writer
from browser_gym.rollouts import Rollout, UnusableInput, check_output, read_rollouts
from resources_servers.browser_gym.groups import is_masked

SOLVED = 1.0


@dataclass(frozen=True)
class Choice:
    """Which rollouts are exported, and how.

    Attributes:
        form: of the samples.
        images: whether to refer to images where they are, or to copies.
        include_masked: whether rollouts whose reward is no measurement are exported too.
        min_reward: of a rollout; None for any.
    """

    form: Format
    images: Images = "reference"
    include_masked: bool = False
    min_reward: float | None = None


@dataclass
class Counts:
    """What an export came to.

    Attributes:
        rollouts: rows read.
        exported: of them.
        samples: written.
        left_out: how many rollouts for which reason.
        first: the first of each, with what is so in it.
    """

    rollouts: int = 0
    exported: int = 0
    samples: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def leave_out(self, rollout: Rollout, why: LeftOut) -> None:
        """Count a rollout that gives no samples."""
        self.left_out[why.reason] = self.left_out.get(why.reason, 0) + 1
        detail = f": {why.detail}" if why.detail else ""
        self.first.setdefault(why.reason, f"{rollout.place}{detail}")

    def as_json(self) -> dict[str, Any]:
        """Return the counts for a file."""
        return {
            "rollouts": self.rollouts,
            "exported": self.exported,
            "samples": self.samples,
            "left_out": {
                reason: {"rollouts": count, "first": self.first[reason]}
                for reason, count in sorted(self.left_out.items())
            },
        }


def counts_path(output: Path) -> Path:
    """Return where the counts of an export are written."""
    return output.with_suffix(".counts.json")


def run_export(
    paths: Sequence[Path],
    output: Path,
    choice: Choice,
    progress: Callable[[int], None] = lambda _: None,
) -> Counts:
    """Write the samples of rollout files, and beside them what was left out and why.

    A rollout is exported whole or not at all. The output appears when it is complete.

    Args:
        paths: of the rollout files.
        output: of the samples; its suffix says as what.
        choice: which rollouts, and how.
        progress: told how many bytes each row had.

    Raises:
        UnusableInput: a file cannot be read, or the output cannot be written.
    """
    if output.suffix not in SUFFIXES:
        raise UnusableInput(f"--output {output}: give a name that ends in {' or '.join(SUFFIXES)}")
    check_output(output, paths)
    partial_output = output.with_name(output.name + ".partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        counts = _write(paths, output, partial_output, choice, progress)
        partial_output.replace(output)
        text = json.dumps({"format": choice.form, **counts.as_json()}, indent=2)
        counts_path(output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UnusableInput(f"--output {output}: cannot be written: {error}") from error
    finally:
        with suppress(OSError):
            partial_output.unlink(missing_ok=True)
    return counts


def _write(
    paths: Sequence[Path],
    output: Path,
    partial_output: Path,
    choice: Choice,
    progress: Callable[[int], None],
) -> Counts:
    counts = Counts()
    places = ImagePlaces(output, choice.images)
    with writer(partial_output, choice.form, output) as file:
        for rollout in read_rollouts(paths, progress):
            counts.rollouts += 1
            try:
                _check(rollout, choice)
                place = partial(places.place, folder=rollout.folder)
                samples = samples_of(rollout, choice.form, place)
            except LeftOut as why:
                counts.leave_out(rollout, why)
                continue
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise UnusableInput(
                    f"{rollout.place}: a field is not as agents write it "
                    f"({type(error).__name__}: {error}); take the line out, or run it again"
                ) from error
            for sample in samples:
                file.write(sample)
            counts.exported += 1
            counts.samples += len(samples)
    return counts


def _check(rollout: Rollout, choice: Choice) -> None:
    row = rollout.row
    if is_masked(row) and not choice.include_masked:
        kind = row.get("failure_kind") or "unknown"
        raise LeftOut(f"masked: {kind}", str(row.get("failure_reason") or ""))
    if choice.min_reward is not None and row["reward"] < choice.min_reward:
        raise LeftOut(f"reward below {choice.min_reward:g}", f"reward {row['reward']:g}")
