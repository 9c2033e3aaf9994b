"""A folder on a file system of its own that has no room for anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def filled_up(folder: Path) -> Iterator[bool]:
    """Mount a full file system at `folder` for the block.

    Yields:
        Whether that is allowed here; if not, the folder stays as it is.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield False
        return
    try:
        with (folder / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, 16_000)
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
