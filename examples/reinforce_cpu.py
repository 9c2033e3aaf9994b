"""Reinforcement learning without a GPU and without a trainer: `make rl-example`.

A tiny policy learns to click the blue tile among grey ones, in real browsers, through the servers
that large models use. Each iteration runs groups of rollouts, reads tokens, log probs and rewards
from their rows, and takes a few steps of REINFORCE with each group's mean as the baseline.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import numpy as np

from examples.stack import running
from examples.tiny_policy import Array, Batch, TinyPolicy, allowed_after, seen
from examples.tiny_server import TinyServer
from examples.tiny_tokens import COLUMNS, END, ROWS

Row = dict[str, Any]

OUTPUT = Path(__file__).resolve().parents[1] / "results" / "rl_example.json"
TILES = COLUMNS * ROWS
PROMPT = "Click the blue tile, then say that it is done."
REPEATS = 4
"""Rollouts of each task, which make a group."""
GRADIENT_STEPS = 4
"""Of each iteration."""
AT_ONCE = 8
"""Rollouts that run at the same time."""


def task_rows(pages: str, rng: random.Random) -> list[Row]:
    """Return a task row per place of the blue tile; the greys of the others are drawn anew.

    Args:
        pages: base URL of the pages.
        rng: draws the greys.
    """
    rows = []
    for place in range(TILES):
        colors = [rng.choice("89abcde") * 3 for _ in range(TILES)]
        colors[place] = "24d"
        metadata = {
            "task_id": f"TILE-{place + 1}",
            "start_url": f"{pages}/tiles.html?colors={','.join(colors)}",
            "viewport": {"width": 640, "height": 360},
            "verifier": "local_storage",
            "assertions": [{"title": "the blue tile", "query": "choice", "equals": place}],
        }
        params = {"input": [{"role": "user", "content": PROMPT}]}
        rows.append({"responses_create_params": params, "verifier_metadata": metadata})
    return rows


async def roll_out(
    agent: httpx.AsyncClient, tasks: Sequence[Row], repeats: int, first_index: int = 0
) -> list[Row]:
    """Run rollouts of each task and return their graded rows, group by group.

    Args:
        agent: a client of the agent.
        tasks: the rows of the tasks.
        repeats: rollouts of each.
        first_index: of the tasks, which tells them from those of earlier iterations.
    """
    free = asyncio.Semaphore(AT_ONCE)

    async def run(index: int, repeat: int) -> Row:
        labels = {"_ng_task_index": first_index + index, "_ng_rollout_index": repeat}
        async with free:
            answer = await agent.post("/run", json=tasks[index] | labels)
        return answer.raise_for_status().json()

    async with asyncio.TaskGroup() as group:
        runs = [
            group.create_task(run(index, repeat))
            for index in range(len(tasks))
            for repeat in range(repeats)
        ]
    return [one.result() for one in runs]


def valid(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are not masked: a failure of the infrastructure teaches nothing."""
    return [row for row in rows if not row["mask_sample"]]


def mean_reward(rows: Sequence[Row]) -> float:
    """Return the mean reward of valid rows."""
    return sum(row["reward"] for row in rows) / len(rows)


def sampled(row: Row, folder: Path) -> Iterator[tuple[Array, Array, int, float]]:
    """Yield what a `Batch` has of each token that was sampled, but for the advantage.

    Args:
        row: of a rollout.
        folder: where the row's references to screenshots begin.
    """
    for segment in row.get("segments", []):  # none if it ended before the first reply
        for step in segment["steps"]:
            # Each prompt ends with a new screenshot, and the policy looks at no other.
            pixels = seen((folder / step["new_images"][-1]).read_bytes())
            before = None
            for token, log_prob in zip(
                step["generation_token_ids"], step["generation_log_probs"], strict=True
            ):
                yield pixels, allowed_after(before), token - END, log_prob
                before = token


def batch_of(rows: Sequence[Row], folder: Path) -> Batch | None:
    """Return the tokens of valid rows with their advantages: the reward less the group's mean.

    Returns:
        None if all rewards are as the group's mean: there is nothing to learn then.
    """
    tokens: list[tuple[Array, Array, int, float, float]] = []
    for _, group in groupby(rows, lambda row: row["_ng_task_index"]):
        repeats = list(group)
        baseline = mean_reward(repeats)
        for row in repeats:
            if row["reward"] != baseline:
                advantage = row["reward"] - baseline
                tokens += [(*token, advantage) for token in sampled(row, folder)]
    return Batch(*map(np.array, zip(*tokens, strict=True))) if tokens else None


def learn(policy: TinyPolicy, batch: Batch) -> None:
    """Improve a policy by tokens that it has just sampled.

    Raises:
        RuntimeError: their log probs are not those that the policy gives them.
    """
    apart = np.abs(policy.log_probs(batch) - batch.log_probs).max()
    if apart > 1e-6:
        raise RuntimeError(f"the rows' log probs are up to {apart:g} from the policy's own")
    for _ in range(GRADIENT_STEPS):
        policy.step(batch)


@dataclass
class Run:
    """One policy's training.

    Attributes:
        seed: of its first weights, of what it samples and of the tasks.
        rewards: the mean over the valid rollouts of each iteration.
        rollouts: how many there were.
        masked: how many of these were masked.
        seconds: that it took.
    """

    seed: int
    rewards: list[float]
    rollouts: int = 0
    masked: int = 0
    seconds: float = 0


