"""Warm contexts, recycling, frozen processes, and what /health and /metrics tell about them."""

import asyncio
import dataclasses
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from playwright._impl import transport
from prometheus_client.parser import text_string_to_metric_families

from conftest import RESPONSE, Client, ClientFactory, build_server, running_client
from resources_servers.browser_gym import session as session_module
from resources_servers.browser_gym.browser import pool as pool_module
from resources_servers.browser_gym.browser import process as process_module
from resources_servers.browser_gym.browser.backend import (
    BackendHealth,
    BrowserSpec,
    BrowserUnavailable,
)
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.pool import LocalLease, LocalPool
from tests.started import Started, ended, kill, renderers
from tests.waiting import eventually

SPEC = BrowserSpec(800, 600, "en-US", "UTC")
PoolFactory = Callable[..., Awaitable[LocalPool]]


@pytest.fixture
async def new_pool() -> AsyncIterator[PoolFactory]:
    async with AsyncExitStack() as stack:

        async def start(**config: Any) -> LocalPool:
            limits = {"processes": 1, "max_sessions": 4, "queue_limit": 4, "queue_timeout_s": 60}
            pool = LocalPool(find_chromium(), **{**limits, **config})
            stack.push_async_callback(pool.close)
            await pool.start()
            return pool

        yield start


async def until(pool: LocalPool, check: Callable[[BackendHealth], bool]) -> None:
    async def holds() -> bool:
        return check(await pool.health())

    await eventually(holds)


async def warmed(pool: LocalPool, count: int = 1) -> None:
    """Ask twice for the usual spec, and wait for the contexts opened ahead."""
    for _ in range(2):
        await (await pool.acquire(SPEC)).release()
    await until(pool, lambda health: health.warm == count)


# ---- warm contexts ----


async def test_warm_context_is_used_and_replaced(new_pool: PoolFactory) -> None:
    pool = await new_pool(warm_contexts=2)
    await warmed(pool, 2)
    lease = await pool.acquire(SPEC)
    assert [page.url for page in lease.context.pages] == ["about:blank"]
    await until(pool, lambda health: health.warm == 2)
    other = await pool.acquire(SPEC)
    assert other.context is not lease.context
    health = await pool.health()
    assert (health.sessions, [b["sessions"] for b in health.browsers]) == (2, [2])


async def test_warm_contexts_take_no_slot(new_pool: PoolFactory) -> None:
    pool = await new_pool(warm_contexts=2, max_sessions=1)
    await warmed(pool, 2)
    lease = await pool.acquire(SPEC)
    waiting = asyncio.create_task(pool.acquire(SPEC))
    await until(pool, lambda health: health.queued == 1 and health.warm == 2)
    await lease.release()
    assert (await waiting).context.pages


async def test_no_warm_context_is_handed_out_twice(new_pool: PoolFactory) -> None:
    pool = await new_pool(warm_contexts=2, max_sessions=8)
    await warmed(pool, 2)
    leases = await asyncio.gather(*(pool.acquire(SPEC) for _ in range(8)))
    assert len({id(lease.context) for lease in leases}) == 8
    await asyncio.gather(*(lease.release() for lease in leases))


async def test_a_burst_finds_as_many_warm_contexts_as_the_last_one_used(
    new_pool: PoolFactory,
) -> None:
    pool = await new_pool(warm_contexts=3, max_sessions=8)
    await warmed(pool, 2)
    leases = await asyncio.gather(*(pool.acquire(SPEC) for _ in range(4)))
    await asyncio.gather(*(lease.release() for lease in leases[:3]))
    await until(pool, lambda health: health.warm == 3)
    await leases[3].release()
    burst = await asyncio.gather(*(pool.acquire(SPEC) for _ in range(4)))
    assert sorted(len(lease.context.pages) for lease in burst) == [0, 1, 1, 1]
    await until(pool, lambda health: health.warm == 2)


