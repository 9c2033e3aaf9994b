"""NeMo Gym's own agent works the element tools on the demo tasks."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from nemo_gym import server_utils
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig
from responses_api_agents.simple_agent.app import (  # pyright: ignore[reportMissingImports]
    SimpleAgent,
    SimpleAgentConfig,
)

from responses_api_agents.browser_agent.tests.stack import (
    served_environment,
    served_script,
    server_client,
)
from scripts.demo import free_port

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "resources_servers/browser_gym/demo_gym/element_solutions.json"
TASKS = [json.loads(line) for line in (ROOT / "data/element_tasks.jsonl").read_text().splitlines()]


class Stack:
    """A simple_agent between the environment and the scripted model."""

    def __init__(self, environment: httpx.AsyncClient, agent: httpx.AsyncClient, port: int) -> None:
        self.environment, self.agent, self.gym_port = environment, agent, port

    async def run(self, task: dict[str, Any]) -> dict[str, Any]:
        """Do what the agent's `/run` does, which would call itself over HTTP."""
        row = json.loads(json.dumps(task).replace(":8777", f":{self.gym_port}"))
        seeded = await self._post(self.environment, "/seed_session", row)
        cookies = dict(seeded.cookies)
        params = row["responses_create_params"]
        answered = await self._post(self.agent, "/v1/responses", params, cookies)
        row["response"] = answered.json()
        return (await self._post(self.environment, "/verify", row, cookies)).json()

    async def _post(
        self,
        http: httpx.AsyncClient,
        path: str,
        body: dict[str, Any],
        cookies: dict[str, str] | None = None,
    ) -> httpx.Response:
        http.cookies = cookies or {}
        answer = await http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer


@pytest.fixture(scope="module")
async def stack() -> AsyncIterator[Stack]:
    gym_port = free_port()
    with ExitStack() as servers:
        environment_url = servers.enter_context(served_environment(demo_gym_port=gym_port))
        urls = {
            "browser_gym": environment_url,
            "policy_model": servers.enter_context(served_script(SCRIPTS)),
        }
        config = SimpleAgentConfig.model_validate(
            {
                "host": "127.0.0.1",
                "port": 1,
                "entrypoint": "app.py",
                "name": "browser_simple_agent",
                "resources_server": {"type": "resources_servers", "name": "browser_gym"},
                "model_server": {"type": "responses_api_models", "name": "policy_model"},
            }
        )
        addresses = {
            name: {"any": {"any": {"host": "127.0.0.1", "port": urlsplit(url).port}}}
            for name, url in urls.items()
        }
        agent = SimpleAgent(config=config, server_client=server_client(addresses))
        if not server_utils.is_global_aiohttp_client_setup():
            server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
        transport = httpx.ASGITransport(app=agent.setup_webserver())
        async with (
            httpx.AsyncClient(base_url=environment_url, timeout=120) as http,
            httpx.AsyncClient(transport=transport, base_url="http://agent", timeout=120) as asked,
        ):
            yield Stack(http, asked, gym_port)


@pytest.mark.parametrize("task", TASKS, ids=[t["verifier_metadata"]["task_id"] for t in TASKS])
async def test_a_model_without_vision_solves_a_task(stack: Stack, task: dict[str, Any]) -> None:
    row = await stack.run(task)
    items = row["response"]["output"]
    outputs = [item["output"] for item in items if item["type"] == "function_call_output"]
    assert not [output for output in outputs if output.startswith(("error", "{"))]
    assert outputs[-1].startswith("the task is finished")
    assert row["reward"] == 1
    assert row["final_answer"] == ("Ingrid Solberg" if "larger budget" in json.dumps(task) else "")
