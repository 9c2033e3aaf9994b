"""The whole road through the `gym` command: rollouts, Ctrl-C, resume, profile, no leftovers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scripts import demo
from scripts.processes import Processes

DEMO = [sys.executable, str(demo.ROOT / "scripts" / "demo.py")]
START_TIMEOUT_S = 240
SOLUTIONS = json.loads(
    (demo.ROOT / "resources_servers/browser_gym/demo_gym/solutions.json").read_text()
)

pytestmark = [pytest.mark.timeout(900), pytest.mark.whole_stack]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def marked(mark: str) -> list[str]:
    """Command lines of live processes that a demo run started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TEST_MARK") == mark and process.pid != os.getpid():
                found.append(" ".join(process.cmdline())[:200])
        except (psutil.Error, OSError):
            continue
    return found


def wait_for_rows(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, "the run ended early"
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Processes, int, Path]]:
    output = tmp_path_factory.mktemp("stack")
    head_port, gym_port = demo.free_port(), demo.free_port()
    with (output / "log").open("wb") as log:
        processes = Processes(log)
        try:
            demo.start_stack(processes, output, head_port, gym_port, START_TIMEOUT_S)
            yield processes, head_port, output
        finally:
            processes.clean_up()


def test_rows_before_ctrl_c_survive_and_resume_goes_on(
    stack: tuple[Processes, int, Path],
) -> None:
    processes, head_port, output = stack
    tasks, rows = output / "tasks.jsonl", output / "rollouts.jsonl"
    port = _gym_port(output)
    lines = (demo.ROOT / "data" / "demo_tasks.jsonl").read_text().splitlines()[:12]
    tasks.write_text("\n".join(lines).replace(":8777", f":{port}") + "\n")

    command = demo.eval_command(tasks, rows, 1, head_port)
    # One at a time, so that there is something left to interrupt.
    run = processes.start(*command, "--concurrency", "1")
    wait_for_rows(rows, 2, run)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(300) != 0, f"{len(rows_of(rows))} rows"
    survived = {row["verifier_metadata"]["task_id"] for row in rows_of(rows)}
    assert 2 <= len(survived) < 12

    resumed = processes.start(*command, "--resume")
    assert resumed.wait(300) == 0
    finished = rows_of(rows)
    assert len(finished) == 12
    assert len({row["verifier_metadata"]["task_id"] for row in finished}) == 12
    assert not any(row["mask_sample"] for row in finished)
    for row in finished:
        task_id = row["verifier_metadata"]["task_id"]
        assert row["reward"] == SOLUTIONS[task_id].get("expected_reward", 1), task_id
        screenshots = [turn["screenshot"] for turn in row["turns"] if "screenshot" in turn]
        assert screenshots
        for screenshot in screenshots:
            assert (output / screenshot).stat().st_size > 1000


def _gym_port(output: Path) -> str:
    match = re.search(r"\+\+demo_gym_port=(\d+)", (output / "log").read_text())
    assert match
    return match[1]


@pytest.mark.long
def test_demo_prints_its_table_and_leaves_nothing(tmp_path: Path) -> None:
    """With the environment server that opens, grades and closes the sessions itself."""
    output = tmp_path / "demo"
    environment = os.environ | {"TEST_MARK": str(tmp_path), "COLUMNS": "140"}
    done = subprocess.run(
        [*DEMO, "--single-turn", "--tasks", "4", "--repeats", "2", "--output", str(output)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=350,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert marked(str(tmp_path)) == []
    assert "mean reward" in done.stdout
    assert f"make view ROLLOUTS={output}/rollouts.jsonl" in done.stdout
    rows = rows_of(output / "rollouts.jsonl")
    assert len(rows) == 8
    for row in rows:
        task_id = row["verifier_metadata"]["task_id"]
        assert task_id in done.stdout
        assert not row["mask_sample"], row["failure_reason"]
        assert row["reward"] == SOLUTIONS[task_id].get("expected_reward", 1), task_id
        assert row["termination_reason"] == "finished"
        assert row["final_answer"]
        assert row["num_turns"] == len(row["turns"]) == len(SOLUTIONS[task_id]["turns"])
        assert (output / row["first_observation"]["screenshot"]).stat().st_size > 1000
    assert (output / "rollouts_agent_metrics.json").exists()
    assert (output / "rollouts_reward_profiling.jsonl").exists()


@pytest.mark.long
def test_demo_stopped_by_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"TEST_MARK": str(tmp_path)}
    output = tmp_path / "demo"
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            [*DEMO, "--output", str(output)],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 300
        # Ray's processes are up: the hardest moment to leave nothing behind.
        while not any("raylet" in line for line in marked(str(tmp_path))):
            assert time.monotonic() < deadline
            assert process.poll() is None, (tmp_path / "out").read_text()
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)  # people press it twice
        assert process.wait(300) == 130
    assert marked(str(tmp_path)) == []
    assert "nothing is left running" in (tmp_path / "out").read_text()
