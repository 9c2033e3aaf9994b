"""`make test-vllm`: whole episodes with the real vLLM, whose token ids must be exact.

It makes a vLLM for this machine's processor and a tiny random model, which says nonsense: episodes
then go on by error texts, and its text has other tokens than it sampled, the worst case. With
`--url` and `--model` it asks a running vLLM (started with `--enable-scale-out`) and its model.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from responses_api_models.vllm_exact_model.engine import Engine
from scripts import demo
from scripts.demo_models import Model
from scripts.processes import ROOT, Processes
from scripts.vllm_engine import END, NAME, EngineError, make, serving
from scripts.vllm_parity import parity, placeholder_token

AGENT = "responses_api_agents"
# How each agent differs: its model server, and what it sends of a conversation.
AGENTS = {
    "exact": ("policy_model", {"policy": "all"}),
    "stock": ("stock_model", {"policy": "all"}),
    "window": ("policy_model", {"policy": "hysteresis", "keep": 2, "batch": 2}),
}
DRIFT = "browser_gym:tokens_not_contiguous"
# A random model ends a turn by chance, once in 300 tokens: with this, once in 30.
TINY_END_BIAS = 2.5
# Float32 on a processor is computed in another order for another batch.
CLOSE = 0.01
CLOSE_ON_A_GPU = 0.5

Json = dict[str, Any]


def stack_config(url: str, model: str, family: str, output: Path, steps: int) -> Json:
    """Return the configuration of a stack with all agents."""
    one: Any = OmegaConf.load(
        ROOT / AGENT / "browser_agent" / "configs" / "browser_policy_agent.yaml"
    )
    config: Json = {
        "config_paths": [
            "resources_servers/browser_gym/configs/resources_server.yaml",
            "responses_api_models/vllm_exact_model/configs/vllm_exact_model.yaml",
        ],
        **{"policy_base_url": url, "policy_model_name": model, "browser_policy": family},
        "stock_model": {
            "responses_api_models": {
                "vllm_model": {
                    "entrypoint": "app.py",
                    **{"base_url": url, "api_key": "EMPTY", "model": model},
                    "return_token_id_information": True,
                    "request_prompt_and_generation_token_ids": True,
                    "uses_reasoning_parser": True,
                }
            }
        },
    }
    for name, (server, history) in AGENTS.items():
        agent = OmegaConf.to_container(one["browser_policy_agent"][AGENT]["browser_agent"])
        assert isinstance(agent, dict)
        agent |= {
            "model_server": {"type": "responses_api_models", "name": server},
            "history": history | {"max_image_bytes": None},
            **{"max_steps": steps, "loop_limit": None, "token_ids": "segments"},
            "artifact_dir": f"{output}/artifacts",
        }
        del agent["datasets"]
        config[f"{name}_agent"] = {AGENT: {"browser_agent": agent}}
        config[f"{name}_agent_environment"] = {
            "environment_servers": {
                "legacy_agent": {
                    "entrypoint": "app.py",
                    "agent_server": {"type": AGENT, "name": f"{name}_agent"},
                }
            }
        }
    return config


def run_episodes(arguments: argparse.Namespace, url: str, processes: Processes) -> Json:
    """Start the stack, run the episodes of each agent, and return their rows."""
    output: Path = arguments.output
    config = output / "stack.yaml"
    family, model = arguments.family, arguments.model
    made = stack_config(url, model, family, output, arguments.steps)
    OmegaConf.save(OmegaConf.create(made), config)
    head_port, gym_port = demo.free_port(), demo.free_port()
    stack = demo.start_stack(
        processes, output, head_port, gym_port, 300, Model("vLLM", str(config), "exact_agent")
    )
    tasks = output / "tasks.jsonl"
    demo.run_to_end(
        processes,
        "fetching the tasks from the demo gym",
        *(sys.executable, "-m", "resources_servers.browser_gym.prepare_data"),
        *("--gym-url", f"http://127.0.0.1:{gym_port}", "--output", str(tasks)),
        *("--sample", str(arguments.episodes), "--seed", "7"),
    )
    _set_sampling(tasks, asyncio.run(end_bias(url, model)) if arguments.tiny else None)
    rows: Json = {}
    for name in AGENTS:
        path = output / f"{name}.jsonl"
        command = demo.eval_command(tasks, path, 1, head_port, f"{name}_agent")
        begun = time.monotonic()
        demo.run_rollouts(processes, stack, command, arguments.episodes, path)
        rows[name] = {"rows": demo.read_rows(path), "seconds": time.monotonic() - begun}
    processes.stop(stack)
    return rows


async def end_bias(url: str, model: str) -> Json:
    """Return the sampling parameters with which the tiny model ends its turns."""
    engine = Engine(url, "EMPTY", headers={}, timeout_s=600, max_retries=0)
    try:
        (token,) = await engine.tokenize(model, END)
    finally:
        await engine.close()
    return {"logit_bias": {str(token): TINY_END_BIAS}}


def _set_sampling(tasks: Path, extra: Json | None) -> None:
    lines = []
    for line in tasks.read_text().splitlines():
        task = json.loads(line)
        task["responses_create_params"] |= {"temperature": 1.0, "max_output_tokens": 400}
        if extra:
            task["responses_create_params"]["metadata"] = {"extra_body": json.dumps(extra)}
        lines.append(json.dumps(task) + "\n")
    tasks.write_text("".join(lines))


def measured(rows: list[Json], seconds: float) -> Json:
    """Return what the rows of one agent say."""
    steps = [step for row in rows for part in row.get("segments") or [] for step in part["steps"]]
    generated = sum(len(step["generation_token_ids"]) for step in steps)
    model_seconds = sum(row["model_seconds"] for row in rows)
    return {
        "episodes": len(rows),
        "turns": sum(row["num_turns"] for row in rows),
        "turns_of_each": [row["num_turns"] for row in rows],
        "segments_of_each": [len(row.get("segments") or []) for row in rows],
        "images": sum(len(step["new_images"]) for step in steps),
        "prompt_tokens": sum(len(step["new_prompt_token_ids"]) for step in steps),
        "generated_tokens": generated,
        "drifted": sum(row.get("failure_kind") == DRIFT for row in rows),
        "failed_otherwise": sorted(
            {str(row["failure_kind"]) for row in rows if row["mask_sample"]} - {DRIFT}
        ),
        "generated_tokens_per_model_second": round(generated / max(model_seconds, 0.001), 1),
        "episodes_per_hour": round(3600 * len(rows) / seconds),
    }


async def largest_difference(rows: list[Json], url: str, model: str, output: Path) -> float:
    """Have the engine read each segment as a whole, and compare its log probabilities.

    Only if the ids and the images of a row are those that the engine sampled from do they agree.

    Returns:
        The largest difference of a token's.

    Raises:
        AssertionError: The engine reads other tokens.
    """
    engine = Engine(url, "EMPTY", headers={}, timeout_s=600, max_retries=0)
    try:
        pad = await placeholder_token(url, model)
        worst = 0.0
        for steps in (part["steps"] for row in rows for part in row["segments"]):
            worst = max(worst, await _difference(engine, model, steps, pad, output))
        return worst
    finally:
        await engine.close()


async def _difference(
    engine: Engine, model: str, steps: list[Json], pad: int, output: Path
) -> float:
    ids: list[int] = []
    told: dict[int, float] = {}
    for step in steps:
        ids += step["new_prompt_token_ids"]
        log_probs = step["generation_log_probs"]
        told |= {len(ids) + index: value for index, value in enumerate(log_probs)}
        ids += step["generation_token_ids"]
    short = [t for i, t in enumerate(ids) if t != pad or i == 0 or ids[i - 1] != pad]
    files = [output / name for step in steps for name in step["new_images"]]
    reply = await engine.generate(
        {
            "model": model,
            "token_ids": short,
            "content_parts": [{"type": "image_url", "url": _data_url(file)} for file in files],
            "sampling_params": {"max_tokens": 1, "prompt_logprobs": 0},
            "return_token_ids": True,
        }
    )
    assert reply["prompt_token_ids"] == ids, "the engine reads other tokens than the row has"
    read = reply["prompt_logprobs"]
    return max(abs(read[at][str(ids[at])]["logprob"] - value) for at, value in told.items())


def _data_url(file: Path) -> str:
    kind = {".jpg": "jpeg", ".jpeg": "jpeg"}.get(file.suffix, file.suffix[1:])
    return f"data:image/{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def judge(results: Json, arguments: argparse.Namespace) -> list[str]:
    """Return what is not as it must be."""
    exact, stock, window = (results["agents"][name] for name in AGENTS)
    wanted = arguments.steps if arguments.tiny else 1
    checks = {
        "an episode of the exact server drifted": exact["drifted"] + window["drifted"] == 0,
        "an exact episode has not one segment": set(exact["segments_of_each"]) == {1},
        "an exact episode has too few turns": max(exact["turns_of_each"]) >= wanted,
        "an episode failed": not any(
            agent["failed_otherwise"] for agent in results["agents"].values()
        ),
        "no window began a segment": max(window["segments_of_each"]) > 1 or not arguments.tiny,
        "nothing drifted with the stock server": stock["drifted"] > 0 or not arguments.tiny,
        "the engine reads other log probabilities": results["largest_log_prob_difference"]
        <= (CLOSE if arguments.tiny else CLOSE_ON_A_GPU),
        "the exact server's replies differ from the chat endpoint's": not results["parity"][
            "different"
        ],
    }
    return [text for text, holds in checks.items() if not holds]


@contextlib.contextmanager
def engine_url(arguments: argparse.Namespace, processes: Processes) -> Iterator[str]:
    """Yield the engine's base URL."""
    if not arguments.tiny:
        yield arguments.url
        return
    make()
    begun = time.monotonic()
    with serving(processes, demo.free_port()) as url:
        print(f"vLLM ready after {time.monotonic() - begun:.0f} s", flush=True)
        yield url


