"""Fixtures of the tests that run episodes in real browsers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from responses_api_agents.browser_agent.tests.stack import (
    Stack,
    running_stack,
    served_environment,
)
from tests.simulators.openai_scripts import Policy

Start = Callable[..., Awaitable[Stack]]


@pytest.fixture(scope="session")
def environment() -> Iterator[str]:
    """A resources server over real HTTP, with contexts opened ahead of need."""
    with served_environment(max_sessions=4, warm_contexts=2) as url:
        yield url


@pytest.fixture
async def start(environment: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Start the rest of a stack around a policy; afterwards no session may be open."""
    async with AsyncExitStack() as stack:

        async def _start(policy: Policy, **config: Any) -> Stack:
            url = config.pop("environment_url", environment)
            return await stack.enter_async_context(running_stack(policy, url, tmp_path, **config))

        yield _start
    async with httpx.AsyncClient(base_url=environment) as http:
        sessions = (await http.get("/health")).json()["sessions"]
    assert sessions == 0, "a rollout left its session open"
