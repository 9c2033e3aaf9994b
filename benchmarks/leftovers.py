"""What this process leaves behind: processes it started, folders in a temporary folder of its own.

Only its own count, so that others may run browsers on the machine meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

QUIET_TIMEOUT_S = 60


@contextmanager
def own_temp_folder(prefix: str) -> Iterator[Path]:
    """Let this process and those it starts use a temporary folder that nobody else uses."""
    variable, default = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = default
            if variable is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = variable


async def left(count: Callable[[], Counter[str]], before: Counter[str]) -> Counter[str]:
    """Return by how much the counts differ from before, once they do not or time is up."""
    deadline = time.monotonic() + QUIET_TIMEOUT_S
    while True:
        now = await asyncio.to_thread(count)
        found = Counter({k: abs(now[k] - before[k]) for k in now | before if now[k] != before[k]})
        if not found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.1)


def started(of: psutil.Process | None = None) -> Iterator[tuple[psutil.Process, list[str]]]:
    """Every process that `of`, this process by default, has started, and its arguments.

    Those that ended and wait to be asked about it do not count.
    """
    try:
        found = (of or psutil.Process()).children(recursive=True)
    except psutil.Error:
        return  # ended meanwhile
    for process in found:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process, process.cmdline()
        except psutil.Error:
            continue  # ended meanwhile


def chromiums(of: psutil.Process | None = None) -> list[psutil.Process]:
    """The main process of each Chromium among them."""
    return [
        process
        for process, arguments in started(of)
        if "--remote-debugging-pipe" in arguments
        and not any(argument.startswith("--type=") for argument in arguments)
    ]


def renderers(of: psutil.Process | None = None) -> list[psutil.Process]:
    """The processes that draw the pages."""
    return [process for process, arguments in started(of) if "--type=renderer" in arguments]
