"""Fixtures shared by every test folder: a Chromium pool, a web site and the resources server."""

import inspect
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from fastapi import FastAPI

from tests.failures import forget_pages, keep_pages, watch_contexts
from tests.simulators.http_server import serve
from tests.site import create_site
from tests.started import Started

MAX_WORKERS = 8
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` tests with.

    One more than there are cores, as tests mostly wait; few enough for the memory that each one's
    Chromium takes.
    """
    return min((os.process_cpu_count() or 1) + 1, MAX_WORKERS)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin as in a terminal, without what failures of an earlier run have left."""
    # A shell lets what it runs in the background ignore Ctrl-C, and so all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(session.config, "workerinput"):  # the processes of `-n` share one folder
        forget_pages()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the tests of the whole stack: with `--dist loadfile`, one process runs them."""
    items.sort(key=lambda item: item.get_closest_marker("whole_stack") is None)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            # Last set up, first ended: the pages of a failed test are still open then.
            item.fixturenames.append(keep_pages_of_a_failed_test.__name__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test failed, for the fixtures that end after it."""
    report = yield
    item.stash[FAILED] = report.failed
    return report


@pytest.fixture
async def keep_pages_of_a_failed_test(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Keep what the pages show in `results/tests`, if the test fails."""
    yield
    if request.node.stash.get(FAILED, False):
        await keep_pages(request.node.nodeid)


@pytest.fixture(scope="session", autouse=True)
def watched_contexts() -> Iterator[None]:
    """Watch the browser contexts of all tests, for what is kept of those that fail."""
    with pytest.MonkeyPatch.context() as patch:
        watch_contexts(patch)
        yield


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Base URL of the test pages."""
    with serve(create_site()) as url:
        yield url


RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 0,
    "model": "m",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
"""A model's response without a message, as `/verify` wants one."""


def build_server(server_client: Any = None, **config: Any) -> FastAPI:
    """Build a resources server's app; `server_client` is for those that ask other servers."""
    # Imported here, as it takes seconds that most test files need not wait.
    from nemo_gym.server_utils import ServerClient

    from resources_servers.browser_gym.app import BrowserGymConfig, BrowserGymServer

    base = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "browser_gym"}
    # All test sites are on loopback; the tests of what a page may reach set this to False.
    base |= {"domain": "agent", "allow_private_addresses": True, "evidence_dir": None}
    # Most tests need one Chromium, and no contexts for sessions to come.
    base |= {"browser_processes": 1, "warm_contexts": 0}
    settings = BrowserGymConfig.model_validate(base | config)
    server = BrowserGymServer(
        config=settings, server_client=server_client or MagicMock(spec=ServerClient)
    )
    app = server.setup_webserver()
    if settings.expose_tools_over_mcp:
        from nemo_gym.mcp_auto_exposure import maybe_auto_expose

        maybe_auto_expose(server, app)
    return app


class Client:
    """Speaks HTTP with a resources server; remembers the sessions to close."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.opened: list[str] = []

    async def post(self, path: str, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
        """Post and return the JSON answer, after checking the status."""
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def seed(self, url: str, **fields: Any) -> dict[str, Any]:
        """Open a session."""
        seeded = await self.post("/seed_session", {"start_url": url, **fields})
        self.opened.append(seeded["env_id"])
        return seeded

    async def step(self, env_id: str, *actions: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Run a batch."""
        return await self.post("/step", {"env_id": env_id, "actions": list(actions), **fields})

    async def sessions(self) -> int:
        """Return how many sessions are open."""
        return (await self.http.get("/health")).json()["sessions"]

    async def storage(self, env_id: str) -> dict[str, Any]:
        """Return the answer of `/dump_local_storage`."""
        return await self.post("/dump_local_storage", {"env_id": env_id})


@asynccontextmanager
async def running_client(**config: Any) -> AsyncIterator[Client]:
    """Start a resources server and a client for it."""
    async with AsyncExitStack() as stack:
        app = build_server(**config)
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://gym", timeout=120)
        )
        yield Client(http)


@pytest.fixture(scope="session")
async def shared_client() -> AsyncIterator[Client]:
    """One resources server for all tests that only need sessions of their own."""
    # Most tests thus run on warm contexts, as most sessions do.
    async with running_client(max_sessions=8, warm_contexts=4) as client:
        yield client


@pytest.fixture
async def client(shared_client: Client) -> AsyncIterator[Client]:
    """A client whose sessions are closed after the test."""
    yield shared_client
    for env_id in shared_client.opened:
        await shared_client.http.post("/close", json={"env_id": env_id})
    shared_client.opened.clear()


ClientFactory = Callable[..., Awaitable[Client]]


@pytest.fixture
async def new_client() -> AsyncIterator[ClientFactory]:
    """Start resources servers with configurations of their own."""
    async with AsyncExitStack() as stack:

        async def start(**config: Any) -> Client:
            return await stack.enter_async_context(running_client(**config))

        yield start


@pytest.fixture
def started() -> Started:
    """The processes that the test starts."""
    return Started()