async def test_no_warm_contexts_when_turned_off(new_pool: PoolFactory) -> None:
    pool = await new_pool(warm_contexts=0)
    leases = [await pool.acquire(SPEC) for _ in range(3)]
    assert [lease.context.pages for lease in leases] == [[], [], []]
    assert (await pool.health()).warm == 0


@pytest.mark.parametrize(
    "other",
    [
        BrowserSpec(801, 600, "en-US", "UTC"),
        BrowserSpec(800, 600, "de-DE", "UTC"),
        BrowserSpec(800, 600, "en-US", "Asia/Tokyo"),
    ],
)
async def test_another_spec_gets_no_warm_context(new_pool: PoolFactory, other: BrowserSpec) -> None:
    pool = await new_pool(warm_contexts=1)
    await warmed(pool)
    lease = await pool.acquire(other)
    assert (await pool.health()).warm == 0
    page = await lease.context.new_page()
    shown = await page.evaluate(
        "[innerWidth, navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone]"
    )
    assert shown == [other.width, other.locale, other.timezone]
    # Once it was asked for again, it is what the next ones are for.
    await pool.acquire(other)
    await until(pool, lambda health: health.warm == 1)
    assert (await pool.acquire(other)).context.pages


async def test_sessions_on_warm_contexts_share_nothing(
    new_client: ClientFactory, site: str
) -> None:
    client = await new_client(browser_processes=1, warm_contexts=2)
    leave_marks = f"{site}/second.html"
    for _ in range(2):
        await client.seed(f"{site}/links.html")
    for _ in range(3):
        await eventually(lambda: _warm(client, 2))
        seeded = await client.seed(f"{site}/links.html")
        assert (seeded["title"], seeded["settled"], seeded["events"]) == ("Links", True, [])
        assert [tab["tab_id"] for tab in seeded["tabs"]] == ["tab-1"]
        storage = await client.storage(seeded["env_id"])
        assert storage["local_storage_dump"] == '{"page": "links"}'
        await client.step(seeded["env_id"], {"type": "navigate", "url": leave_marks})
        back = await client.step(seeded["env_id"], {"type": "go_back"})
        first = await client.step(seeded["env_id"], {"type": "go_back"})
        assert (back["error"], first["error"]) == (None, "go_back: there is no earlier page")


async def test_cookies_do_not_reach_a_warm_context(new_pool: PoolFactory, site: str) -> None:
    pool = await new_pool(warm_contexts=1)
    await warmed(pool)
    one = await pool.acquire(SPEC)
    await one.context.pages[0].goto(f"{site}/links.html")
    await one.context.add_cookies([{"name": "a", "value": "1", "url": site}])
    await until(pool, lambda health: health.warm == 1)
    two = await pool.acquire(SPEC)
    await two.context.pages[0].goto(f"{site}/second.html")
    assert await two.context.cookies() == []
    assert await two.context.pages[0].evaluate("Object.keys(localStorage)") == ["second"]


async def test_warm_contexts_die_with_their_process(
    new_pool: PoolFactory, started: Started
) -> None:
    pool = await new_pool(warm_contexts=1)
    await warmed(pool)
    (chromium,) = started.chromiums()
    chromium.kill()
    await until(pool, lambda health: health.warm == 0)
    lease = await pool.acquire(SPEC)
    assert not lease.lost
    assert await (await lease.context.new_page()).evaluate("1 + 1") == 2
    assert (await pool.health()).restarts == 1
    await until(pool, lambda health: health.warm == 1)


async def test_warm_page_that_crashed_is_not_used(new_pool: PoolFactory, started: Started) -> None:
    pool = await new_pool(warm_contexts=1)
    await warmed(pool)
    kill(renderers())
    await until(pool, lambda health: health.warm == 0)


