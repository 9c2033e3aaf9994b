"""Writes the viewer as one page that holds everything, to keep or to send."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from browser_gym.rollouts import UnusableInput, check_output
from browser_gym.viewer.index import RolloutFile
from browser_gym.viewer.page import page, policy
from browser_gym.viewer.pictures import read_picture
from browser_gym.viewer.trajectory import trajectory_of

_POLICY = policy("img-src blob:")
_DATA = "<!--DATA-->"


def write_page(
    rollouts: RolloutFile,
    rows: list[int],
    output: Path,
    max_bytes: int,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a page of some rollouts, each image once, and return how many bytes it has.

    Args:
        rollouts: indexed.
        rows: places in `rollouts.summaries`.
        output: the page; it is written beside it first, so that there is a whole one or none.
        max_bytes: of the page.
        progress: told 1 after each row.

    Raises:
        UnusableInput: the page would be larger, or a file cannot be read or written.
    """
    check_output(output, [rollouts.path])
    summaries = [rollouts.summaries[row] for row in rows]
    index = {"name": rollouts.path.name, "rollouts": summaries}
    policy_tag = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
    before, after = page(head=policy_tag, data=_DATA).split(_DATA)
    partial = output.with_name(output.name + ".partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            writer = _Writer(file, max_bytes, len(rows))
            writer.put(before)
            for number, row in enumerate(rows):
                for block in _blocks(rollouts, row, number, writer.images):
                    writer.put(block, number)
                progress(1)
            writer.put(_block("index", _packed(index)))
            writer.put(after)
        partial.replace(output)
    except OSError as error:
        raise UnusableInput(f"{output}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return writer.size


class _Writer:
    def __init__(self, file: IO[bytes], max_bytes: int, rows: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._rows = rows
        self.size = 0
        self.images: dict[bytes, int] = {}
        """Numbers in the page, by their content's hash."""

    def put(self, text: str, done: int = 0) -> None:
        data = text.encode()
        self.size += len(data)
        if self.size > self._max_bytes:
            raise UnusableInput(
                f"the page would have more than {self._max_bytes / 1e6:g} MB: {done} of "
                f"{self._rows} rollouts fit; choose some with --task, allow more with --max-mb, or "
                "leave --output out to look at all of them"
            )
        self._file.write(data)


def _blocks(
    rollouts: RolloutFile, row: int, number: int, images: dict[bytes, int]
) -> Iterator[str]:
    """Yield the elements that a rollout adds to the page."""
    trajectory, references = trajectory_of(rollouts.row(row))
    numbers: list[int | None] = []
    for reference in references:
        picture = read_picture(reference, rollouts.path.parent)
        if picture is None:
            numbers.append(None)
            continue
        digest = hashlib.sha256(picture.data).digest()
        if digest not in images:
            images[digest] = len(images)
            data = base64.b64encode(picture.data).decode()
            yield _block(f"image-{images[digest]}", data, picture.media_type)
        numbers.append(images[digest])
    yield _block(f"rollout-{number}", _packed({"trajectory": trajectory, "images": numbers}))


def _packed(value: Any) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, 6, mtime=0)).decode()


def _block(name: str, data: str, media_type: str = "application/gzip") -> str:
    """Return an element that a browser takes for data; base64 holds nothing that could end it."""
    return f'<script id="{name}" type="{media_type}">{data}</script>\n'
