"""More runs than browsers: whether all are valid, and the browsers always busy."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
from fastapi import Body, FastAPI

from benchmarks.measure import Figures, figure, ratio
from conftest import RESPONSE
from responses_api_agents.browser_agent.tests.stack import running_agent, served_environment
from tests.simulators.http_server import serve

BROWSERS = 4
RUNS = 64
ROUNDS = 3
TURNS = 4
THINKS_S = 0.3

Json = dict[str, Any]


async def collection(url: str) -> Figures:
    """Rollouts per second of 64 runs at once against as many runs as there are browsers.

    `collect64_busy` is the share of the time that a browser belonged to a run, of all browsers; a
    little of it is after the browser was given on, while a run is graded.
    """
    rates: dict[int, list[float]] = {RUNS: [], BROWSERS: []}
    busy, invalid = [], 0
    async with AsyncExitStack() as stack:
        environment_url = stack.enter_context(
            served_environment(max_sessions=BROWSERS, browser_processes=2, warm_contexts=16)
        )
        model_url = stack.enter_context(serve(_model()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="collection-")))
        agent = running_agent(environment_url, model_url, folder, model="m", state="stateless")
        http = await stack.enter_async_context(agent)
        await _run(http, url)  # warms up
        for _ in range(ROUNDS):
            for at_once, found in rates.items():
                free, started = asyncio.Semaphore(at_once), time.monotonic()
                rows = await asyncio.gather(*(_in_turn(free, http, url) for _ in range(RUNS)))
                seconds = time.monotonic() - started
                found.append(RUNS / seconds)
                invalid += sum(row["mask_sample"] or row["reward"] != 1 for row in rows)
                if at_once == RUNS:
                    held = sum(row["total_seconds"] - row["queue_seconds"] for row in rows)
                    busy.append(held / seconds / BROWSERS)
    return {
        **figure("collect64_rollouts_per_s", rates[RUNS]),
        **ratio("collect64_vs_4", rates[RUNS], rates[BROWSERS]),
        **figure("collect64_busy", busy),
        "collect64_invalid": invalid,
    }


async def _in_turn(free: asyncio.Semaphore, http: httpx.AsyncClient, url: str) -> Json:
    async with free:
        return await _run(http, url)


async def _run(http: httpx.AsyncClient, url: str) -> Json:
    metadata: Json = {
        "task_id": "T",
        "start_url": url,
        "verifier": "local_storage",
        "assertions": [{"title": "Nothing is stored", "only_changed": []}],
    }
    params = {"input": [{"role": "user", "content": "Click."}]}
    row = {"responses_create_params": params, "verifier_metadata": metadata}
    return (await http.post("/run", json=row, timeout=600)).raise_for_status().json()


def _model() -> FastAPI:
    """Return a model server that thinks, clicks a few times and ends."""
    app = FastAPI()

    async def respond(body: Json = Body()) -> Json:
        await asyncio.sleep(THINKS_S)
        turn = sum(item.get("type") == "computer_call_output" for item in body["input"])
        click = {"type": "click", "button": "left", "x": 100, "y": 40}
        call = {"type": "computer_call", "id": "i", "call_id": f"c{turn}", "actions": [click]}
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        end = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        item = (call | {"pending_safety_checks": []}) if turn < TURNS else end
        return RESPONSE | {"output": [item | {"status": "completed"}], "status": "completed"}

    app.post("/v1/responses")(respond)
    return app