async def test_nothing_warm_is_left_after_shutdown(started: Started) -> None:
    pool = LocalPool(
        find_chromium(),
        processes=2,
        max_sessions=4,
        queue_limit=0,
        queue_timeout_s=60,
        warm_contexts=3,
    )
    await pool.start()
    for _ in range(2):
        await (await pool.acquire(SPEC)).release()
    await until(pool, lambda health: health.warm == 1)
    # Filling is under way now, and is ended too.
    await pool.close()
    assert (await pool.health()).warm == 0
    await started.all_end()


# ---- cancellation ----


async def test_cancelled_acquires_leave_the_counts_as_they_were(new_pool: PoolFactory) -> None:
    pool = await new_pool(warm_contexts=1, max_sessions=2, processes=2)
    for delay_s in [0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4]:
        acquires = [asyncio.create_task(pool.acquire(SPEC)) for _ in range(3)]
        await asyncio.sleep(delay_s)  # the moments of an acquire have no event to wait for
        for acquire in acquires:
            acquire.cancel()
        for outcome in await asyncio.gather(*acquires, return_exceptions=True):
            if isinstance(outcome, LocalLease):
                await outcome.release()
        await until(pool, _is_idle)
    leases = [await pool.acquire(SPEC), await pool.acquire(SPEC)]
    assert (await pool.health()).sessions == 2
    await asyncio.gather(*(lease.release() for lease in leases))


def _is_idle(health: BackendHealth) -> bool:
    return (health.sessions, health.queued) == (0, 0) and not any(
        browser["sessions"] for browser in health.browsers
    )


async def test_a_driver_that_dies_as_it_starts_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = LocalPool(
        find_chromium(), processes=1, max_sessions=1, queue_limit=0, queue_timeout_s=60
    )
    with monkeypatch.context() as patch:
        patch.setattr(transport, "compute_driver_executable", lambda: ("true", ""))
        with pytest.raises(BrowserUnavailable, match="driver"):
            await pool.acquire(SPEC)
    await (await pool.acquire(SPEC)).release()
    await pool.close()


async def test_a_driver_that_dies_takes_its_gateways_along(
    new_pool: PoolFactory, started: Started
) -> None:
    pool = await new_pool()
    through_gateway = dataclasses.replace(SPEC, direct=())
    leases = [await pool.acquire(through_gateway) for _ in range(2)]
    kill(started.drivers())

    async def lost() -> bool:
        return leases[0].lost

    await eventually(lost)
    await leases[0].release()
    assert pool.gateways._of == {}
    await leases[1].release()


async def test_a_context_that_cannot_be_closed_is_given_back_once(new_pool: PoolFactory) -> None:
    pool = await new_pool(max_sessions=1, queue_limit=0)
    lease = await pool.acquire(SPEC)

    async def fail() -> None:
        raise RuntimeError("the handler is closed")  # uvloop, of a driver that has just died

    lease.context.close = fail  # type: ignore[method-assign]
    for _ in range(2):
        await lease.release()
    await (await pool.acquire(SPEC)).release()
    await until(pool, lambda health: health.restarts == 1 and len(health.browsers) == 1)


# ---- recycling ----


async def test_process_is_recycled_once_its_last_session_ends(
    new_pool: PoolFactory, started: Started
) -> None:
    pool = await new_pool(recycle_after_sessions=2, warm_contexts=1)
    (first,) = started.chromiums()
    living = await pool.acquire(SPEC)
    await (await pool.acquire(SPEC)).release()
    third = await pool.acquire(SPEC)
    assert third.process is not living.process
    assert first.is_running()
    assert await (await living.context.new_page()).evaluate("1 + 1") == 2
    health = await pool.health()
    assert (health.recycled, health.restarts) == (1, 0)
    assert sorted(b["retired"] for b in health.browsers) == [False, True]
    await living.release()
    await until(pool, lambda health: len(health.browsers) == 1)
    await ended(first)
    assert await (await third.context.new_page()).evaluate("1 + 1") == 2