async def train(
    server: TinyServer,
    agent: httpx.AsyncClient,
    pages: str,
    folder: Path,
    *,
    seed: int,
    iterations: int,
) -> Run:
    """Train a new policy.

    Args:
        server: gets the policy.
        agent: a client of the agent.
        pages: base URL of the pages.
        folder: where rollouts go, and where their references to screenshots begin.
        seed: see `Run`.
        iterations: how many.

    Raises:
        RuntimeError: all rollouts of an iteration failed.
    """
    started = time.monotonic()
    policy = server.policy = TinyPolicy(seed)
    rng = random.Random(seed)
    run = Run(seed, [])
    with (folder / f"seed_{seed}.jsonl").open("w") as file:
        for iteration in range(1, iterations + 1):
            tasks = task_rows(pages, rng)
            rows = await roll_out(agent, tasks, REPEATS, (iteration - 1) * len(tasks))
            file.writelines(json.dumps(row) + "\n" for row in rows)
            graded = valid(rows)
            if not graded:
                raise RuntimeError(f"all rollouts failed, as {rows[0]['failure_reason']}")
            if batch := batch_of(graded, folder):
                learn(policy, batch)
            run.rewards.append(mean_reward(graded))
            run.rollouts += len(rows)
            run.masked += len(rows) - len(graded)
            run.seconds = time.monotonic() - started
            print(
                f"seed {seed}, iteration {iteration:2}: mean reward {run.rewards[-1]:.2f} of "
                f"{len(graded)} valid rollouts, {run.seconds:3.0f} s",
                flush=True,
            )
    return run


async def train_all(seeds: Sequence[int], iterations: int, output: Path) -> list[Run]:
    """Train one policy per seed on servers of their own, and return what became of each."""
    folder = output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    server = TinyServer(TinyPolicy(0))
    async with (
        running(server.app, folder / "artifacts", AT_ONCE) as (agent_url, pages),
        httpx.AsyncClient(base_url=agent_url, timeout=None) as agent,
    ):
        return [
            await train(server, agent, pages, folder, seed=seed, iterations=iterations)
            for seed in seeds
        ]


def report(runs: Sequence[Run], seconds: float) -> dict[str, Any]:
    """Return what is written of a whole run.

    Args:
        runs: one per seed.
        seconds: that all of it took, start and end of the servers included.
    """
    return {
        "seeds": [run.seed for run in runs],
        "first": round(float(np.mean([run.rewards[0] for run in runs])), 4),
        "last": round(float(np.mean([run.rewards[-1] for run in runs])), 4),
        "seconds": round(seconds, 1),
        "per_seed": [
            {
                "seed": run.seed,
                "first": round(run.rewards[0], 4),
                "last": round(run.rewards[-1], 4),
                "seconds": round(run.seconds, 1),
                "rollouts": run.rollouts,
                "masked": run.masked,
                "rewards": [round(reward, 4) for reward in run.rewards],
            }
            for run in runs
        ],
    }


def plot(runs: Sequence[Run], path: Path) -> None:
    """Draw the reward of each iteration: each seed's, and their mean."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    iterations = range(1, len(runs[0].rewards) + 1)
    for run in runs:
        axes.plot(iterations, run.rewards, linewidth=1, alpha=0.5, label=f"seed {run.seed}")
    mean = np.mean([run.rewards for run in runs], axis=0)
    axes.plot(iterations, mean, linewidth=2.5, color="black", label="mean")
    axes.axhline(1 / TILES, linestyle=":", color="grey", label="always the same tile")
    axes.set(xlabel="iteration", ylabel="mean reward", ylim=(0, 1.02))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


async def _until_told_to_stop(seeds: Sequence[int], iterations: int, output: Path) -> list[Run]:
    """Train; what ends a program ends this in good order, however often it comes."""
    training = asyncio.current_task()
    assert training

    def stop() -> None:
        if not training.cancelling():
            training.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return await train_all(seeds, iterations, output)


def main() -> int:
    """Run the example and return the exit code."""
    parser = argparse.ArgumentParser(prog="make rl-example", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default 1 2 3")
    parser.add_argument("--iterations", type=int, default=8, help="of each seed (default 8)")
    parser.add_argument(
        "--output",
        type=Path,
        default=OUTPUT,
        help="JSON of the results (default results/rl_example.json); the plot goes beside it, "
        "rollouts into the folder of its name",
    )
    arguments = parser.parse_args()
    if arguments.iterations < 1:
        parser.error("--iterations: at least 1")
    output = arguments.output.resolve()
    logging.disable()  # NeMo Gym and httpx tell of each request
    started = time.monotonic()
    try:
        runs = asyncio.run(_until_told_to_stop(arguments.seeds, arguments.iterations, output))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; nothing is left running")
        return 130
    told = report(runs, time.monotonic() - started)
    output.write_text(json.dumps(told, indent=2) + "\n")
    plot(runs, output.with_suffix(".png"))
    print(
        f"mean reward {told['first']:.2f} at first, {told['last']:.2f} at last, over "
        f"{len(runs)} seed{'s' * (len(runs) > 1)} in {told['seconds']:.0f} s; {output}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
