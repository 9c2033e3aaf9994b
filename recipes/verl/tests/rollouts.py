# pyright: reportMissingImports=false
"""What the tests of the agent loop have in common: a server of tokens, and the environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import hydra
import psutil
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from recipes.verl.agent_loop import BrowserGymAgentLoop

ROOT = Path(__file__).resolve().parents[3]
LOGPROB = -0.25
TARGET = f"{BrowserGymAgentLoop.__module__}.{BrowserGymAgentLoop.__qualname__}"

Reply = str | Callable[[], Awaitable[str]]


def action(**fields: Any) -> str:
    """Return a reply of Qwen's that calls one action."""
    call = json.dumps({"name": "computer_use", "arguments": fields})
    return f"<tool_call>\n{call}\n</tool_call>"


CLICK = action(action="left_click", coordinate=[100, 60])
DONE = action(action="answer", text="done")


@dataclass
class Asked:
    """A request for tokens."""

    prompt_ids: list[int]
    sampling_params: dict[str, Any]
    images: list[Any]
    sampled: list[int] = field(default_factory=list)


class ScriptedServer:
    """In place of verl's rollout servers: samples what it is told to, letter by letter.

    Letters are not how the tokenizer would write the text: tokens that were rendered again differ.
    """

    def __init__(self, tokenizer: Any, replies: Sequence[Reply]) -> None:
        self._tokenizer = tokenizer
        self._replies = iter(replies)
        self.asked: list[Asked] = []

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **more: Any,
    ) -> TokenOutput:
        asked = Asked(list(prompt_ids), sampling_params, list(more["image_data"] or []))
        self.asked.append(asked)
        reply = next(self._replies)
        text = reply if isinstance(reply, str) else await reply()
        ids = [i for letter in text for i in self._tokenizer.encode(letter)]
        asked.sampled = [*ids, self._tokenizer.eos_token_id][: sampling_params["max_tokens"]]
        return TokenOutput(
            token_ids=asked.sampled,
            log_probs=[LOGPROB] * len(asked.sampled),
            stop_reason="completed",
            extra_fields={"min_global_steps": 7, "max_global_steps": 7 + len(self.asked)},
        )


@dataclass
class RunningEnvironment:
    """The environment server in a process of its own."""

    url: str
    site: str
    process: subprocess.Popen[bytes]

    def kill_browsers(self) -> None:
        """Kill its Chromium."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if "chrom" in child.name():
                child.kill()

    def sessions(self) -> int:
        """Return how many sessions are open."""
        return httpx.get(f"{self.url}/health", timeout=60).json()["sessions"]

    def task(self, page: str = "counter.html", **metadata: Any) -> dict[str, Any]:
        """Return a task row; its reward is 1 for the answer `done`."""
        return {
            "responses_create_params": {"input": [{"role": "user", "content": "Click."}]},
            "verifier_metadata": {
                "task_id": "t",
                "start_url": f"{self.site}/{page}",
                "viewport": {"width": 640, "height": 480},
                "verifier": "local_storage",
                "assertions": [{"title": "the answer", "answer_equals": "done"}],
                **metadata,
            },
        }


@contextmanager
def running_environment(port: int = 0, **settings: Any) -> Iterator[RunningEnvironment]:
    """Serve the environment with the project's own Python."""
    command = [str(ROOT / ".venv/bin/python"), "-m", "recipes.verl.tests.serve_environment"]
    process = subprocess.Popen(
        [*command, str(port), json.dumps({"browser_processes": 1, "max_sessions": 4, **settings})],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield RunningEnvironment(**json.loads(process.stdout.readline()), process=process)
    finally:
        running = process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True) if running else []
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in children:
            if child.is_running():
                child.kill()


def agent_loop(
    url: str,
    processor: Any,
    server: Any,
    lengths: tuple[int, int] = (4096, 8192),
    **settings: Any,
) -> BrowserGymAgentLoop:
    """Return an agent loop as verl makes one.

    Args:
        url: of the environment.
        processor: of the model.
        server: of tokens.
        lengths: the most tokens of a prompt and of what follows it.
        settings: of the agent loop.
    """
    rollout = {"prompt_length": lengths[0], "response_length": lengths[1]}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    given = {"server_url": url, "policy": "qwen3_vl", "resample_delay_s": 0, **settings}
    return hydra.utils.instantiate(
        config=OmegaConf.create({"_target_": TARGET, "settings": given}),
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=processor.tokenizer,
        processor=processor,
        hf_model_type="qwen2_5_vl",
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=None,
    )