def run(arguments: argparse.Namespace) -> list[str]:
    """Run all checks, write the results, and return what is wrong."""
    output: Path = arguments.output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with (output / "log").open("wb") as log:
        processes = Processes(log)
        try:
            with engine_url(arguments, processes) as url:
                results: Json = {"model": arguments.model}
                results["parity"] = asyncio.run(parity(url, arguments.model))
                episodes = run_episodes(arguments, url, processes)
                results["agents"] = {name: measured(**of) for name, of in episodes.items()}
                rows = [row for name in ("exact", "window") for row in episodes[name]["rows"]]
                results["largest_log_prob_difference"] = asyncio.run(
                    largest_difference(rows, url, arguments.model, output)
                )
        finally:
            processes.clean_up()
    wrong = judge(results, arguments)
    text = json.dumps(results | {"wrong": wrong}, indent=1)
    arguments.results.write_text(text + "\n")
    print(text)
    return wrong


def main() -> int:
    """Run it and return the exit code."""
    parser = argparse.ArgumentParser(prog="make test-vllm", description=__doc__)
    parser.add_argument("--url", help="a running vLLM's base URL, with /v1")
    parser.add_argument("--model", default=NAME, help="its model's name")
    parser.add_argument("--family", default="qwen3_vl", help="its policy (default qwen3_vl)")
    parser.add_argument("--episodes", type=int, default=4, help="for each agent (default 4)")
    parser.add_argument("--steps", type=int, default=10, help="turns of an episode (default 10)")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "vllm")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "vllm.json")
    arguments = parser.parse_args()
    arguments.tiny = not arguments.url
    arguments.output = arguments.output.resolve()
    try:
        wrong = run(arguments)
    except (EngineError, demo.DemoError, subprocess.CalledProcessError) as error:
        print(f"FAILED: {error}; see {arguments.output}/log", file=sys.stderr)
        return 1
    for text in wrong:
        print(f"FAILED: {text}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
