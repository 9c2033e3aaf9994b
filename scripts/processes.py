"""The commands that a demo run starts, and their end: nothing of them is left running."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import IO

import psutil

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
MARK = "BROWSER_GYM_DEMO_RUN"
STOP_TIMEOUT_S = 20
START_TIMEOUT_S = 900
# Ray ends its own start after 30 to 60 s without these, which a busy machine can miss. The demo's
# own limit ends what never starts.
PATIENT_RAY = {
    "RAY_gcs_server_port_wait_time_s": str(START_TIMEOUT_S),
    "RAY_raylet_start_wait_time_s": str(START_TIMEOUT_S),
    "RAY_agent_register_timeout_ms": str(START_TIMEOUT_S * 1000),
}
CLEAN_UP_ROUNDS = 5


class Processes:
    """Everything the demo starts, found again by a mark in its environment."""

    def __init__(self, log: IO[bytes]) -> None:
        self._log = log
        self._started: list[subprocess.Popen[bytes]] = []
        self._mark = uuid.uuid4().hex
        # Ray puts unix sockets below this folder, whose paths may not be longer than 107 bytes.
        self.ray_dir = tempfile.mkdtemp(
            prefix="bg-ray-", dir="/tmp" if Path("/tmp").exists() else None
        )
        self._environment = os.environ | {
            MARK: self._mark,
            # A private cluster: a file left by a dead one makes Ray try to join that for minutes.
            "RAY_ADDRESS": "local",
            "RAY_TMPDIR": self.ray_dir,
            **PATIENT_RAY,
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that Ctrl-C reaches only the demo."""
        self._log.write(f"\n$ {' '.join(command)}\n".encode())
        self._log.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Interrupt a command and its children, and wait until they are gone."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def clean_up(self) -> None:
        """End all that was started, and whatever else carries the mark; remove Ray's folder."""
        for process in reversed(self._started):
            self.stop(process)
        # Until none is found: what ends may just have started another, as Ray does with its agents.
        for _ in range(CLEAN_UP_ROUNDS):
            left = self._marked()
            if not left:
                break
            for process in left:
                _signal(process, signal.SIGTERM)
            _, stubborn = psutil.wait_procs(left, timeout=5)
            for process in stubborn:
                _signal(process, signal.SIGKILL)
            psutil.wait_procs(stubborn, timeout=5)
        shutil.rmtree(self.ray_dir, ignore_errors=True)

    def _marked(self) -> list[psutil.Process]:
        marked = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark:
                    marked.append(process)
            except (psutil.Error, OSError):
                continue
        return marked


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error):  # it may have ended by itself
        process.send_signal(number)
