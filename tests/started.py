"""The processes that one test started, told from those that other tests left or share."""

from __future__ import annotations

import contextlib

import psutil

from tests.waiting import eventually


class Started:
    """What this test process has started since this object was made, directly or not.

    Processes that have ended do not count, whether or not somebody has asked for their exit code.
    """

    def __init__(self) -> None:
        """Take what runs now for somebody else's."""
        self._before = _descendants()

    def processes(self) -> set[psutil.Process]:
        """Return those that run."""
        return {process for process in _descendants() - self._before if is_running(process)}

    def chromiums(self) -> set[psutil.Process]:
        """Return the main process of each Chromium."""
        return {process for process in self.processes() if _is_main(process)}

    def drivers(self) -> set[psutil.Process]:
        """Return the Playwright drivers."""
        return {process for process in self.processes() if "run-driver" in command(process)}

    def kill_chromiums(self) -> None:
        """Kill each Chromium; its helpers end with it."""
        kill(self.chromiums())

    async def all_end(self) -> None:
        """Wait until none is left.

        Raises:
            TimeoutError: one goes on running.
        """

        async def none() -> bool:
            return not self.processes()

        await eventually(none)


async def ended(*processes: psutil.Process) -> None:
    """Wait until these processes have ended.

    Raises:
        TimeoutError: one goes on running.
    """

    async def none() -> bool:
        return not any(map(is_running, processes))

    await eventually(none)


def renderers() -> set[psutil.Process]:
    """Return the processes that draw the pages of every Chromium of this test process.

    A test's pages may be older than the test: servers that tests share open contexts ahead of need.
    """
    return {process for process in _descendants() if "--type=renderer" in command(process)}


def kill(processes: set[psutil.Process]) -> None:
    """Kill processes, some of which may have ended."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def is_running(process: psutil.Process) -> bool:
    """Return whether a process has not ended; one that nobody has waited for yet has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_stopped(process: psutil.Process) -> bool:
    """Return whether a process stands still, as renderers do under the step clock."""
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def command(process: psutil.Process) -> list[str]:
    """Return a process's command line; empty for one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _is_main(process: psutil.Process) -> bool:
    return _has_mains_command(process) and not _is_helper_to_be(process)


def _has_mains_command(process: psutil.Process) -> bool:
    arguments = command(process)
    is_helper = any(argument.startswith("--type=") for argument in arguments)
    return "--remote-debugging-pipe" in arguments and not is_helper


def _is_helper_to_be(process: psutil.Process) -> bool:
    """Return whether a Chromium has just forked it, so that it has the main's command line."""
    try:
        parent = process.parent()
    except psutil.NoSuchProcess:
        return True
    return parent is not None and _has_mains_command(parent)
