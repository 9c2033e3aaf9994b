"""Where each row of a rollout file is, so that single ones can be read from a large file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from browser_gym.rollouts import FAILURES, Rollout, UnusableInput, parse_row
from browser_gym.viewer.summary import summary_of

Json = dict[str, Any]


@dataclass(frozen=True)
class _Place:
    offset: int
    size: int
    line: int


class RolloutFile:
    """A rollout file, of which only a summary of each row is held in memory.

    Attributes:
        path: of the file.
        summaries: one per row, in the order of the file.
        generation: how often the file was written anew under our eyes.
    """

    def __init__(self, path: Path) -> None:
        """Hold nothing yet; `read_on` reads."""
        self.path = path
        self.generation = 0
        self._forget()

    def _forget(self) -> None:
        self.summaries: list[Json] = []
        self._places: list[_Place] = []
        self._last = b""
        self._end = 0
        self._ended = True
        self._lines = 0

    def read_on(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Index the rows that the file has by now; one that is still being written is left out.

        Args:
            progress: told how many bytes each line had.

        Raises:
            UnusableInput: the file cannot be read, or a line is no rollout row.
        """
        try:
            with self.path.open("rb") as file:
                if not file.seekable():
                    raise UnusableInput(f"{self.path}: is no file to go back and forth in")
                if not self._goes_on(file):
                    self._forget()
                    self.generation += 1
                file.seek(self._end)
                for line in file:
                    try:
                        self._add(line)
                    except UnusableInput:
                        if line.endswith(b"\n"):
                            raise
                        return
                    progress(len(line))
        except OSError as error:
            raise UnusableInput(f"{self.path}: cannot be read: {error.strerror}") from error

    def row(self, index: int) -> Rollout:
        """Return a row by its place in `summaries`.

        Raises:
            UnusableInput: the file cannot be read, or has changed there.
        """
        place = self._places[index]
        try:
            with self.path.open("rb") as file:
                file.seek(place.offset)
                line = file.read(place.size)
        except OSError as error:
            raise UnusableInput(f"{self.path}: cannot be read: {error.strerror}") from error
        return Rollout(parse_row(line, self.path, place.line), self.path, place.line)

    def _goes_on(self, file: IO[bytes]) -> bool:
        """Whether what was indexed is still there: another run writes the file anew."""
        if not self._places:
            return self._end == 0
        file.seek(self._places[-1].offset)
        return file.read(len(self._last)) == self._last

    def _add(self, line: bytes) -> None:
        if line == b"\n" and not self._ended:
            self._end, self._ended = self._end + 1, True
            return  # the end of the line before, which was written later
        number = self._lines + 1
        if line.strip():
            rollout = Rollout(parse_row(line, self.path, number), self.path, number)
            self.summaries.append(summary_of(rollout))
            self._places.append(_Place(self._end, len(line), number))
            self._last = line
        self._lines = number
        self._end += len(line)
        self._ended = line.endswith(b"\n")


def newest_rollouts(folder: Path) -> Path:
    """Return the file of rollouts in a folder that was written last.

    Raises:
        UnusableInput: there is none.
    """
    files = [path for path in folder.rglob("*.jsonl") if path.is_file()]  # no dead link, no pipe
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
        if _holds_rollouts(path):
            return path
    raise UnusableInput(
        f"{folder}: there are no rollouts in this folder; make demo makes some, or name a file "
        "that `gym eval run --output` wrote"
    )


def _holds_rollouts(path: Path) -> bool:
    """Whether the first line is a rollout; a run writes files of other things beside them."""
    try:
        with path.open("rb") as file:
            parse_row(file.readline(), path, 1)
    except (OSError, UnusableInput):
        return False
    return not path.name.endswith(FAILURES)
