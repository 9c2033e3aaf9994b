"""What every source of browsers does alike: local ones, remote ones, and lent ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Error

from resources_servers.browser_gym.browser import remote_cdp
from resources_servers.browser_gym.browser.backend import (
    BackendHealth,
    BrowserBackend,
    BrowserSpec,
    BrowserUnavailable,
    PoolFull,
)
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.browser.remote_cdp import RemoteCdp
from resources_servers.browser_gym.browser.session_providers.choose import session_provider
from resources_servers.browser_gym.tests.remote_browsers import LendingService, running_chromium
from tests.simulators.http_server import serve
from tests.started import Started
from tests.waiting import eventually

SPEC = BrowserSpec(800, 600, "de-DE", "Asia/Tokyo")


@dataclass
class Source:
    """Makes backends, and kills the browser behind a lease."""

    new: Callable[..., BrowserBackend]
    kill: Callable[[Any], Awaitable[None]]

    @asynccontextmanager
    async def running(self, **limits: Any) -> AsyncIterator[BrowserBackend]:
        backend = self.new(**{"max_sessions": 4, "queue_limit": 4, "queue_timeout_s": 60, **limits})
        try:
            await backend.start()
            yield backend
        finally:
            await backend.close()


@asynccontextmanager
async def _local() -> AsyncIterator[Source]:
    async def kill(lease: Any) -> None:
        lease.process.main.kill()

    yield Source(lambda **limits: LocalPool(find_chromium(), processes=1, **limits), kill)


@asynccontextmanager
async def _static() -> AsyncIterator[Source]:
    async with AsyncExitStack() as stack:
        chromiums = [await stack.enter_async_context(running_chromium()) for _ in range(2)]

        async def kill(lease: Any) -> None:
            chromiums[int(lease.session.session_id.rpartition("#")[2])].kill()

        def new(**limits: Any) -> BrowserBackend:
            endpoints = [chromiums[0].endpoint, chromiums[1].http_endpoint]
            provider = session_provider("static_cdp", {"endpoints": endpoints})
            return RemoteCdp(provider, **limits)

        yield Source(new, kill)


@asynccontextmanager
async def _rest() -> AsyncIterator[Source]:
    service = LendingService()
    with serve(service.app()) as url, pytest.MonkeyPatch.context() as patch:
        # A request that is not answered in time is sent again; on a busy machine none is to be.
        patch.setattr(remote_cdp, "RELEASE_TIMEOUT_S", 120)

        async def kill(lease: Any) -> None:
            service.running[lease.session.session_id].kill()

        def new(**limits: Any) -> BrowserBackend:
            options = {
                "create": {"url": f"{url}/sessions", "body": {"metadata": "{labels}"}},
                "endpoint": "connect.url",
                "delete": {"url": f"{url}/sessions/{{id}}"},
            }
            return RemoteCdp(session_provider("rest", options), **limits)

        yield Source(new, kill)
        # Whatever a test did: each session was ended, and none twice.
        assert not service.running
        assert sorted(service.deleted) == sorted(service.created)


@pytest.fixture(scope="module", params=[_local, _static, _rest], ids=["local", "static", "rest"])
async def source(request: pytest.FixtureRequest) -> AsyncIterator[Source]:
    async with request.param() as source:
        yield source


async def until(backend: BrowserBackend, check: Callable[[BackendHealth], bool]) -> None:
    async def holds() -> bool:
        return check(await backend.health())

    await eventually(holds)


async def test_leases_share_nothing_and_end_once(source: Source, site: str) -> None:
    async with source.running() as backend:
        one, two = await asyncio.gather(backend.acquire(SPEC), backend.acquire(SPEC))
        pages = [await lease.context.new_page() for lease in (one, two)]
        for page in pages:
            await page.goto(f"{site}/links.html")
        await pages[0].evaluate("localStorage.only = 'one'")
        await one.context.add_cookies([{"name": "only", "value": "one", "url": site}])
        assert await pages[1].evaluate("Object.keys(localStorage)") == ["page"]
        assert await two.context.cookies() == []
        shown = await pages[1].evaluate(
            "[innerWidth, innerHeight, devicePixelRatio, navigator.language,"
            " Intl.DateTimeFormat().resolvedOptions().timeZone]"
        )
        assert shown == [800, 600, 1, "de-DE", "Asia/Tokyo"]
        health = await backend.health()
        assert (health.sessions, health.max_sessions, health.queued) == (2, 4, 0)
        assert sum(browser["sessions"] for browser in health.browsers) == 2
        assert find_chromium().version in health.chromium
        await asyncio.gather(one.release(), one.release())
        await one.release()
        assert (await backend.health()).sessions == 1
        with pytest.raises(Error):
            await pages[0].evaluate("1")
        assert await pages[1].evaluate("1 + 1") == 2
        assert not two.lost


async def test_callers_queue_within_bounds(source: Source) -> None:
    async with source.running(max_sessions=1, queue_limit=1) as backend:
        lease = await backend.acquire(SPEC)
        waiting = asyncio.create_task(backend.acquire(SPEC))
        await until(backend, lambda health: health.queued == 1)
        with pytest.raises(PoolFull) as full:
            await backend.acquire(SPEC)
        assert full.value.fault.kind == "provider_quota_exhausted"
        assert full.value.retry_after_s
        waiting.cancel()
        await until(backend, lambda health: health.queued == 0)
        waiting = asyncio.create_task(backend.acquire(SPEC))
        await until(backend, lambda health: health.queued == 1)
        await lease.release()
        await (await waiting).release()
    async with source.running(max_sessions=1, queue_timeout_s=0.1) as backend:
        await backend.acquire(SPEC)
        with pytest.raises(PoolFull, match=r"within 0\.1 s"):
            await backend.acquire(SPEC)
        assert (await backend.health()).queued == 0


async def test_cancelled_acquires_leave_nothing_behind(source: Source) -> None:
    async with source.running(max_sessions=2) as backend:
        await (await backend.acquire(SPEC)).release()
        for delay_s in [0, 0.01, 0.05, 0.2, 0.4]:
            acquires = [asyncio.create_task(backend.acquire(SPEC)) for _ in range(2)]
            await asyncio.sleep(delay_s)  # the moments of an acquire have no event to wait for
            for acquire in acquires:
                acquire.cancel()
            for outcome in await asyncio.gather(*acquires, return_exceptions=True):
                if not isinstance(outcome, BaseException):
                    await outcome.release()
        leases = [await backend.acquire(SPEC), await backend.acquire(SPEC)]
        assert (await backend.health()).sessions == 2
        for lease in leases:
            await lease.release()
        await until(backend, lambda health: not any(b["sessions"] for b in health.browsers))


async def test_a_killed_browser_is_a_lost_lease_and_is_replaced(source: Source) -> None:
    async with source.running() as backend:
        lease = await backend.acquire(SPEC)
        page = await lease.context.new_page()
        await source.kill(lease)
        with contextlib.suppress(Error):
            await page.wait_for_event("close")
        await eventually(lambda: _is_lost(lease))
        with pytest.raises(Error):
            await page.evaluate("1")
        await lease.release()
        other = await backend.acquire(SPEC)
        assert await (await other.context.new_page()).evaluate("1 + 1") == 2
        assert not other.lost
        assert (await backend.health()).sessions == 1


async def test_close_releases_everything(source: Source) -> None:
    started = Started()
    async with source.running(max_sessions=2) as backend:
        assert started.drivers()
        leases = [await backend.acquire(SPEC), await backend.acquire(SPEC)]
        waiting = asyncio.create_task(backend.acquire(SPEC))
        await until(backend, lambda health: health.queued == 1)
        waiting.cancel()
        await backend.close()
        assert (await backend.health()).sessions == 0
        assert not started.drivers()
        for lease in leases:
            await lease.release()
            with pytest.raises(Error):
                await lease.context.new_page()
        with pytest.raises(BrowserUnavailable, match="shut down"):
            await backend.acquire(SPEC)
        await backend.close()


async def _is_lost(lease: Any) -> bool:
    return lease.lost
