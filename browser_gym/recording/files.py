"""Writes a recording: a task, a rollout, a script and a training sample."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from browser_gym.exporting.run import Choice, run_export
from browser_gym.recording.record import Recording
from browser_gym.recording.rows import rollout_row, task_row
from browser_gym.recording.script import NotSayable, turns_of
from browser_gym.recording.watch import Look
from browser_gym.rollouts import UnusableInput
from resources_servers.browser_gym.write_once import write_once

ARTIFACTS = "artifacts"


def places(output: Path) -> dict[str, Path]:
    """Return where each file goes, by what it is.

    Args:
        output: the task's, whose name gives those of the others.
    """
    return {
        "task": output,
        "rollout": output.with_suffix(".rollout.jsonl"),
        "script": output.with_suffix(".script.json"),
        "sft": output.with_suffix(".sft.jsonl"),
    }


def check_output(output: Path) -> None:
    """Refuse a name before anybody has worked for it.

    Raises:
        UnusableInput: nothing can be written there, or another recording is.
    """
    if output.suffix != ".jsonl":
        raise UnusableInput(f"--output {output}: give a name that ends in .jsonl")
    try:
        if there := [path for path in places(output).values() if path.exists()]:
            raise UnusableInput(
                f"--output {output}: {there[0]} is there already; give another name"
            )
        output.parent.mkdir(parents=True, exist_ok=True)
        for path in places(output).values():
            path.touch()
            path.unlink()
    except OSError as error:
        raise UnusableInput(f"--output {output}: {error.strerror}") from error


def write(recording: Recording, output: Path, prompt: str, answer: str) -> dict[str, Path]:
    """Write a recording's files; return where they are, by what they are.

    What cannot be said is left out, and is then in the recording's notes.

    Raises:
        UnusableInput: they cannot be written.
    """
    paths = places(output)
    task_id = output.stem
    task = task_row(recording, task_id, prompt, answer)
    try:
        row = rollout_row(recording, task, answer, lambda look: _store(look, output.parent))
        _write(paths["task"], task)
        _write(paths["rollout"], row)
    except OSError as error:
        raise UnusableInput(f"--output {output}: {error.strerror}") from error
    try:
        turns = turns_of([recorded.action for recorded in recording.actions], answer)
        _write(paths["script"], {task_id: {"prompt": prompt, "turns": turns}}, indent=1)
    except NotSayable as error:
        recording.notes.append(f"no script: the computer tool has no {error}")
        del paths["script"]
    run_export([paths["rollout"]], paths["sft"], Choice("sft", include_masked=True))
    return paths


def _write(path: Path, value: Any, indent: int | None = None) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def _store(look: Look, folder: Path) -> str:
    data = base64.b64decode(look.image.data)
    name = f"{ARTIFACTS}/{hashlib.sha256(data).hexdigest()}.jpg"
    write_once(folder / name, data)
    return name
