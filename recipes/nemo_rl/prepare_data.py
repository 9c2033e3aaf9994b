"""Names the agent in task rows: NeMo RL routes each row by it.

python -m recipes.nemo_rl.prepare_data data/demo_tasks.jsonl --output results/nemo_rl_train.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

AGENT = "browser_policy_agent"


def with_agent(lines: Iterable[str], agent: str) -> Iterator[str]:
    """Yield the lines of a task file with `agent_ref`; empty ones are passed over."""
    reference = {"type": "responses_api_agents", "name": agent}
    for line in lines:
        if line.strip():
            yield json.dumps({**json.loads(line), "agent_ref": reference})


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Name the agent in task rows, for NeMo RL.")
    parser.add_argument("tasks", type=Path, help="a task file")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--agent", default=AGENT)
    options = parser.parse_args()
    with options.tasks.open(encoding="utf-8") as file:
        lines = list(with_agent(file, options.agent))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
