"""Sessions whose ids their callers choose: NeMo Gym's resources sessions over HTTP."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.testing.session_conformance import check_resources_session_contract

from conftest import RESPONSE, Client, ClientFactory, build_server
from resources_servers.browser_gym import session_ids
from resources_servers.browser_gym.browser.backend import BrowserSpec
from resources_servers.browser_gym.browser.pool import LocalLease, LocalPool
from resources_servers.browser_gym.session_ids import ClosedIds
from resources_servers.browser_gym.tests.fake_gym import FakeGym, answer
from tests.simulators.http_server import serve
from tests.waiting import eventually

SEEN = {"title": "second page seen", "query": "second", "equals": "visited"}
SCREENSHOT = {"action": {"type": "screenshot"}}


def task_data(start_url: str, **metadata: Any) -> dict[str, Any]:
    task = {"start_url": start_url, "verifier": "local_storage", "assertions": [SEEN]}
    return {"verifier_metadata": task | metadata}


def seed_body(
    session_id: str, start_url: str, episode: str = "3-1", task: str = "T-1"
) -> dict[str, Any]:
    return {
        "resources_session_id": session_id,
        "episode_id": {"rollout_id": episode, "attempt": 0},
        "task_id": {"taskset": "tests", "task_id": task},
        "task_data": task_data(start_url),
    }


def close_body(session_id: str, episode: str = "3-1") -> dict[str, Any]:
    return {"resources_session_id": session_id, "episode_id": {"rollout_id": episode}}


async def nothing_open(client: Client) -> bool:
    return await client.sessions() == 0


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """A resources server over real HTTP."""
    with serve(build_server(max_sessions=2)) as url:
        yield url


async def test_nemo_gyms_own_check_of_the_contract(served: str, site: str) -> None:
    app = FastAPI()  # the browsers live in the server's own event loop, so it is asked over HTTP

    @app.post("/{path}")
    async def forward(path: str, request: Request) -> Response:
        async with httpx.AsyncClient(timeout=60) as http:
            headers = {"content-type": request.headers["content-type"]}
            body = await request.body()
            answered = await http.post(f"{served}/{path}", content=body, headers=headers)
        return Response(answered.content, answered.status_code)

    seed = ResourcesSeedSessionRequest.model_validate(seed_body("r-1", f"{site}/links.html"))
    await asyncio.to_thread(check_resources_session_contract, app, seed, keeps_state=True)
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{served}/health")).json()["sessions"] == 0


async def test_a_caller_who_hangs_up_during_a_seed(served: str, site: str) -> None:
    slow = f"{site}/slow-page/3000"
    async with httpx.AsyncClient(base_url=served, timeout=60) as http:

        async def open_sessions() -> int:
            return (await http.get("/health")).json()["sessions"]

        async def hang_up_in_the_middle(body: dict[str, Any]) -> None:
            async with httpx.AsyncClient(base_url=served) as leaving:
                request = asyncio.create_task(leaving.post("/seed_session", json=body))

                async def begun() -> bool:
                    return await open_sessions() == 1

                await eventually(begun)
                request.cancel()
                await asyncio.wait([request])
                assert request.cancelled()

        async def nothing() -> bool:
            return await open_sessions() == 0

        # Nobody knows the id of this one.
        await hang_up_in_the_middle({"start_url": slow})
        await eventually(nothing)
        # The caller chose the id of this one, and asks again.
        await hang_up_in_the_middle(seed_body("left", slow))
        again = await http.post("/seed_session", json=seed_body("left", slow))
        assert (again.status_code, again.json()["resources_session_id"]) == (200, "left")
        assert await open_sessions() == 1
        assert (await http.post("/close_session", json=close_body("left"))).status_code == 200
        assert await open_sessions() == 0


async def test_a_session_from_seed_to_close(client: Client, site: str) -> None:
    body = seed_body("whole", f"{site}/links.html")
    seeds = [client.post("/seed_session", body) for _ in range(3)]
    answers = await asyncio.gather(*seeds, client.post("/seed_session", body))
    assert {answered["resources_session_id"] for answered in answers} == {"whole"}
    assert await client.sessions() == 1

    # By the cookie and by the id.
    first = await client.post("/observation", {})
    assert (first["env_id"], first["title"], first["viewport_width"]) == ("whole", "Links", 1280)
    assert first["screenshot"]
    assert await client.post("/observation", {"env_id": "whole"}) == first
    second = {"type": "navigate", "url": f"{site}/second.html"}
    assert (await client.post("/step", {"action": second}))["title"] == "Second"
    assert (await client.post("/observation", {}))["title"] == "Second"
    assert (await client.step("whole", {"type": "go_back"}))["title"] == "Links"
    dump = await client.post("/dump_local_storage", {})
    assert dump["origins"][site]["second"] == "visited"

    for other in ({"episode": "3-2"}, {"task": "T-2"}):
        refused = await client.post(
            "/seed_session", seed_body("whole", f"{site}/links.html", **other), 409
        )
        assert refused["failure_kind"] == "agent_request_failed"
        assert "belongs to episode 3-1, task tests/T-1" in refused["failure_reason"]
    refused = await client.post("/close_session", close_body("whole", "3-2"), 409)
    assert "belongs to episode 3-1, not 3-2" in refused["failure_reason"]

    rollout = task_data(f"{site}/links.html") | {"responses_create_params": {"input": "Do it."}}
    told = {"failure_kind": "agent_run_error", "failure_reason": "it fell", "turns": [1]}
    row = await client.post("/verify", rollout | {"response": RESPONSE | {"browser_episode": told}})
    assert (row["mask_sample"], row["failure_kind"]) == (True, "agent_run_error")
    told = {"failure_kind": "x" * 99, "failure_reason": "no http://ann:word@h/"}
    row = await client.post("/verify", rollout | {"response": RESPONSE | {"browser_episode": told}})
    assert row["failure_reason"] == "no http://***@h/"
    metrics = (await client.http.get("/metrics")).text
    assert 'outcome="other"' in metrics
    assert "xxx" not in metrics
    for malformed in ([1], {"failure_kind": ["x"]}, {"total_seconds": "long"}):
        response = RESPONSE | {"browser_episode": malformed}
        refused = await client.post("/verify", rollout | {"response": response}, 422)
        assert refused["detail"][0]["loc"][:3] == ["body", "response", "browser_episode"]
    told = {"final_answer": "done", "turns": [1], "total_seconds": 5, "reward": 7}
    row = await client.post("/verify", rollout | {"response": RESPONSE | {"browser_episode": told}})
    assert (row["reward"], row["mask_sample"], row["env_id"]) == (1, False, "whole")
    assert (row["final_answer"], row["turns"], row["total_seconds"] > 5) == ("done", [1], True)
    assert "browser_episode" not in row["response"]
    late = await client.post("/seed_session", body, 409)
    assert "verified before" in late["failure_reason"]
    for _ in range(2):
        assert await client.post("/close_session", close_body("whole")) == {
            "resources_session_id": "whole"
        }
    assert await client.sessions() == 0


async def test_a_seed_that_comes_after_its_close_opens_nothing(client: Client, site: str) -> None:
    assert (await client.post("/close", {"env_id": "early"}))["success"] is False
    body = {"env_id": "early", "start_url": f"{site}/links.html"}
    assert "closed before" in (await client.post("/seed_session", body, 409))["failure_reason"]
    assert await client.sessions() == 0


async def test_a_close_during_the_seed_wins(client: Client, site: str) -> None:
    body = seed_body("hurried", f"{site}/slow-page/25000")
    seeds = [asyncio.create_task(client.http.post("/seed_session", json=body)) for _ in range(2)]

    async def begun() -> bool:
        return await client.sessions() == 1

    await eventually(begun)
    closes = [client.post("/close_session", close_body("hurried")) for _ in range(2)]
    await asyncio.gather(*closes)
    assert await client.sessions() == 0
    for seed in seeds:
        answered = await seed
        assert answered.status_code == 409
        assert "closed while its session was opened" in answered.json()["failure_reason"]
    late = await client.post("/seed_session", body, 409)
    assert "closed before" in late["failure_reason"]


async def test_a_seed_that_failed_leaves_the_id_free(client: Client, site: str) -> None:
    failed = await client.post("/seed_session", seed_body("again", f"{site}/no-such-page"), 503)
    assert "answered HTTP 404" in failed["failure_reason"]
    unusable = seed_body("again", "ftp://host/")
    assert "ftp" in (await client.post("/seed_session", unusable, 422))["failure_reason"]
    assert await client.sessions() == 0
    # Another task's, even.
    body = seed_body("again", f"{site}/links.html", task="T-2")
    await client.post("/seed_session", body)
    await client.post("/close_session", close_body("again"))
    assert await client.sessions() == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"task_data": None}, "task_data"),
        ({"episode_id": {"rollout_id": "-"}}, "rollout_id"),
        ({"more": 1}, "more"),
        ({"resources_session_id": ""}, "resources_session_id"),
    ],
)
async def test_a_body_that_does_not_fit_names_the_field(
    client: Client, change: dict[str, Any], named: str
) -> None:
    body = seed_body("misfit", "http://h/") | change
    detail = (await client.post("/seed_session", body, 422))["detail"]
    assert any(named in problem["loc"] for problem in detail), detail


async def test_a_browser_that_was_not_given_back_can_be_given_back_again(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = seed_body("stuck", f"{site}/links.html")
    await client.post("/seed_session", body)
    release, failures = LocalLease.release, ["first", "second"]

    async def failing(lease: LocalLease) -> None:
        if failures:
            raise RuntimeError(f"the {failures.pop(0)} release failed")
        await release(lease)

    monkeypatch.setattr(LocalLease, "release", failing)
    for _ in range(2):
        failed = await client.http.post("/close_session", json=close_body("stuck"))
        assert failed.status_code == 500
        assert await client.sessions() == 1
        # It is closed all the same, for whoever else asks.
        await client.post("/seed_session", body, 409)
        await client.post("/step", {"env_id": "stuck", **SCREENSHOT}, 410)
    await client.post("/close_session", close_body("stuck"))
    assert await client.sessions() == 0


async def test_only_idle_sessions_expire(
    new_client: ClientFactory, site: str, gym: FakeGym, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await new_client(
        browser_processes=1,
        warm_contexts=0,
        max_sessions=1,
        queue_timeout_s=0.1,
        session_idle_timeout_s=1.5,
    )
    body = seed_body("busy", f"{site}/links.html")
    await client.post("/seed_session", body)
    waiting = {"type": "wait", "ms": 2000}
    # The second waits for the first all along.
    steps = [client.step("busy", waiting) for _ in range(2)]
    answers = await asyncio.gather(*steps)
    assert [answered["results"][0]["status"] for answered in answers] == ["ok", "ok"]
    full = await client.post("/seed_session", seed_body("idle", f"{site}/links.html"), 503)
    assert full["failure_kind"] == "provider_quota_exhausted"

    async def slow_verdict(_: Any) -> Response:
        await asyncio.sleep(2)
        return answer({"assertions": [{"title": "t", "result": "pass"}]})

    gym.set_tasks({})
    gym.set("get_actual_state", slow_verdict)
    metadata = {"task_id": "T-1", "gym_url": gym.url, "start_url": f"{site}/links.html"}
    row = {"verifier_metadata": metadata, "env_id": "busy"}
    row |= {"responses_create_params": {"input": "Do it."}, "response": RESPONSE}
    assert (await client.post("/verify", row))["reward"] == 1

    await client.post("/seed_session", seed_body("idle", f"{site}/links.html"))
    await eventually(lambda: nothing_open(client))
    late = await client.post("/seed_session", seed_body("idle", f"{site}/links.html"), 409)
    assert "expired before" in late["failure_reason"]
    gone = await client.post("/step", {"env_id": "idle", **SCREENSHOT}, 410)
    assert gone["failure_kind"] == "session_expired"
    await client.post("/close_session", close_body("idle"))


async def test_the_rollouts_names_go_with_its_session(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[BrowserSpec] = []
    acquire = LocalPool.acquire

    async def noting(pool: LocalPool, spec: BrowserSpec) -> LocalLease:
        asked.append(spec)
        return await acquire(pool, spec)

    monkeypatch.setattr(LocalPool, "acquire", noting)
    caplog.set_level(logging.INFO, "resources_servers.browser_gym.sessions")
    await client.post("/seed_session", seed_body("named", f"{site}/links.html", task="T\n1"))
    await client.post("/close_session", close_body("named"))
    row = task_data(f"{site}/links.html", task_id="T-2")
    row |= {"_ng_task_index": 7, "_ng_rollout_index": 2, "_ng_attempt_index": 1}
    seeded = await client.post("/seed_session", row)
    await client.post("/close", {"env_id": seeded["env_id"]})
    assert [spec.labels for spec in asked] == [
        {"episode_id": "3-1", "task_id": "T\n1"},
        {"episode_id": "7-2-a1", "task_id": "T-2"},
    ]
    mine, legacy = "'named' episode_id='3-1' task_id='T\\n1'", "episode_id='7-2-a1' task_id='T-2'"
    assert [record.getMessage().removeprefix("session ") for record in caplog.records] == [
        f"{mine} is open",
        f"{mine} was closed",
        f"'{seeded['env_id']}' {legacy} is open",
        f"'{seeded['env_id']}' {legacy} was closed",
    ]
    refused = await client.post("/seed_session", row | {"_ng_rollout_id": "a/b"}, 422)
    assert "_ng_rollout_id" in refused["failure_reason"]


def test_closed_ids_are_forgotten_in_time_and_beyond_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(session_ids, "REMEMBERED_CLOSED", 2)
    closed = ClosedIds()
    closed.add("a", "closed")
    closed.add("b", "expired")
    now += 1
    closed.add("a", "verified")
    closed.add("c", "lost")
    assert [closed.get(name) for name in "abc"] == ["verified", None, "lost"]
    now += session_ids.REMEMBERED_CLOSED_S
    assert closed.get("a") == "verified"
    now += 1
    assert [closed.get(name) for name in "abc"] == [None, None, None]
