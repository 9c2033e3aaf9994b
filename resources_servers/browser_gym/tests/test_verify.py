"""`/verify` and `/aggregate_metrics` over HTTP: what is graded, and what is masked."""

import asyncio
from typing import Any

import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym import verdicts as verdicts_module
from resources_servers.browser_gym.demo_gym.server import running as demo_gym
from resources_servers.browser_gym.tests.grading import response, seeded, verify
from resources_servers.browser_gym.verdicts import Verdicts

SECOND_SEEN = {"title": "second page seen", "query": "second", "equals": "visited"}


def task(site: str, *assertions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "task_id": "T-1",
        "start_url": f"{site}/links.html",
        "viewport": {"width": 1280, "height": 720},
        "verifier": "local_storage",
        "assertions": list(assertions),
        **fields,
    }


async def test_reward_and_partial_credit(client: Client, site: str) -> None:
    metadata = task(site, SECOND_SEEN, {"title": "page", "query": "page", "equals": "links"})
    env_id = await seeded(client, metadata)
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["partial_credit"], row["mask_sample"]) == (0, 0.5, False)
    assert [a["result"] for a in row["verification_result"]["assertions"]] == ["fail", "pass"]


async def test_verify_ends_the_session(client: Client, site: str) -> None:
    metadata = task(site, SECOND_SEEN)
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    row, same = await asyncio.gather(*(verify(client, metadata, env_id) for _ in range(2)))
    assert (row["reward"], row["final_url"]) == (1, f"{site}/second.html")
    assert await client.sessions() == 0
    # Repeated, as after a lost answer, it is the same verdict; asked otherwise, there is none.
    assert same == row == await verify(client, metadata, env_id)
    other = task(site, {"title": "other", "query": "second", "equals": "visited"})
    for again in (
        await verify(client, other, env_id),
        await verify(client, metadata, env_id, final_answer="other"),
    ):
        assert (again["mask_sample"], again["failure_kind"]) == (True, "session_lost")
        assert again["instance_config"] == {"mask_sample": True}
    assert await verify(client, metadata, env_id) == row


async def test_a_verdict_is_found_once_and_remembered_for_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, found, verdicts = asyncio.Event(), [], Verdicts()

    async def find() -> dict[str, Any]:
        found.append(1)
        await given.wait()
        return {"reward": len(found)}

    async def ask(session_id: str, asked: Any = None, is_open: bool = True) -> dict[str, Any]:
        return await verdicts.once(session_id, asked, find, is_open=is_open)

    leaving = asyncio.create_task(ask("a"))
    await asyncio.sleep(0)
    leaving.cancel()  # its caller goes away
    waiting = asyncio.create_task(ask("a"))
    await asyncio.sleep(0)
    given.set()
    assert await waiting == await ask("a", is_open=False) == {"reward": 1}
    assert await ask("a", "other") == {"reward": 2}
    assert [await ask("unknown", is_open=False) for _ in range(2)] == [{"reward": 3}, {"reward": 4}]
    monkeypatch.setattr(verdicts_module, "REMEMBERED", 2)
    assert [await ask(name) for name in "bcba"] == [{"reward": r} for r in (5, 6, 5, 7)]
    monkeypatch.setattr(verdicts_module, "REMEMBERED_S", 0)
    assert [await ask(name) for name in "xa"] == [{"reward": 8}, {"reward": 9}]
    given.clear()
    left = asyncio.create_task(ask("left"))
    await asyncio.sleep(0)
    await verdicts.close()
    await asyncio.wait([left])
    assert left.cancelled()


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_page_that_hangs_is_graded(new_client: ClientFactory, site: str) -> None:
    client = await new_client(action_timeout_s=1, settle_max_ms=200)
    metadata = task(site, {"title": "saved", "query": "page", "equals": "links"})
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "click", "x": 60, "y": 340})
    answer = await client.step(env_id, {"type": "type", "text": "x"})
    assert "the page is busy" in answer["error"]
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["mask_sample"]) == (1, False)


