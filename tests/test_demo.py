"""What `make demo` leaves behind, refuses and reports; test_end_to_end.py runs it whole."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest

from scripts import demo, demo_models
from scripts.demo_models import PROVIDERS, Model, chosen_model
from scripts.processes import Processes

DEMO = [sys.executable, str(demo.ROOT / "scripts" / "demo.py")]
OUT_OF_THE_SESSION = """
import os, signal, subprocess, sys, time
if os.fork():
    time.sleep(600)
os.setsid()
def replace(*_):
    subprocess.Popen(["sleep", "600"])
    sys.exit()
signal.signal(signal.SIGTERM, replace)
open(sys.argv[1], "w")
time.sleep(600)
"""
WITH_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


FAULTY = SimpleNamespace(error="no [such] field")


def environments() -> Iterator[dict[str, str]]:
    for process in psutil.process_iter():
        try:
            yield process.environ()
        except (psutil.Error, OSError):
            continue


def running(name: str, value: str) -> int:
    """How many processes have this variable in their environment."""
    return sum(found.get(name) == value for found in environments())


def wait_until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_clean_up_ends_what_is_started_while_ending(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with (tmp_path / "log").open("wb") as log:
        processes = Processes(log)
        started = processes.start(sys.executable, "-c", OUT_OF_THE_SESSION, str(ready))
        wait_until(ready.exists)
        processes.clean_up()
    assert started.poll() is not None
    assert running("RAY_TMPDIR", processes.ray_dir) == 0
    assert not Path(processes.ray_dir).exists()


def test_a_closed_terminal_leaves_nothing(tmp_path: Path) -> None:
    mark = str(tmp_path)
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_ITS_TERMINAL, *DEMO, "--output", str(tmp_path / "demo")],
        env=os.environ | {"TEST_MARK": mark},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        wait_until(lambda: running("TEST_MARK", mark) > 1)
    finally:
        os.close(ours)
    process.wait(60)
    assert running("TEST_MARK", mark) == 0


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_folder_of_other_things_is_not_emptied(tmp_path: Path, kind: str) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    output = tmp_path if kind == "folder" else tmp_path / "thesis.txt"
    command = [*DEMO, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"--output {output}" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def row(task_id: str, reward: float, masked: bool = False) -> dict[str, Any]:
    return {
        "verifier_metadata": {"task_id": task_id},
        "reward": reward,
        "mask_sample": masked,
    }


def test_only_the_scripts_that_mean_it_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = json.loads(demo.SOLUTIONS.read_text())
    means_to_fail = {task for task, script in scripts.items() if not script["expected_reward"]}
    assert means_to_fail == {"BRD-06", "CRM-08"}
    as_meant = [row(task, 0 if task in means_to_fail else 1) for task in sorted(scripts)]

    assert demo.compare_with_scripts(as_meant)
    assert capsys.readouterr().out == "on purpose wrong: the scripts of BRD-06 and CRM-08\n"
    for other in (row("CRM-01", 0), row("CRM-01", 1, masked=True), row("CRM-08", 1)):
        assert not demo.compare_with_scripts([row("CRM-02", 1), other])
        task_id = other["verifier_metadata"]["task_id"]
        assert f"not as the scripts mean: {task_id}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_provider_is_simulated_unless_there_is_a_key(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    provider = PROVIDERS[name]
    monkeypatch.setattr(demo_models, "ROOT", tmp_path)
    monkeypatch.setenv(provider.variable, " ")
    with chosen_model(name) as model:
        assert "a simulator of" in model.about
        assert "no provider is asked" in model.about
        assert model.scripted
        url = next(one for one in model.overrides if provider.base_url in one).split("=")[1]
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(url).status_code == 404  # it is there
        assert model.refused() == []
    settings = tmp_path / "env.yaml"
    settings.write_text(f"{provider.key}: ${{oc.env:NO_SUCH_VARIABLE}}\n")
    assert not provider.has_key()
    settings.write_text(f"{provider.key}: sk-mine\n")
    with chosen_model(name) as model:
        assert "real API, with your key" in model.about
        assert (model.overrides, model.scripted) == ((), False)
    settings.unlink()
    monkeypatch.setenv(provider.variable, "sk-mine")
    assert provider.has_key()


def test_a_real_models_failures_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    real = Model("a real one", "", "", scripted=False)
    assert demo.judge([row("CRM-01", 0), row("BRD-06", 1)], real)
    assert not demo.judge([row("CRM-01", 0, masked=True)], real)
    assert "the model was a real one\n" in capsys.readouterr().out
    refusing = Model("a strict one", "", "", simulator=SimpleNamespace(requests=[FAULTY]))
    assert not demo.judge([row("CRM-01", 1)], refusing)
    assert "the simulator refused a request: no [such] field\n" in capsys.readouterr().out
