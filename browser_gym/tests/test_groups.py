"""`browser-gym groups`, and how fast the command line answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from browser_gym.cli import app
from browser_gym.reporting.costs import Pricing
from browser_gym.reporting.outcomes import outcome_of
from browser_gym.rollouts import read_rollouts
from browser_gym.tests.rows import Episode, Json, Turn, write
from browser_gym.viewer.summary import summary_of


def row(task: int, repeat: int, reward: float, reason: str = "finished", **more: object) -> Json:
    extra = {"termination_reason": reason, **more}
    return Episode([Turn()], task, repeat, reward, more=extra).row()


def lost(task: int, repeat: int) -> Json:
    """A rollout that is masked, in the one or the other way."""
    how = {} if task else {"mask_sample": True}
    more = {"instance_config": {"mask_sample": True}, "failure_kind": "session_lost"} | how
    return row(task, repeat, 0, "failure", **more)


ATTEMPT = {"failure_kind": "provider_unavailable", "failure_reason": "", "num_turns": 2}
ROWS = [
    *(row(0, 0, 1), row(0, 1, 0, "max_steps", attempts=[ATTEMPT]), lost(0, 2)),
    *(row(1, 0, 1), row(1, 1, 1)),
    *(row(2, 0, 0, "loop"), row(2, 1, 0, "loop")),
    *(row(3, 0, 1, "refusal"), lost(3, 1)),
]


def test_the_figures(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    result = CliRunner().invoke(app, ["groups", str(path), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    first = told["groups"][0]
    assert first == {
        "name": str(tmp_path / "run/0"),
        "task_id": "T-0",
        "valid": 2,
        "masked": {"session_lost": 1},
        "mean": 0.5,
        "variance": 0.25,
        "terminated": 1,
        "truncated": {"max_steps": 1},
        "resampled": {"provider_unavailable": 1},
    }
    assert told["summary"] == {
        "groups": 4,
        "rollouts": 9,
        "valid": 7,
        "masked": {"session_lost": 2},
        "resampled": {"provider_unavailable": 1},
        "mean_reward": pytest.approx(4 / 7),
        "mean_valid": 7 / 4,
        "teaching_share": 1 / 4,
        "zero_variance_share": 2 / 4,
        "all_solved_share": 1 / 4,
        "none_solved_share": 1 / 4,
        "too_few_valid_share": 1 / 4,
        "terminated": 4,
        "truncated": {"loop": 2, "max_steps": 1},
    }

    result = CliRunner().invoke(app, ["groups", str(path)])
    assert result.exit_code == 0, result.output
    assert "T-2" in result.output
    assert "loop 2" in result.output
    assert "25% teach" in result.output


def test_runs_are_told_apart(tmp_path: Path) -> None:
    """The same task of another run is another group: another policy may have played it."""
    paths = [write(tmp_path, [row(0, 0, 1)], f"{name}.jsonl") for name in ("a", "b")]
    result = CliRunner().invoke(app, ["groups", *map(str, paths), "--json"])
    assert len(json.loads(result.output)["groups"]) == 2
    paths[0].write_text("\n")
    result = CliRunner().invoke(app, ["groups", str(paths[0])])
    assert (result.exit_code, "no rollouts" in result.output) == (1, True)


def test_help_imports_nothing_that_takes_long() -> None:
    command = "import sys; from browser_gym.cli import app; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-P", "-c", command], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in told.stdout.split()}
    assert loaded.isdisjoint({"nemo_gym", "pyarrow", "numpy", "ray", "playwright", "pydantic"})


def test_a_mask_is_known_in_every_place(tmp_path: Path) -> None:
    """Also of rows that say it only in NeMo RL's way."""
    path = write(tmp_path, [lost(1, 0)])
    (rollout,) = read_rollouts([path])
    assert outcome_of(rollout, Pricing()).masked
    assert summary_of(rollout)["masked"]
