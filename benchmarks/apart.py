"""Run a module in a process of its own, so that what others left does not count in it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END_TIMEOUT_S = 60


def run_apart(log: Path, module: str, *arguments: str) -> int:
    """Run `python -m module` with arguments to its end, and return its exit code.

    Args:
        log: what it prints is added here.
        module: with its package.
        arguments: of the command.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it once, from here
        )
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
