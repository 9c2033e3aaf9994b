"""Sessions over HTTP: isolation, navigation, tabs, awkward pages, faults and releases."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page

from conftest import Client, ClientFactory, build_server, running_client
from resources_servers.browser_gym.browser.capture import MAX_SHOWN_CHARS
from resources_servers.browser_gym.browser.navigation import Navigation
from resources_servers.browser_gym.browser.tabs import Tabs
from tests.started import Started, kill, renderers
from tests.waiting import eventually

VIEWPORT = {"viewport_width": 1280, "viewport_height": 720}


def click(x: float, y: float) -> dict[str, Any]:
    return {"type": "click", "x": x, "y": y}


async def links(client: Client, site: str) -> str:
    return (await client.seed(f"{site}/links.html", **VIEWPORT))["env_id"]


async def storage(client: Client, env_id: str) -> dict[str, str]:
    return json.loads((await client.storage(env_id))["local_storage_dump"])


async def test_seed_shows_the_start_page(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/links.html", **VIEWPORT)
    assert seeded["screenshot"]
    assert (seeded["title"], seeded["current_url"]) == ("Links", f"{site}/links.html")
    assert [tab["tab_id"] for tab in seeded["tabs"]] == ["tab-1"]
    assert seeded["settled"]
    assert seeded["events"] == []


async def test_sessions_share_nothing(client: Client, site: str) -> None:
    one, two = await links(client, site), await links(client, site)
    await client.step(one, {"type": "navigate", "url": f"{site}/second.html"})
    assert "second" in await storage(client, one)
    assert "second" not in await storage(client, two)


async def test_initial_and_final_storage_of_the_start_origin(client: Client, site: str) -> None:
    env_id = await links(client, site)
    other = site.replace("127.0.0.1", "localhost")
    await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    await client.step(env_id, {"type": "navigate", "url": f"{other}/second.html"})
    dump = await client.storage(env_id)
    assert json.loads(dump["initial_local_storage"]) == {"page": "links"}
    assert json.loads(dump["local_storage_dump"]) == {"page": "links", "second": "visited"}
    assert dump["start_origin"] == site
    assert dump["origins"][other] == {"second": "visited"}


async def test_navigation_and_history(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, click(60, 40))
    assert answer["title"] == "Second"
    assert (await client.step(env_id, {"type": "go_back"}))["title"] == "Links"
    assert (await client.step(env_id, {"type": "go_forward"}))["title"] == "Second"
    assert (await client.step(env_id, {"type": "reload"}))["title"] == "Second"
    answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/redirect"})
    assert answer["current_url"] == f"{site}/second.html"


async def test_start_page_has_nothing_before_it(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, {"type": "go_back"})
    assert answer["error"] == "go_back: there is no earlier page"
    assert answer["title"] == "Links"


async def test_slow_page_is_waited_for(client: Client, site: str) -> None:
    env_id = await links(client, site)
    assert (await client.step(env_id, click(60, 520)))["title"] == "Slow"


async def test_fetch_is_waited_for(client: Client, site: str) -> None:
    env_id = await links(client, site)
    assert (await client.step(env_id, click(60, 280)))["title"] == "Loaded"


async def test_polling_does_not_hold_a_step(client: Client, site: str) -> None:
    env_id = await links(client, site)
    await client.step(env_id, click(60, 400))
    answer = await client.step(env_id, {"type": "screenshot"})
    assert answer["settled"]  # else it waited until the bound


async def test_link_in_a_new_tab_is_followed_and_closing_returns(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, click(60, 100))
    assert answer["title"] == "Second"
    assert [tab["active"] for tab in answer["tabs"]] == [False, True]
    assert [event["type"] for event in answer["events"]] == ["tab_opened"]
    answer = await client.step(env_id, {"type": "close_tab"})
    assert (answer["title"], len(answer["tabs"])) == ("Links", 1)
    assert [event["type"] for event in answer["events"]] == ["tab_closed"]


async def test_tabs_by_index_and_id(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, {"type": "new_tab", "url": f"{site}/second.html"})
    assert answer["title"] == "Second"
    answer = await client.step(env_id, {"type": "switch_tab", "index": 0})
    assert answer["title"] == "Links"
    answer = await client.step(env_id, {"type": "switch_tab", "tab_id": "tab-2"})
    assert "1: Second" in answer["results"][0]["text"]
    answer = await client.step(env_id, {"type": "switch_tab", "index": 7})
    assert "there is no tab with index 7; open tabs are 0: tab-1, 1: tab-2" in answer["error"]


async def test_last_tab_stays(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, {"type": "close_tab"})
    assert "the last tab cannot be closed" in answer["error"]


async def test_dialog_is_accepted_and_reported(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, click(60, 160))
    assert answer["events"] == [
        {"type": "dialog", "dialog_type": "confirm", "message": "Delete it?", "answer": "accepted"}
    ]
    assert (await storage(client, env_id))["confirmed"] == "true"


async def test_dialog_is_dismissed_by_policy(new_client: ClientFactory, site: str) -> None:
    client = await new_client(dialog_policy="dismiss")
    env_id = await links(client, site)
    await client.step(env_id, click(60, 160))
    assert (await storage(client, env_id))["confirmed"] == "false"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/", "could not be opened"),
        ("file:///etc/passwd", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("chrome://settings", "only http and https"),
        ("http://", "has no host name"),
        ("http://[", "is not an address"),
    ],
)
async def test_bad_address_is_told_to_the_model(
    client: Client, site: str, url: str, reason: str
) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, {"type": "navigate", "url": url})
    assert reason in answer["error"]
    assert answer["screenshot"]


async def test_dead_link_shows_an_error_page_and_the_way_back(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, click(60, 460))
    assert answer["screenshot"]
    assert (await client.step(env_id, {"type": "go_back"}))["title"] == "Links"


async def test_missing_font_does_not_hold_the_screenshot(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/fonts.html", **VIEWPORT)
    assert seeded["screenshot"]


async def test_half_characters_of_a_page_are_passed_on_as_question_marks(
    client: Client, site: str
) -> None:
    seeded = await client.seed(f"{site}/awkward.html?surrogates")
    assert seeded["title"] == seeded["tabs"][0]["title"] == "half ?"
    dump = await client.storage(seeded["env_id"])
    assert dump["origins"][site] == {"key ?": "value ?"}
    assert json.loads(dump["local_storage_dump"]) == {"key \udc00": "value \ud800"}


async def test_long_texts_of_a_page_are_cut(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/awkward.html?long")
    message = seeded["events"][0]["message"]
    assert (len(seeded["title"]), len(message)) == (MAX_SHOWN_CHARS + 1,) * 2
    assert message.endswith("mm…")


@pytest.mark.parametrize("way", ["popups", "blinks"])
async def test_tabs_without_end_do_not_hold_a_step(
    new_client: ClientFactory, site: str, way: str
) -> None:
    client = await new_client(settle_max_ms=500)
    async with asyncio.timeout(30):
        env_id = (await client.seed(f"{site}/awkward.html?{way}"))["env_id"]
        answer = await client.step(env_id, {"type": "list_tabs"})
    assert answer["results"][0]["status"] == "ok"


async def test_crashed_page_is_loaded_again_with_its_storage(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_id = await links(client, site)
    await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    kill(renderers())
    answers = []

    async def reported() -> bool:
        answers.append(await client.step(env_id, {"type": "screenshot"}))
        return bool(answers[-1]["events"])

    await eventually(reported)
    answer = answers[-1]
    assert answer["events"][0]["type"] == "crash"
    assert (answer["title"], answer["tabs"][0]["tab_id"]) == ("Second", "tab-1")
    assert await storage(client, env_id) == {"page": "links", "second": "visited"}

    open_page = Tabs._open_page

    async def open_and_lose(tabs: Tabs) -> Page:
        page = await open_page(tabs)
        await page.context.close()
        return page

    monkeypatch.setattr(Tabs, "_open_page", open_and_lose)
    kill(renderers())

    async def lost() -> bool:
        body = {"env_id": env_id, "action": {"type": "screenshot"}}
        answer = await client.http.post("/step", json=body)
        assert answer.status_code in (200, 410), answer.text
        return answer.status_code == 410

    await eventually(lost)


async def test_verifier_api_is_out_of_reach(client: Client, site: str) -> None:
    metadata = {"task_id": "T", "gym_url": site, "start_url": f"{site}/links.html"}
    seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
    client.opened.append(seeded["env_id"])
    for path in ("api/v1/get_expected_state", "x/..//api/v1/%67et_expected_stat%65?a=1"):
        answer = await client.step(seeded["env_id"], {"type": "navigate", "url": f"{site}/{path}"})
        assert "ERR_BLOCKED_BY_CLIENT" in answer["error"]


async def test_verifier_api_is_out_of_reach_by_a_redirect(client: Client, site: str) -> None:
    metadata = {"task_id": "T", "gym_url": site, "start_url": f"{site}/links.html"}
    seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
    client.opened.append(seeded["env_id"])
    answer = await client.step(
        seeded["env_id"], {"type": "navigate", "url": f"{site}/redirect-to-verifier"}
    )
    assert "ERR_BLOCKED_BY_CLIENT" in answer["error"]
    (event,) = answer["events"]
    assert (event["type"], event["url"]) == ("load_failed", f"{site}/api/v1/get_expected_state")
    assert answer["screenshot"]


async def test_steps_of_one_session_do_not_interleave(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/recorder.html", **VIEWPORT)
    env_id = seeded["env_id"]
    await client.step(env_id, click(100, 40))
    texts = ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"]
    await asyncio.gather(*(client.step(env_id, {"type": "type", "text": text}) for text in texts))
    value = json.loads((await storage(client, env_id))["values"])["input"]
    assert sorted(value[i : i + 10] for i in (0, 10, 20)) == texts


async def test_operation_id_acts_once(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/recorder.html", **VIEWPORT)
    env_id = seeded["env_id"]
    action = {"type": "type", "text": "once", "x": 100, "y": 40}
    first, second = await asyncio.gather(
        *(client.step(env_id, action, operation_id="op-1") for _ in range(2))
    )
    assert first == second
    assert json.loads((await storage(client, env_id))["values"])["input"] == "once"
    body = {"env_id": env_id, "actions": [{"type": "screenshot"}], "operation_id": "op-1"}
    conflict = await client.post("/step", body, status=409)
    assert "op-1" in conflict["failure_reason"]
    for number in range(2, 6):
        await client.step(env_id, operation_id=f"op-{number}")
    again = {"env_id": env_id, "actions": [action], "operation_id": "op-1"}
    conflict = await client.post("/step", again, status=409)
    assert "not kept any more" in conflict["failure_reason"]


async def test_close_tells_the_truth(client: Client, site: str) -> None:
    env_id = await links(client, site)
    assert (await client.post("/close", {"env_id": env_id}))["success"] is True
    again = await client.post("/close", {"env_id": env_id})
    assert again == {"success": False, "message": "the session was closed before"}
    unknown = await client.post("/close", {"env_id": "nobody"})
    assert unknown == {"success": False, "message": "no such session"}
    body = {"env_id": env_id, "action": {"type": "screenshot"}}
    gone = await client.post("/step", body, status=410)
    assert gone["failure_kind"] == "session_lost"


async def test_session_cookie_names_the_session(client: Client, site: str) -> None:
    await links(client, site)
    answer = await client.post("/step", {"action": {"type": "screenshot"}})
    assert answer["title"] == "Links"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "start_url"),
        ({"start_url": "ftp://host/"}, "only http and https"),
        ({"start_url": "http://["}, "is not an address"),
        ({"start_url": "http://h:99999/"}, "is not an address"),
        ({"start_url": "http://h/", "verifier_metadata": {}}, "verifier"),
        ({"verifier_metadata": {"start_url": "http://h/", "verifier": "magic"}}, "magic"),
    ],
)
async def test_bad_seed_is_named(client: Client, body: dict[str, Any], words: str) -> None:
    answer = await client.post("/seed_session", body, status=422)
    assert answer["failure_kind"] == "agent_request_failed"
    assert words in answer["failure_reason"]


async def test_dead_start_page_is_the_environments_fault(client: Client) -> None:
    answer = await client.post("/seed_session", {"start_url": "http://127.0.0.1:9/"}, status=503)
    assert answer["failure_kind"] == "provider_unavailable"
    assert await client.sessions() == 0


async def test_start_page_that_is_not_there_is_the_environments_fault(
    client: Client, site: str
) -> None:
    body = {"start_url": f"{site}/no-such-page"}
    answer = await client.post("/seed_session", body, status=503)
    assert answer["failure_kind"] == "provider_unavailable"
    assert "answered HTTP 404" in answer["failure_reason"]


async def test_missing_page_later_on_is_shown_to_the_model(client: Client, site: str) -> None:
    env_id = await links(client, site)
    answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/no-such-page"})
    assert (answer["error"], answer["current_url"]) == (None, f"{site}/no-such-page")


async def test_full_pool_says_so(new_client: ClientFactory, site: str) -> None:
    client = await new_client(max_sessions=1, queue_limit=1, queue_timeout_s=0.2)
    env_id = await links(client, site)
    body = {"start_url": f"{site}/links.html"}
    answers = await asyncio.gather(
        *(client.http.post("/seed_session", json=body) for _ in range(2))
    )
    assert [a.status_code for a in answers] == [503, 503]
    assert {a.json()["failure_kind"] for a in answers} == {"provider_quota_exhausted"}
    assert all(a.headers["retry-after"] for a in answers)
    await client.post("/close", {"env_id": env_id})
    assert (await links(client, site)) != env_id


async def test_idle_session_expires(new_client: ClientFactory, site: str) -> None:
    client = await new_client(session_idle_timeout_s=0.4)
    env_id = await links(client, site)
    await eventually(lambda: _has_sessions(client, 0))
    body = {"env_id": env_id, "action": {"type": "screenshot"}}
    answer = await client.post("/step", body, status=410)
    assert answer["failure_kind"] == "session_expired"


async def test_dead_driver_is_a_lost_session_and_is_replaced(
    new_client: ClientFactory, site: str, started: Started
) -> None:
    client = await new_client()
    env_id = await links(client, site)
    kill(started.drivers())
    await _check_lost_and_replaced(client, site, env_id)


async def test_dead_chromium_is_a_lost_session_and_is_replaced(
    new_client: ClientFactory, site: str, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    client = await new_client()
    env_id = await links(client, site)
    going, go = asyncio.Event(), Navigation.to

    async def tell_and_go(navigation: Navigation, url: str) -> int | None:
        going.set()
        return await go(navigation, url)

    monkeypatch.setattr(Navigation, "to", tell_and_go)
    slow = {"start_url": f"{site}/slow-page/25000"}
    seed = asyncio.create_task(client.http.post("/seed_session", json=slow))
    await going.wait()
    started.kill_chromiums()
    answer = await seed
    assert (answer.status_code, answer.json()["failure_kind"]) == (410, "session_lost"), answer.text
    await _check_lost_and_replaced(client, site, env_id)


async def _check_lost_and_replaced(client: Client, site: str, env_id: str) -> None:
    body = {"env_id": env_id, "action": {"type": "screenshot"}}
    answer = await client.post("/step", body, status=410)
    assert answer["failure_kind"] == "session_lost"
    assert await links(client, site)
    health = (await client.http.get("/health")).json()
    assert (health["status"], health["sessions"], health["restarts"]) == ("ok", 1, 1)


async def _has_sessions(client: Client, count: int) -> bool:
    return await client.sessions() == count


async def test_caller_who_leaves_during_seed_leaves_nothing(
    new_client: ClientFactory, site: str
) -> None:
    client = await new_client(max_sessions=2)
    for _ in range(3):
        request = asyncio.create_task(
            client.http.post("/seed_session", json={"start_url": f"{site}/slow-page/200"})
        )
        await eventually(lambda: _has_sessions(client, 1))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await eventually(lambda: _has_sessions(client, 0))
    assert await links(client, site)


async def test_caller_who_leaves_during_a_step_does_not_stop_it(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/recorder.html", **VIEWPORT)
    env_id = seeded["env_id"]
    body = {
        "env_id": env_id,
        "actions": [{"type": "type", "text": "complete", "x": 100, "y": 40}],
        "operation_id": "left",
    }
    request = asyncio.create_task(client.http.post("/step", json=body))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises((asyncio.CancelledError, httpx.HTTPError)):
        await request
    await client.post("/step", body)
    assert json.loads((await storage(client, env_id))["values"])["input"] == "complete"


async def test_only_a_download_needs_a_folder(
    new_client: ClientFactory, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client = await new_client()
    env_id = await links(client, site)
    assert _contents(tmp_path) == {}
    await client.step(env_id, click(60, 220))

    async def saved() -> bool:
        return _contents(tmp_path) == {"report.csv": b"a,b\n1,2\n"}

    await eventually(saved)
    await client.post("/close", {"env_id": env_id})
    assert _contents(tmp_path) == {}


def _contents(folder: Path) -> dict[str, bytes]:
    """What is in the session folders of a temporary folder; "" for an empty one."""
    found = {"": b""} if any(folder.glob("browser-gym-*")) else {}
    paths = [path for path in folder.glob("browser-gym-*/**/*") if path.is_file()]
    return {path.name: path.read_bytes() for path in paths} or found


async def test_shutdown_leaves_no_process(site: str, started: Started) -> None:
    async with running_client(browser_processes=2) as client:
        await asyncio.gather(*(links(client, site) for _ in range(3)))
    await started.all_end()


async def test_shutdown_while_sessions_close_leaves_no_file(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    browser = {"files": {"a.txt": {"text": "a"}}}
    metadata = {"verifier": "local_storage", "assertions": [{"title": "t", "only_changed": []}]}
    async with running_client() as client:
        for _ in range(3):
            await client.seed(
                f"{site}/links.html", verifier_metadata={**metadata, "browser": browser}
            )
        assert _contents(tmp_path) == {"a.txt": b"a"}
        closing = [
            asyncio.create_task(client.http.post("/close", json={"env_id": env_id}))
            for env_id in client.opened
        ]
        while await client.sessions() == 3:  # until the first has given its browser back
            pass
    assert _contents(tmp_path) == {}
    await asyncio.gather(*closing, return_exceptions=True)


async def test_more_than_one_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="num_workers is 2"):
        build_server(num_workers=2)
