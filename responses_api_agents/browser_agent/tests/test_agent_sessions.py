"""Turns in a session that NeMo Gym's environment server opens, has graded and closes."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from environment_servers.single_agent_turn_legacy.app import (
    SingleAgentTurnEnvironmentServerConfig,
    SingleAgentTurnLegacyEnvironmentServer,
)
from fastapi import FastAPI

from responses_api_agents.browser_agent.tests.fake_vllm import FakeVllm
from responses_api_agents.browser_agent.tests.stack import (
    _address,
    running_agent,
    running_stack,
    served_environment,
    server_client,
)
from tests.simulators import openai_scripts as scripts
from tests.simulators.http_server import serve
from tests.simulators.openai_scripts import click, computer_call, message, script
from tests.waiting import eventually

SECOND = click(60, 40)  # the link to the second page
SEEN = {"title": "second page seen", "query": "second", "equals": "visited"}
# Of two runs of the same task, these differ.
NOT_THE_SAME = {
    *("response", "turns", "first_observation", "env_id", "instance_config", "verifier_metadata"),
    *("model_seconds", "browser_seconds", "queue_seconds", "verify_seconds", "total_seconds"),
    "failure_reason",
}


@pytest.fixture(scope="module")
def environment() -> Iterator[str]:
    with served_environment(max_sessions=2) as url:
        yield url


@asynccontextmanager
async def served_here(app: FastAPI) -> AsyncIterator[str]:
    """Serve an app over real HTTP from this event loop, which NeMo Gym's one client belongs to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        serving = asyncio.create_task(server._serve([listener]))

        async def started() -> bool:
            return server.started

        await eventually(started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def single_turn(
    agent: httpx.AsyncClient, environment: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Start NeMo Gym's environment server around an agent and a resources server."""
    assert isinstance(agent._transport, httpx.ASGITransport)
    async with served_here(agent._transport.app) as agent_url:  # type: ignore[arg-type]
        config = SingleAgentTurnEnvironmentServerConfig.model_validate(
            {
                "host": "127.0.0.1",
                "port": 1,
                "entrypoint": "app.py",
                "name": "single_turn",
                "resources_server": {"type": "resources_servers", "name": "browser_gym"},
                "agent_server": {"type": "responses_api_agents", "name": "browser_openai_agent"},
                "resources_tool_transports": ["direct_http"],
                "cleanup_timeout_seconds": 30,
            }
        )
        servers = {
            "browser_gym": _address(environment, "resources_servers"),
            "browser_openai_agent": _address(agent_url, "responses_api_agents"),
        }
        server = SingleAgentTurnLegacyEnvironmentServer(
            config=config, server_client=server_client(servers)
        )
        transport = httpx.ASGITransport(app=server.setup_webserver())
        async with httpx.AsyncClient(transport=transport, base_url="http://e", timeout=60) as http:
            yield http


async def sessions(environment: str) -> int:
    async with httpx.AsyncClient(base_url=environment) as http:
        return (await http.get("/health")).json()["sessions"]


def row_of(site: str) -> dict[str, Any]:
    metadata = {
        "task_id": "T-1",
        "start_url": f"{site}/links.html",
        "verifier": "local_storage",
        "assertions": [SEEN, {"title": "answer", "answer_contains": ["There"]}],
    }
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "Open it."}]},
        "verifier_metadata": metadata,
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
    }


