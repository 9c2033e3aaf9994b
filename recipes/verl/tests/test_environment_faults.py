# pyright: reportMissingImports=false
"""What the environment does wrong is never a reward: another session, else masked or left out."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from recipes.verl.baseline import VALID
from recipes.verl.tests.rollouts import (
    CLICK,
    DONE,
    LOGPROB,
    RunningEnvironment,
    ScriptedServer,
    action,
    agent_loop,
    running_environment,
)

SAMPLING = {"logprobs": True}


def check_masked(output: Any, kind: str) -> None:
    assert output.extra_fields[VALID] is False
    assert output.extra_fields["reward_extra_info"] == {VALID: 0.0}
    assert output.extra_fields["failure_kind"] == kind
    assert output.reward_score == 0
    assert output.response_mask == [0]
    assert output.response_logprobs == [0]


async def test_a_lost_browser_means_another_session_or_no_reward(
    environment: RunningEnvironment, processor: Any
) -> None:
    async def browser_dies() -> str:
        environment.kill_browsers()
        return CLICK

    async def run(*replies: Any, **settings: Any) -> tuple[Any, ScriptedServer]:
        server = ScriptedServer(processor.tokenizer, list(replies))
        loop = agent_loop(environment.url, processor, server, **settings)
        return await loop.run(SAMPLING, task=json.dumps(environment.task())), server

    output, server = await run(CLICK, browser_dies, CLICK, DONE, resamples=1)
    assert output.reward_score == 1
    assert output.extra_fields[VALID] is True
    # Only what was sampled in the session that was graded is trained on.
    again = server.asked[2:]
    assert output.prompt_ids == again[0].prompt_ids
    assert sum(output.response_mask) == sum(len(asked.sampled) for asked in again)
    assert sum(output.response_logprobs) == LOGPROB * sum(output.response_mask)

    output, _ = await run(browser_dies, browser_dies, resamples=1)
    check_masked(output, "session_lost")
    output, _ = await run(browser_dies, resamples=0, on_fault="drop")
    assert output == []
    assert environment.sessions() == 0


async def test_a_step_that_takes_too_long_is_a_fault_of_the_environment(
    environment: RunningEnvironment, processor: Any
) -> None:
    server = ScriptedServer(processor.tokenizer, [action(action="wait", time=20)])
    loop = agent_loop(environment.url, processor, server, step_timeout_s=0.5, resamples=0)
    output = await loop.run(SAMPLING, task=json.dumps(environment.task()))
    check_masked(output, "transport_timeout")
    assert environment.sessions() == 0


async def test_what_another_session_would_not_mend_is_not_tried_again(
    environment: RunningEnvironment, processor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = ScriptedServer(processor.tokenizer, [])
    loop = agent_loop(environment.url, processor, server, resamples=5)
    with caplog.at_level(logging.WARNING, "recipes.verl.agent_loop"):
        task = environment.task(verifier="no such verifier")
        output = await loop.run(SAMPLING, task=json.dumps(task))
    check_masked(output, "agent_request_failed")
    assert [record.message for record in caplog.records if "task t failed" in record.message] != []
    assert len(caplog.records) == 1


async def test_a_verdict_that_is_masked_is_no_reward(
    environment: RunningEnvironment, processor: Any
) -> None:
    task = environment.task(verifier="gym_api", gym_url="http://127.0.0.1:9")
    del task["verifier_metadata"]["assertions"]
    server = ScriptedServer(processor.tokenizer, [DONE])
    loop = agent_loop(environment.url, processor, server, resamples=0)
    output = await loop.run(SAMPLING, task=json.dumps(task))
    check_masked(output, "transport_unreachable")


async def test_a_full_server_and_one_that_starts_again(
    environment: RunningEnvironment, processor: Any
) -> None:
    task = environment.task()
    secret: dict[str, Any] = {"auth_token": "hush"}
    with ExitStack() as servers:
        first = servers.enter_context(
            running_environment(**secret, max_sessions=1, queue_timeout_s=0.1)
        )
        headers = {"authorization": "Bearer hush"}
        async with httpx.AsyncClient(base_url=first.url, headers=headers, timeout=60) as http:
            seeded = await http.post("/seed_session", json=task)
            server = ScriptedServer(processor.tokenizer, [])
            impatient: dict[str, Any] = {"queue_timeout_s": 0.01}
            loop = agent_loop(first.url, processor, server, **secret, **impatient)
            output = await loop.run(SAMPLING, task=json.dumps(task))
            check_masked(output, "provider_quota_exhausted")
            loop = agent_loop(first.url, processor, server, auth_token="wrong")
            output = await loop.run(SAMPLING, task=json.dumps(task))
            check_masked(output, "agent_request_failed")
            # With time to wait, it has its turn when the browser is free.
            server = ScriptedServer(processor.tokenizer, [DONE])
            loop = agent_loop(first.url, processor, server, **secret)
            waiting = asyncio.create_task(loop.run(SAMPLING, task=json.dumps(task)))
            await http.post("/close", json={"env_id": seeded.json()["env_id"]})
            output = await waiting
            assert not isinstance(output, list)
            assert output.reward_score == 1

        async def starts_again() -> str:
            first.process.kill()
            first.process.wait()
            port = int(first.url.rpartition(":")[2])
            servers.enter_context(running_environment(port, **secret))
            return CLICK

        server = ScriptedServer(processor.tokenizer, [starts_again, DONE])
        loop = agent_loop(first.url, processor, server, resamples=1, **secret)
        output = await loop.run(SAMPLING, task=json.dumps(task))
        assert not isinstance(output, list)
        assert output.reward_score == 1
        assert sum(output.response_mask) == len(server.asked[1].sampled)