@pytest.mark.parametrize("leave", ["about:blank", "other host", "error page"])
async def test_start_origin_is_graded_wherever_the_page_ended(
    client: Client, site: str, leave: str
) -> None:
    unchanged = {"title": "the rest", "only_changed": ["/second"]}
    metadata = task(site, SECOND_SEEN, unchanged)
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    urls = {
        "other host": f"{site.replace('127.0.0.1', 'localhost')}/recorder.html",
        "error page": "http://127.0.0.1:9/",
    }
    await client.step(env_id, {"type": "navigate", "url": urls.get(leave, leave)})
    assert (await verify(client, metadata, env_id))["reward"] == 1


async def test_apps_that_save_on_leaving_have_saved(client: Client, site: str) -> None:
    saved = {"title": "late", "query": "late", "equals": "saved on leaving"}
    metadata = task(site, saved)
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "click", "x": 60, "y": 580})
    assert "late" not in (await client.storage(env_id))["local_storage_dump"]
    assert (await verify(client, metadata, env_id))["reward"] == 1


async def test_answer_is_graded(client: Client, site: str) -> None:
    metadata = task(site, {"title": "answer", "answer_contains": ["42"]})
    env_id = await seeded(client, metadata)
    row = await verify(client, metadata, env_id, final_answer="It is 42.")
    assert row["reward"] == 1
    env_id = await seeded(client, metadata)
    row = await verify(client, metadata, env_id, final_answer="It is 421.")
    assert row["reward"] == 0


async def test_gym_api_is_asked(client: Client) -> None:
    async with demo_gym() as gym:
        metadata = {
            "task_id": "BRD-07",
            "gym_url": gym,
            "start_url": f"{gym}/board/",
            "viewport": {"width": 1280, "height": 720},
        }
        env_id = await seeded(client, metadata)
        row = await verify(client, metadata, env_id, final_answer="Dark mode for reports")
    assert (row["reward"], row["mask_sample"]) == (1, False)
    assert {a["category"] for a in row["verification_result"]["assertions"]} == {
        "answer",
        "no other change",
    }


@pytest.mark.usefixtures("no_pauses")
async def test_gym_that_cannot_answer_is_masked(client: Client, site: str) -> None:
    metadata = task(site, verifier="gym_api", gym_url="http://127.0.0.1:9")
    env_id = await seeded(client, metadata)
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["mask_sample"]) == (0, True)
    assert row["failure_kind"] == "transport_unreachable"
    assert row["instance_config"] == {"mask_sample": True}
    assert await client.sessions() == 0


async def test_metrics_tell_valid_rollouts_from_masked_ones(client: Client) -> None:
    base = {"responses_create_params": {"input": "x"}, "response": response()}
    lost = {"mask_sample": True, "failure_kind": "session_lost", "termination_reason": "failure"}
    done, cut = {"termination_reason": "finished"}, {"termination_reason": "max_steps"}
    rollouts = [
        (0, 0, "drag", 1, {**done, "attempts": [lost]}),
        (0, 1, "drag", 0, cut),
        (1, 0, "keys", 1, done),
        (1, 1, "keys", 0, lost),
    ]
    rows = [
        {**base, "_ng_task_index": task, "_ng_rollout_index": number}
        | {"category": category, "reward": reward, **more}
        for task, number, category, reward, more in rollouts
    ]
    answer = await client.post("/aggregate_metrics", {"verify_responses": rows})
    metrics = answer["agent_metrics"]
    expected = {
        "reward/valid_mean": 2 / 3,
        "reward/dense_mean": 1 / 2,
        "mean/reward": 2 / 3,
        "masked/share": 1 / 4,
        "masked/session_lost": 1 / 4,
        "resampled/share": 1 / 4,
        "termination/finished": 2 / 3,
        "termination/max_steps": 1 / 3,
        "category/drag": 1 / 2,
        "category/keys": 1,
        "groups/mean_valid": 3 / 2,
        "groups/zero_variance_share": 0,
        "pass@1": 3 / 4,
        "pass@2": 1,  # of the one task with two valid rollouts
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert answer["key_metrics"]["masked/session_lost"] == 1 / 4

    answer = await client.post("/aggregate_metrics", {"verify_responses": rows[3:]})
    assert answer["agent_metrics"]["masked/share"] == 1
    assert not {"reward/valid_mean", "resampled/share"} & answer["agent_metrics"].keys()