async def test_recycling_goes_on_with_warm_contexts(new_pool: PoolFactory) -> None:
    pool = await new_pool(recycle_after_sessions=2, warm_contexts=2)
    for _ in range(6):
        lease = await pool.acquire(SPEC)
        page = lease.context.pages[0] if lease.context.pages else await lease.context.new_page()
        assert await page.evaluate("1 + 1") == 2
        await lease.release()
    assert (await pool.health()).recycled == 3
    await until(pool, lambda health: len(health.browsers) == 1)


async def test_process_that_has_grown_is_recycled(new_pool: PoolFactory, started: Started) -> None:
    pool = await new_pool(recycle_above_mb=1)
    (first,) = started.chromiums()
    living, ending = await pool.acquire(SPEC), await pool.acquire(SPEC)
    await ending.release()
    await until(pool, lambda health: health.recycled == 1)
    assert (await pool.acquire(SPEC)).process is not living.process
    assert await (await living.context.new_page()).evaluate("1 + 1") == 2
    await living.release()
    await ended(first)
    assert (await pool.health()).restarts == 0


# ---- frozen processes ----


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CONTEXT_TIMEOUT_S", 2)
    monkeypatch.setattr(process_module, "CLOSE_TIMEOUT_S", 2)
    monkeypatch.setattr(session_module, "_FIRST_TAB_TIMEOUT_S", 2)


@pytest.mark.usefixtures("short_timeouts")
async def test_frozen_chromium_is_retired(
    new_client: ClientFactory, site: str, started: Started
) -> None:
    client = await new_client(browser_processes=1, warm_contexts=0)
    (frozen,) = started.chromiums()
    frozen.send_signal(signal.SIGSTOP)
    body = {"start_url": f"{site}/links.html"}
    answer = await client.post("/seed_session", body, status=503)
    assert answer["failure_kind"] == "provider_unavailable"
    assert (await client.seed(f"{site}/links.html"))["title"] == "Links"
    health = await _health(client)
    assert (health["status"], health["sessions"], health["restarts"]) == ("ok", 1, 1)
    await ended(frozen)


@pytest.mark.usefixtures("short_timeouts")
async def test_warm_contexts_of_a_frozen_chromium_cost_one_seed(
    new_client: ClientFactory, site: str, started: Started
) -> None:
    client = await new_client(browser_processes=1, warm_contexts=2)
    for _ in range(2):
        await client.post("/close", {"env_id": (await client.seed(f"{site}/links.html"))["env_id"]})
    await eventually(lambda: _warm(client, 2))
    (frozen,) = started.chromiums()
    frozen.send_signal(signal.SIGSTOP)
    answer = await client.post("/seed_session", {"start_url": f"{site}/links.html"}, status=410)
    assert "did not answer in time" in answer["failure_reason"]
    assert (await client.seed(f"{site}/links.html"))["title"] == "Links"
    assert (await _health(client))["restarts"] == 1
    await ended(frozen)


@pytest.mark.usefixtures("short_timeouts")
async def test_chromium_that_freezes_under_a_session_is_retired(
    new_pool: PoolFactory, started: Started
) -> None:
    pool = await new_pool(warm_contexts=1)
    await warmed(pool)
    lease = await pool.acquire(SPEC)
    (frozen,) = started.chromiums()
    frozen.send_signal(signal.SIGSTOP)
    with pytest.raises(BrowserUnavailable):
        await pool.acquire(BrowserSpec(801, 600, "en-US", "UTC"))
    assert not lease.process.retired
    await lease.release()
    assert lease.process.retired
    assert not (await pool.acquire(SPEC)).process.retired
    assert (await pool.health()).restarts == 1


@pytest.mark.usefixtures("short_timeouts")
async def test_shutdown_ends_a_frozen_chromium(started: Started) -> None:
    async with running_client(browser_processes=1):
        (frozen,) = started.chromiums()
        tree = [frozen, *frozen.children(recursive=True)]
        frozen.send_signal(signal.SIGSTOP)
    await ended(*tree)


