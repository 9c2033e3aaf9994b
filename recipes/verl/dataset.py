# pyright: reportMissingImports=false
"""Task rows, JSONL as NeMo Gym has them, as verl's data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

AGENT = "browser_gym"


class BrowserGymDataset(Dataset):
    """One sample per line; what the model is told is made by the agent loop."""

    def __init__(
        self,
        data_files: str | Sequence[str],
        tokenizer: Any = None,
        config: Any = None,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        """Read task rows.

        Args:
            data_files: paths of JSONL files.
            tokenizer: verl's, not used.
            config: likewise.
            processor: likewise.
            max_samples: the most to take, from the start; negative for all.

        Raises:
            ValueError: a line is no task row; it says which.
        """
        files = [data_files] if isinstance(data_files, str) else data_files
        self._tasks = [task for file in files for task in _tasks(Path(file))]
        if max_samples >= 0:
            self._tasks = self._tasks[:max_samples]

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> dict[str, Any]:
        task = self._tasks[index]
        return {
            "agent_name": AGENT,
            "task": json.dumps(task),
            "raw_prompt": _messages(task["responses_create_params"]["input"]),
            "data_source": task["verifier_metadata"].get("category") or AGENT,
            "index": index,
            "reward_model": {"style": "environment", "ground_truth": ""},
            "extra_info": {"index": index, "task_id": task["verifier_metadata"].get("task_id")},
            "tools_kwargs": {},
            "dummy_tensor": torch.zeros(1, dtype=torch.uint8),  # verl wants one tensor
        }


def _tasks(file: Path) -> list[dict[str, Any]]:
    tasks = []
    # Not splitlines, which also ends a line at characters that JSON may hold as they are.
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            task = json.loads(line)
            task = {key: task[key] for key in ("responses_create_params", "verifier_metadata")}
            _messages(task["responses_create_params"]["input"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{file}:{number} is no task row: {type(error).__name__}: {error}"
            ) from error
        tasks.append(task)
    return tasks


def _messages(given: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a task's input as verl shows it in its tables; no model is told this."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [{"role": item["role"], "content": _words(item["content"])} for item in given]


def _words(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "[image]") for part in content)
