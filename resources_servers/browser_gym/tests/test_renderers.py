"""Under `clock: step` a session's renderer processes stand still between steps, and only then."""

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from conftest import RESPONSE, Client, running_client
from resources_servers.browser_gym.browser import pool
from resources_servers.browser_gym.browser.chromium import launch_args
from tests.started import Started, ended, is_stopped, renderers
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
LOOK = {"type": "screenshot"}


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Client]:
    async with running_client(clock="step", max_sessions=16, warm_contexts=0) as client:
        yield client


@pytest.fixture
async def client(server: Client) -> AsyncIterator[Client]:
    yield server
    for env_id in server.opened:
        await server.http.post("/close", json={"env_id": env_id})
    server.opened.clear()
    await stand_still(0)


def stopped() -> set[psutil.Process]:
    return {process for process in renderers() if is_stopped(process)}


async def stand_still(*numbers: int) -> None:
    """Wait until so many are stopped; a process that runs takes a moment to notice."""

    async def is_so() -> bool:
        return len(stopped()) in numbers

    await eventually(is_so)


async def test_a_renderer_stands_still_between_steps(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/clock.html")
    await stand_still(1)
    # It does in the middle of a step what it is told to, and is stopped again.
    for _ in range(3):
        answer = await client.step(seeded["env_id"], {"type": "click", "x": 60, "y": 100})
        assert answer["settled"]
        await stand_still(1)
    assert (await client.storage(seeded["env_id"]))["local_storage_dump"] == "{}"
    await stand_still(1)


async def test_sixteen_sessions_at_once(client: Client, site: str) -> None:
    seeded = await asyncio.gather(*(client.seed(f"{site}/clock.html") for _ in range(16)))
    ids = [answer["env_id"] for answer in seeded]
    look = [client.step(env_id, {"type": "click", "x": 60, "y": 160}) for env_id in ids]
    answers = await asyncio.gather(*look)
    assert {answer["title"] for answer in answers} == {'{"frames":60}'}
    await stand_still(16)


async def test_new_renderers_are_found(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tab, another site in a frame and another site in a tab each bring a process."""
    # As a full Chromium does by itself: frames of another site have a process of their own.
    monkeypatch.setattr(
        pool, "launch_args", lambda root: [*launch_args(root), "--site-per-process"]
    )
    other = site.replace("127.0.0.1", "localhost")
    async with running_client(clock="step") as client:
        env_id = (await client.seed(f"{site}/clock.html"))["env_id"]
        await client.step(env_id, {"type": "new_tab", "url": f"{site}/clock-frames.html"})
        await stand_still(3)
        await client.step(env_id, {"type": "navigate", "url": f"{other}/clock.html"})
        await stand_still(2, 3)  # the process of the page that was left ends by itself
        answer = await client.step(env_id, {"type": "close_tab"})
        assert answer["title"] == "Clock"
        await stand_still(1)


async def test_a_renderer_that_dies_while_it_stands_still_is_a_crash(
    client: Client, site: str
) -> None:
    env_id = (await client.seed(f"{site}/clock.html"))["env_id"]
    other = (await client.seed(f"{site}/clock.html"))["env_id"]
    before = stopped()
    await client.step(other, LOOK)
    env_ids = {env_id, other}
    victim = before.pop()
    victim.send_signal(signal.SIGKILL)
    answers = {env_id: await client.step(env_id, LOOK) for env_id in env_ids}
    kinds = [[event["type"] for event in answer["events"]] for answer in answers.values()]
    assert sorted(kinds) == [[], ["crash"]]
    assert all(answer["title"] == "Clock" for answer in answers.values())
    await stand_still(2)


async def test_a_session_that_stands_still_ends_at_once(client: Client, site: str) -> None:
    ids = [(await client.seed(f"{site}/clock.html"))["env_id"] for _ in range(3)]
    metadata = {"verifier": "local_storage", "assertions": [{"title": "t", "only_changed": []}]}
    params = {"responses_create_params": {"input": "x"}, "response": RESPONSE}
    row = {"verifier_metadata": metadata, "env_id": ids[0], **params}
    graded = await client.post("/verify", row)
    assert (graded["reward"], graded.get("mask_sample", False)) == (1.0, False)
    assert (await client.post("/close", {"env_id": ids[1]}))["success"]
    await stand_still(1)


async def test_a_page_in_an_endless_loop_is_stopped_too(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/clock.html"))["env_id"]
    answer = await client.step(env_id, {"type": "click", "x": 60, "y": 580})
    assert not answer["settled"]

    await stand_still(1)
    assert (await client.post("/close", {"env_id": env_id}))["success"]


async def test_nothing_is_left_when_the_server_is_killed(site: str) -> None:
    """Not even a stopped renderer, which would not notice that its Chromium has gone."""
    script = f"""
        import asyncio, os, sys
        sys.path.insert(0, {str(ROOT)!r})
        from conftest import running_client
        async def main():
            async with running_client(clock="step") as client:
                await client.seed({site!r} + "/clock.html")
                print("seeded", flush=True)
                await asyncio.sleep(600)
        asyncio.run(main())
    """
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(script), stdout=subprocess.PIPE, cwd=ROOT
    )
    assert server.stdout
    try:
        async with asyncio.timeout(60):
            while b"seeded" not in await server.stdout.readline():
                pass
        children = psutil.Process(server.pid).children(recursive=True)

        async def one_stopped() -> bool:
            return any(map(is_stopped, children))

        await eventually(one_stopped)
    finally:
        server.kill()
        await server.wait()

    await ended(*children)


async def test_shutdown_with_stopped_renderers_leaves_no_process(
    site: str, started: Started
) -> None:
    async with running_client(clock="step", browser_processes=2) as client:
        await asyncio.gather(*(client.seed(f"{site}/clock.html") for _ in range(3)))
    await started.all_end()


async def test_a_killed_chromium_takes_only_its_own_sessions(site: str, started: Started) -> None:
    async with running_client(clock="step", browser_processes=2) as client:
        seeded = await asyncio.gather(*(client.seed(f"{site}/clock.html") for _ in range(4)))
        one, _ = started.chromiums()
        one.kill()
        ids = [answer["env_id"] for answer in seeded]
        requests = [{"env_id": env_id, "actions": [LOOK]} for env_id in ids]
        answers = [await client.http.post("/step", json=request) for request in requests]
        assert sorted(answer.status_code for answer in answers) == [200, 200, 410, 410]
