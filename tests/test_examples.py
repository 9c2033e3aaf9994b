"""The committed examples are what the code makes today, and NeMo Gym accepts them."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from resources_servers.browser_gym.demo_gym.server import running as demo_gym
from resources_servers.browser_gym.prepare_data import main as prepare_data
from resources_servers.browser_gym.task_row import TaskRow

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "resources_servers" / "browser_gym" / "data"


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_example_files_hold_five_rows() -> None:
    assert len(lines_of(DATA / "example.jsonl")) == 5
    assert json.loads((DATA / "example_metrics.json").read_text())["Number of examples"] == 5
    rollouts = lines_of(DATA / "example_rollouts.jsonl")
    assert [row["reward"] for row in rollouts].count(1) == 4
    assert {row["verifier_metadata"]["task_id"] for row in rollouts} == {
        row["verifier_metadata"]["task_id"] for row in lines_of(DATA / "example.jsonl")
    }


TASKS = [ROOT / "data" / "demo_tasks.jsonl", ROOT / "data" / "element_tasks.jsonl"]


@pytest.mark.parametrize("path", [DATA / "example.jsonl", *TASKS])
def test_rows_are_valid(path: Path) -> None:
    for row in lines_of(path):
        TaskRow.parse(row)


@pytest.mark.parametrize("path", TASKS)
async def test_demo_tasks_are_the_demo_gyms(tmp_path: Path, path: Path) -> None:
    options = []
    if path.stem == "element_tasks":
        ids = [row["verifier_metadata"]["task_id"] for row in lines_of(path)]
        options = ["--tools", "elements", "--task-id", *ids]
    async with demo_gym() as url:
        output = tmp_path / "tasks.jsonl"
        arguments = ["--gym-url", url, "--output", str(output), *options]
        assert await asyncio.to_thread(prepare_data, arguments) in (0, None)
        made = output.read_text().replace(url, "http://127.0.0.1:8777")
    assert made == await asyncio.to_thread(path.read_text)


@pytest.mark.long
def test_gym_env_validate_passes() -> None:
    gym = ROOT / ".venv" / "bin" / "gym"
    done = subprocess.run(
        [gym, "env", "validate", "browser_gym"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "custom-gym-agent-loop" in done.stdout