# ---- /health and /metrics ----


async def test_health_tells_memory(new_client: ClientFactory, site: str) -> None:
    client = await new_client(browser_processes=2, warm_contexts=0)
    await client.seed(f"{site}/links.html")
    health = await _health(client)
    running, not_started = health["browsers"]
    assert running["rss_mb"] > 50
    assert not_started["rss_mb"] == 0
    assert health["rss_mb"] == running["rss_mb"]
    assert (health["warm"], health["restarts"], health["recycled"]) == (0, 0, 0)


async def test_metrics_count_what_was_done(new_client: ClientFactory, site: str) -> None:
    client, other = await new_client(browser_processes=1), build_server()
    began = time.monotonic()
    seeded = await client.seed(f"{site}/links.html")
    await client.step(seeded["env_id"], {"type": "screenshot"})
    await client.step(seeded["env_id"], {"type": "click", "x": -1, "y": -1})
    await client.post("/seed_session", {"start_url": "ftp://host/"}, status=422)
    await client.post("/seed_session", {"start_url": f"{site}/no-such-page"}, status=503)
    took_s = time.monotonic() - began
    counts = await _metrics(client)
    assert counts["browser_gym_seeds_total", "ok"] == 1
    assert counts["browser_gym_seeds_total", "agent_request_failed"] == 1
    assert counts["browser_gym_seeds_total", "provider_unavailable"] == 1
    assert counts["browser_gym_steps_total", ""] == 2
    assert counts["browser_gym_seed_seconds_count", ""] == 1
    assert 0 < counts["browser_gym_seed_seconds_sum", ""] < took_s
    for phase in ("act", "settle", "capture"):
        assert counts["browser_gym_step_seconds_count", phase] == 2
    assert counts["browser_gym_step_seconds_sum", "capture"] > 0
    assert counts["browser_gym_sessions", ""] == 1
    assert counts["browser_gym_queued", ""] == 0
    assert counts["browser_gym_browsers", ""] == 1
    assert ("browser_gym_warm", "") in counts
    assert counts["browser_gym_restarts_total", ""] == 0
    assert counts["browser_gym_recycled_total", ""] == 0
    # Another server in this process counts for itself.
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(other.router.lifespan_context(other))
        http = httpx.AsyncClient(transport=httpx.ASGITransport(other), base_url="http://gym")
        await stack.enter_async_context(http)
        assert (await _metrics(Client(http)))["browser_gym_steps_total", ""] == 0


@pytest.mark.parametrize(
    ("equals", "env_id", "outcome"),
    [("links", None, "passed"), ("x", None, "failed"), ("links", "nobody", "session_lost")],
)
async def test_metrics_count_verdicts(
    new_client: ClientFactory, site: str, equals: str, env_id: str | None, outcome: str
) -> None:
    client = await new_client(browser_processes=1, warm_contexts=0)
    metadata = {
        "task_id": "T",
        "start_url": f"{site}/links.html",
        "verifier": "local_storage",
        "assertions": [{"title": "a", "query": "page", "equals": equals}],
    }
    seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
    row = {
        "responses_create_params": {"input": []},
        "response": RESPONSE,
        "verifier_metadata": metadata,
        "env_id": env_id or seeded["env_id"],
    }
    await client.post("/verify", row)
    counts = await _metrics(client)
    verdicts = {label: n for (name, label), n in counts.items() if name == VERIFIES}
    assert verdicts == {outcome: 1}


VERIFIES = "browser_gym_verifies_total"


async def _health(client: Client) -> dict[str, Any]:
    return (await client.http.get("/health")).json()


async def _warm(client: Client, count: int) -> bool:
    return (await _health(client))["warm"] == count


async def _metrics(client: Client) -> dict[tuple[str, str], float]:
    """Every sample of /metrics by its name and its label's value, buckets left out."""
    answer = await client.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }
