"""A finished session: what is graded is fixed at the first finish."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser import final_state
from resources_servers.browser_gym.browser.backend import BrowserLost, BrowserUnavailable
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.browser.tabs import Tabs
from resources_servers.browser_gym.session import (
    Opening,
    Owner,
    Session,
    SessionError,
    SessionSettings,
)
from resources_servers.browser_gym.session_ids import ChosenSessions
from resources_servers.browser_gym.sessions import Sessions
from tests.waiting import eventually


@pytest.fixture(scope="module")
async def sessions() -> AsyncIterator[Sessions]:
    pool = LocalPool(
        find_chromium(), processes=1, max_sessions=2, queue_limit=0, queue_timeout_s=60
    )
    sessions = Sessions(pool, SessionSettings(allow_private_addresses=True))
    await sessions.start()
    yield sessions
    await sessions.close()


async def opened(sessions: Sessions, site: str) -> str:
    session, _ = await sessions.seed(Opening(f"{site}/links.html", 1280, 720))
    return session.session_id


async def in_use(sessions: Sessions) -> int:
    return (await sessions._backend.health()).sessions


async def test_the_first_finish_is_what_is_graded(sessions: Sessions, site: str) -> None:
    session_id = await opened(sessions, site)
    second = act.Navigate(type="navigate", url=f"{site}/second.html")
    _, seen = await sessions.step(session_id, [second], "before")

    first, again = await asyncio.gather(
        sessions.finish(session_id, "first"), sessions.finish(session_id, "second")
    )
    assert first is again
    assert (first.answer, first.state.url) == ("first", f"{site}/second.html")
    assert first.state.final[site] == {"page": "links", "second": "visited"}

    results, shown = await sessions.step(session_id, [act.Reload(type="reload"), second], "after")
    assert [result.status for result in results] == ["error", "not_run"]
    assert "finished before" in (results[0].error or "")
    assert (shown.image, shown.url) == (seen.image, seen.url)
    repeated, _ = await sessions.step(session_id, [second], "before")
    assert [result.status for result in repeated] == ["ok"]
    state, _ = await sessions.dump(session_id)
    assert state is first.state

    assert await sessions.conclude(session_id, "third") is first
    assert await in_use(sessions) == 0
    with pytest.raises(SessionError, match="verified before"):
        await sessions.finish(session_id, "fourth")


async def test_a_finish_waits_for_the_step_before_it(sessions: Sessions, site: str) -> None:
    session_id = await opened(sessions, site)
    second = act.Navigate(type="navigate", url=f"{site}/second.html")
    stepping = asyncio.create_task(sessions.step(session_id, [second]))
    await asyncio.sleep(0)  # the step has been asked for
    finished = await sessions.finish(session_id, "")
    assert finished.state.final[site]["second"] == "visited"
    results, _ = await stepping
    assert results[0].status == "ok"
    await sessions.end(session_id)


async def test_a_session_that_is_closed_while_it_is_read_is_not_graded(
    sessions: Sessions, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await opened(sessions, site)
    leave = final_state._leave_pages

    async def close_first(tabs: Tabs) -> bool:
        await sessions.end(session_id)
        return await leave(tabs)  # runs no unload handlers any more, and so nothing is saved

    monkeypatch.setattr(final_state, "_leave_pages", close_first)
    with pytest.raises(SessionError, match="closed before"):
        await sessions.conclude(session_id)
    assert await in_use(sessions) == 0


async def test_idle_time_begins_once_the_start_page_is_shown(sessions: Sessions, site: str) -> None:
    asked_at = time.monotonic()
    session, _ = await sessions.seed(Opening(f"{site}/slow-page/500", 1280, 720))
    assert session.last_used - asked_at >= 0.5
    await sessions.end(session.session_id)


async def test_a_shutdown_ends_what_is_being_opened_and_opens_no_more(site: str) -> None:
    pool = LocalPool(
        find_chromium(), processes=1, max_sessions=1, queue_limit=9, queue_timeout_s=60
    )
    sessions = Sessions(pool, SessionSettings())
    chosen = ChosenSessions(sessions)
    await sessions.start()
    url = f"{site}/slow-page/25000"

    def seed(name: str) -> asyncio.Task[Session]:
        opening = Opening(url, 800, 600)
        return asyncio.create_task(chosen.seed(name, Owner("e", "t"), opening))

    async def begun() -> bool:
        health = await pool.health()
        return (health.sessions, health.queued) == (1, 1)

    seeds = [seed("a"), seed("b")]
    await eventually(begun)
    closing = asyncio.create_task(sessions.close())
    await asyncio.sleep(0)
    seeds.append(seed("late"))
    for seeding in seeds:
        with pytest.raises(BrowserUnavailable, match="shutting down"):
            await seeding
    await closing
    assert (pool._slots.taken, pool._slots.queued, pool.gateways._of) == (0, 0, {})


async def test_a_finish_outlives_its_caller_and_its_browser(sessions: Sessions, site: str) -> None:
    session_id = await opened(sessions, site)
    finishing = asyncio.create_task(sessions.finish(session_id, "mine"))
    await asyncio.sleep(0)  # it has been asked for
    finishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finishing
    finished = await sessions.finish(session_id, "another's")
    await sessions._open[session_id].lease.context.close()
    with pytest.raises(BrowserLost):
        await sessions.dump(session_id, ["cookies"])
    assert await sessions.conclude(session_id) is finished
    assert finished.answer == "mine"
    assert await in_use(sessions) == 0
