"""Rows that nobody's agent writes, but somebody may send: every command says what is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from browser_gym.cli import app
from browser_gym.tests.rows import Episode, Json, Turn, write
from browser_gym.viewer.actions import describe
from browser_gym.viewer.index import RolloutFile, newest_rollouts

EPISODE = Episode([Turn(call=True), Turn()])
HOSTILE = "\x1b]0;title\x07\u202e[/b][red]"
ATTEMPT = {"failure_kind": ["a"]}
CALL = {"call_id": "c0", "results": [{"status": "ok"}], "current_url": "http://a.test/"}


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    return result


def commands(path: Path) -> list[tuple[object, ...]]:
    """Return a call of each command that reads rows."""
    folder = path.parent
    return [
        ("groups", path),
        ("report", path),
        ("view", path, "-o", folder / "page.html"),
        ("export", path, "-f", "sft", "-o", folder / "out.jsonl", "--images", "copy"),
        ("export", path, "-f", "segmented", "-o", folder / "out.parquet"),
        ("replay", path, "--url", "http://127.0.0.1:9"),
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"verifier_metadata": "x"}, "`verifier_metadata` is 'x', not an object"),
        ({"verifier_metadata": {"task_id": [1]}}, "`verifier_metadata.task_id` is '[1]'"),
        ({"_ng_task_index": {}}, "`_ng_task_index` is '{}'"),
        ({"_ng_rollout_index": [1]}, "`_ng_rollout_index` is '[1]', not a whole number"),
        ({"first_observation": 5}, "`first_observation` is '5'"),
        ({"termination_reason": []}, "`termination_reason` is '[]', not a text"),
        ({"turns": 5}, "`turns` is '5', not a list"),
        ({"turns": ["x"]}, "`turns` is no list of objects"),
        ({"attempts": ["x"]}, "`attempts` is no list of objects"),
        ({"attempts": [ATTEMPT]}, "`attempts.failure_kind` is not a text"),
    ],
)
def test_a_field_of_another_kind_is_named(tmp_path: Path, change: Json, named: str) -> None:
    path = write(tmp_path, [EPISODE.row() | change])
    for command in commands(path):
        result = run(*command)
        assert result.exit_code in (1, 2)
        assert f"run.jsonl:1: {named}" in result.output.replace("\n", ""), command


@pytest.mark.parametrize(
    "call",
    [CALL | {"actions": "x"}, CALL | {"actions": ["x"]}, CALL | {"texts": [[1]], "actions": []}],
)
def test_odd_calls_end_no_command(tmp_path: Path, call: Json) -> None:
    metadata = {"task_id": "T", "start_url": "http://127.0.0.1:9/", "browser": 5}
    row = EPISODE.row() | {"turns": [{"index": "../../x", "calls": [call]}]}
    for command in commands(write(tmp_path, [row | {"verifier_metadata": metadata}])):
        run(*command)


def test_words_of_rows_are_no_commands_for_the_terminal(tmp_path: Path) -> None:
    good = EPISODE.row()
    bad = good | {
        "verifier_metadata": {"task_id": HOSTILE},
        "mask_sample": True,
        "failure_kind": HOSTILE,
        "failure_reason": HOSTILE,
        "termination_reason": HOSTILE,
        "attempts": [{"failure_kind": HOSTILE}],
        "_ng_task_index": 1,
    }
    for command in commands(write(tmp_path, [good, bad])):
        output = run(*command).output
        assert not set("\x1b\x07\u202e") & set(output), command
    assert "[/b][red]" in run("groups", tmp_path / "run.jsonl").output.replace("\n", "")


@pytest.mark.parametrize("reference", ["secret.txt", "/etc/passwd", "file://[x", "\x00", "a" * 300])
def test_only_images_are_exported(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    row = EPISODE.row()
    row["first_observation"]["screenshot"] = reference
    row["responses_create_params"]["input"][1]["content"].pop()
    path = write(tmp_path, [row])
    for images in ("copy", "reference"):
        result = run("export", path, "-f", "sft", "-o", tmp_path / "o.jsonl", "--images", images)
        assert "left out, a missing image: 1" in result.output
        assert not (tmp_path / "o_images").exists()
    assert run("view", path, "-o", tmp_path / "page.html").exit_code == 0


def test_nothing_writes_over_what_it_reads(tmp_path: Path) -> None:
    path = write(tmp_path, [EPISODE.row()])
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    before = path.read_bytes()
    for output in (path, link):
        for command in ("view", "report", "export --format=sft"):
            result = run(*command.split(), path, "-o", output)
            assert result.exit_code == 1
            assert "is one of the rollout files" in result.output.replace("\n", " ")
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_options_are_finite_numbers(tmp_path: Path, value: float) -> None:
    path = write(tmp_path, [EPISODE.row()])
    for arguments in (
        ("view", path, "-o", tmp_path / "page.html", "--max-mb", value),
        ("export", path, "-f", "sft", "-o", tmp_path / "o.jsonl", "--min-reward", value),
        ("replay", path, "--tolerance", value),
    ):
        assert run(*arguments).exit_code == 2
    assert list(tmp_path.glob("*.*")) == [path]


def test_a_line_may_end_later_than_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, [EPISODE.row()])
    line = path.read_bytes()
    path.write_bytes(line.rstrip())
    rollouts = RolloutFile(path)
    rollouts.read_on()
    path.write_bytes(line + b"\n" + line)
    rollouts.read_on()
    assert [one["line"] for one in rollouts.summaries] == [1, 3]
    assert rollouts.row(1).line == 3


def test_dead_links_are_no_rollouts(tmp_path: Path) -> None:
    (tmp_path / "newest.jsonl").symlink_to(tmp_path / "gone")
    path = write(tmp_path, [EPISODE.row()])
    assert newest_rollouts(tmp_path) == path


def test_a_token_that_no_header_can_hold_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_GYM_AUTH_TOKEN", "é")
    result = run("replay", write(tmp_path, [EPISODE.row()]), "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "BROWSER_GYM_AUTH_TOKEN: has other characters" in result.output


def test_descriptions_are_short() -> None:
    huge: dict[str, Any] = {"type": "navigate", "url": "x" * 100_000}
    assert len(describe(huge)) < 3_000
