"""The agent's rollouts over this server, before the simulator."""

import json
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from responses_api_agents.browser_agent.tests.fake_environment import FakeEnvironment
from responses_api_agents.browser_agent.tests.stack import running_agent
from responses_api_models.vllm_exact_model.tests.test_vllm_exact_model import server
from tests.simulators.http_server import serve
from tests.simulators.vllm_api import VllmSimulator, in_pieces
from tests.simulators.vllm_tokens import END

Json = dict[str, Any]
STEPS = 7
WHERE = {"action": "left_click", "coordinate": [500, 500]}
CALL = json.dumps({"name": "computer_use", "arguments": WHERE})
SAID = (f"<think>Where?</think>\n\n  I click.\n<tool_call>\n{CALL}\n</tool_call>", "I scroll.\n\n")


def clicks(rng: random.Random, allowed: int) -> list[int]:
    return [*in_pieces(rng.choice(SAID), rng), END][:allowed]


async def rollout(folder: Path, **config: Any) -> tuple[Json, VllmSimulator]:
    simulator = VllmSimulator(sampler=clicks)
    body = {
        "responses_create_params": {"input": [{"role": "user", "content": "Click."}]},
        "verifier_metadata": {"task_id": "T", "points": [[50, 50]] * STEPS},
    }
    settings = {"adapter": "policy", "policy": "qwen3_vl", "model": "tiny", "loop_limit": None}
    settings |= {"max_steps": STEPS, **config}
    with ExitStack() as stack:
        environment = stack.enter_context(FakeEnvironment().serve())
        engine = stack.enter_context(serve(simulator.app))
        model = stack.enter_context(serve(server(engine).setup_webserver()))
        async with running_agent(environment, model, folder, **settings) as agent:
            return (await agent.post("/run", json=body)).json(), simulator


def sequences(row: Json) -> list[list[int]]:
    """The tokens of each segment."""
    return [
        [
            token
            for step in segment["steps"]
            for token in step["new_prompt_token_ids"] + step["generation_token_ids"]
        ]
        for segment in row["segments"]
    ]


async def test_a_rollout_is_one_sequence_that_the_engine_saw(tmp_path: Path) -> None:
    row, simulator = await rollout(tmp_path)
    assert (row["mask_sample"], row["num_turns"]) == (False, STEPS)
    (tokens,) = sequences(row)
    assert all(tokens[: len(prompt)] == prompt for prompt in simulator.prompts)
    assert len(simulator.prompts) == STEPS
    images = [image for step in row["segments"][0]["steps"] for image in step["new_images"]]
    assert len(images) == len(simulator.parts[-1]) == STEPS


async def test_a_window_makes_segments_that_the_engine_saw(tmp_path: Path) -> None:
    history = {"policy": "hysteresis", "keep": 2, "batch": 1}
    row, simulator = await rollout(tmp_path, history=history)
    assert (row["mask_sample"], row["num_turns"]) == (False, STEPS)
    segments = sequences(row)
    assert 1 < len(segments) < STEPS
    for prompt in simulator.prompts:
        assert any(tokens[: len(prompt)] == prompt for tokens in segments)