def shape(value: Any) -> Any:
    """What a record tells of, without the ids and times that differ from run to run."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("fails", [False, True])
async def test_rows_of_both_ways_hold_the_same(
    environment: str,
    site: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fails: bool,
) -> None:
    caplog.set_level(logging.INFO, "resources_servers.browser_gym.sessions")

    async def play(single: bool) -> dict[str, Any]:
        policy = script([computer_call(SECOND)], [message("There it is.")])

        def played(turn: scripts.SimTurn) -> Any:
            if fails and turn.number == 0:
                stack.simulator.fail_next(scripts.hang())
            return policy(turn)

        # The first reply comes in time.
        model = {"timeout_s": 5 if fails else 30}
        async with AsyncExitStack() as exits:
            running = running_stack(played, environment, tmp_path, model_server_config=model)
            stack = await exits.enter_async_context(running)
            http = stack.http
            if single:
                http = await exits.enter_async_context(single_turn(http, environment))
            answered = await http.post("/run", json=row_of(site))
        assert answered.status_code == 200, answered.text
        assert await sessions(environment) == 0
        return answered.json()

    legacy, single = await play(False), await play(True)
    opened = [record.getMessage() for record in caplog.records if "is open" in record.getMessage()]
    assert len(opened) == 2
    assert all("episode_id='3-1' task_id='T-1'" in line for line in opened), opened
    assert single.pop("agent_ref") == {"name": "browser_openai_agent"}
    assert single["response"].keys() == legacy["response"].keys()
    expected = ("transport_timeout", "failure", 1) if fails else (None, "finished", 2)
    for row in (legacy, single):
        assert (row["failure_kind"], row["termination_reason"], row["num_turns"]) == expected
        assert (row["reward"], row["mask_sample"]) == ((0, True) if fails else (1, False))
    # Which rollout it was, the collector tells.
    legacy = {key: value for key, value in legacy.items() if not key.startswith("_ng_")}
    if fails:
        assert legacy.keys() < single.keys()  # which went through the verifier's answer too
    else:
        assert legacy.keys() == single.keys()
    for key in legacy.keys() - NOT_THE_SAME:
        assert legacy[key] == single[key], key
    for key in ("turns", "first_observation"):
        assert shape(legacy[key]) == shape(single[key])


@pytest.mark.parametrize("drifting_at", [None, 1])
async def test_rows_of_both_ways_hold_the_same_tokens(
    environment: str, site: str, tmp_path: Path, drifting_at: int | None
) -> None:
    """Of calls, of words, and up to where the prompts drift."""
    point = {"action": "left_click", "coordinate": [500, 500]}
    function = {"name": "computer_use", "arguments": json.dumps(point)}
    call = {"id": "c1", "type": "function", "function": function}
    replies: list[dict[str, Any]] = [{"tool_calls": [call]}, {"content": "Hm."}]
    answer = {"name": "computer_use", "arguments": {"action": "answer", "text": "There"}}
    replies.append({"content": f"<tool_call>{json.dumps(answer)}</tool_call>"})
    rows = []
    for single in (False, True):
        server = FakeVllm(replies.__getitem__, drifting_at=drifting_at)
        async with AsyncExitStack() as exits:
            url = exits.enter_context(serve(server.app))
            config = {"adapter": "policy", "policy": "qwen3_vl", "model": "policy"}
            running = running_agent(environment, url, tmp_path, **config)
            http = await exits.enter_async_context(running)
            if single:
                http = await exits.enter_async_context(single_turn(http, environment))
            answered = await http.post("/run", json=row_of(site))
        assert answered.status_code == 200, answered.text
        rows.append(answered.json())
        fields = server.tokens[0].keys()
        output = rows[-1]["response"]["output"]
        on_items = [{n: item[n] for n in fields} for item in output if item.keys() >= fields]
        assert on_items == server.tokens[:drifting_at]
    legacy, single = rows
    kind = None if drifting_at is None else "browser_gym:tokens_not_contiguous"
    assert [row["failure_kind"] for row in rows] == [kind, kind]
    assert [row["mask_sample"] for row in rows] == [kind is not None] * 2
    (segment,) = legacy["segments"]
    assert len(segment["steps"]) == (drifting_at or 3)
    for key in ("segments", "responses_create_params"):
        assert legacy[key] == single[key]
    assert legacy["response"]["agent_input"] == single["response"]["agent_input"]


class AgentSession:
    """An agent session, and the browser session it has access to, driven by hand."""

    def __init__(self, name: str, agent: httpx.AsyncClient, environment: str, site: str) -> None:
        self.name = name
        self.agent = agent
        self.environment = httpx.AsyncClient(base_url=environment, timeout=60)
        self.base_url = environment
        self.episode = {"rollout_id": "0-0", "attempt": 0}
        self.task = {"taskset": "tests", "task_id": "T-1"}
        self.row = row_of(site)

    async def open(self) -> None:
        seed = {"resources_session_id": self.name, "episode_id": self.episode}
        seed |= {"task_id": self.task, "task_data": {"verifier_metadata": self._metadata}}
        answered = await self.environment.post("/seed_session", json=seed)
        assert answered.status_code == 200, answered.text
        access = {"name": "browser", "required": True, "base_url": self.base_url}
        answered = await self.seed([access | {"cookies": dict(answered.cookies)}])
        assert answered.status_code == 200, answered.text

    @property
    def _metadata(self) -> dict[str, Any]:
        return self.row["verifier_metadata"]

    async def seed(self, accesses: list[dict[str, Any]]) -> httpx.Response:
        body = {"agent_session_id": self.name, "episode_id": self.episode, "task_id": self.task}
        direct = [{"kind": "direct_http", **access} for access in accesses]
        return await self.agent.post("/v1/agent_sessions", json=body | {"tool_accesses": direct})

    async def turn(self, text: str = "Open it.") -> httpx.Response:
        return await self.agent.post("/v1/responses", json={"input": text, "temperature": None})

    async def close(self) -> None:
        body = {"agent_session_id": self.name, "episode_id": self.episode}
        answered = await self.agent.post("/v1/agent_sessions/close", json=body)
        assert answered.status_code == 200, answered.text

    async def close_browser(self) -> None:
        body = {"resources_session_id": self.name, "episode_id": self.episode}
        answered = await self.environment.post("/close_session", json=body)
        assert answered.status_code == 200, answered.text
        await self.environment.aclose()


async def test_a_repeated_turn_is_the_same_turn(
    environment: str, site: str, tmp_path: Path
) -> None:
    policy = script([computer_call(SECOND)], [message("There it is.")])
    async with running_stack(policy, environment, tmp_path) as stack:
        session = AgentSession("repeated", stack.http, environment, site)
        refused = await session.seed([])
        assert (refused.status_code, "direct_http" in refused.text) == (422, True)
        await session.open()
        leaving = asyncio.create_task(session.turn())
        await asyncio.sleep(0)
        first, second = await asyncio.gather(session.turn(), session.turn())
        assert first.json() == second.json() == (await leaving).json()
        assert first.json()["browser_episode"]["final_answer"] == "There it is."
        assert len(stack.simulator.requests) == 2
        assert "temperature" not in stack.simulator.requests[0].body
        refused = await session.turn("Something else.")
        assert (refused.status_code, "one turn" in refused.text) == (409, True)
        await session.close()
        assert (await session.turn()).status_code == 409
        assert await sessions(environment) == 1  # it is another's to close
        await session.close_browser()
    assert await sessions(environment) == 0


async def test_more_than_one_worker_is_refused(environment: str, site: str, tmp_path: Path) -> None:
    async with running_stack(script(), environment, tmp_path, num_workers=2) as stack:
        session = AgentSession("workers", stack.http, environment, site)
        with pytest.raises(ValueError, match="num_workers=1"):
            await session.open()
        await session.close_browser()


async def test_a_close_ends_the_turn_that_runs(environment: str, site: str, tmp_path: Path) -> None:
    async with running_stack(script(), environment, tmp_path) as stack:
        stack.simulator.fail_next(scripts.hang())
        session = AgentSession("hanging", stack.http, environment, site)
        await session.open()
        turn = asyncio.create_task(session.turn())

        async def asked() -> bool:
            return bool(stack.simulator.requests)

        await eventually(asked)
        await session.close()
        ended = await turn
        assert (ended.status_code, "closed during its turn" in ended.text) == (409, True)
        await session.close_browser()
    assert await sessions(environment) == 0


async def test_a_browser_session_that_is_gone_is_told(
    environment: str, site: str, tmp_path: Path
) -> None:
    async with running_stack(script(), environment, tmp_path) as stack:
        session = AgentSession("gone", stack.http, environment, site)
        await session.open()
        await session.close_browser()
        told = (await session.turn()).json()["browser_episode"]
        await session.close()
    assert (told["failure_kind"], told["termination_reason"]) == ("session_lost", "failure")
    assert "closed before" in told["failure_reason"]
