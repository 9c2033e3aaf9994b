"""What the recipe shares with this project must run on verl's Python, without NeMo Gym."""

from __future__ import annotations

import json
import subprocess
import sys

from recipes.verl.tests.conftest import ROOT

_PROGRAM = """
import json, sys
import recipes.verl.baseline, recipes.verl.messages, recipes.verl.settings
import responses_api_agents.browser_agent.adapters.policy
import responses_api_agents.browser_agent.episode
from responses_api_agents.browser_agent.policies import policies
policies()
files = [getattr(module, "__file__", None) for module in sys.modules.values()]
print(json.dumps([sorted(sys.modules), [file for file in files if file]]))
"""


def test_what_the_recipe_shares_runs_on_python_3_11_without_nemo_gym() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names, files = json.loads(done.stdout)
    assert not {"nemo_gym", "fastapi", "playwright"} & set(names)
    ours = [file for file in files if file.startswith(str(ROOT)) and "site-packages" not in file]
    assert len(ours) > 20
    # Ruff says what a version of Python cannot parse.
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    checked = subprocess.run(
        [*command, "--target-version", "py311", "--select", "F63", *ours],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
