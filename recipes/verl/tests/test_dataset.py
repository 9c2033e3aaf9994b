# pyright: reportMissingImports=false
"""Task rows as verl reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import create_rl_dataset
from verl.utils.dataset.rl_dataset import collate_fn

from recipes.verl.dataset import BrowserGymDataset
from recipes.verl.tests.rollouts import ROOT


def test_verl_reads_the_demo_tasks() -> None:
    config = OmegaConf.create(
        {"custom_cls": {"path": "pkg://recipes.verl.dataset", "name": "BrowserGymDataset"}}
    )
    file = ROOT / "data/demo_tasks.jsonl"
    dataset = create_rl_dataset([str(file), str(file)], config, None, None, max_samples=40)
    assert len(dataset) == 40
    batch = collate_fn([dataset[0], dataset[36], dataset[39]])
    assert batch["agent_name"].tolist() == ["browser_gym"] * 3
    first = json.loads(file.read_text().splitlines()[0])
    assert json.loads(batch["task"][0]) == first == json.loads(batch["task"][1])
    assert batch["index"].tolist() == [0, 36, 39]
    assert batch["raw_prompt"][0] == first["responses_create_params"]["input"]
    assert batch["dummy_tensor"].shape == (3, 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "JSONDecodeError"),
        ('{"responses_create_params": {"input": "Go."}}', "verifier_metadata"),
        ('{"responses_create_params": {}, "verifier_metadata": {}}', "input"),
        ("[]", "TypeError"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "tasks.jsonl"
    good = '{"responses_create_params": {"input": "Go\u2028on."}, "verifier_metadata": {}}'
    file.write_text(f"{good}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"tasks.jsonl:3 is no task row: .*{reason}"):
        BrowserGymDataset(str(file))
