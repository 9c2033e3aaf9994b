"""Windows and dialogs that pages open, close and refuse to leave."""

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Page

from conftest import Client, ClientFactory
from resources_servers.browser_gym.browser import announced
from resources_servers.browser_gym.browser.tabs import MAX_EVENTS_OF_A_TYPE, MAX_TABS, Tabs
from tests.clicks import click_way, events_of, new_session
from tests.waiting import eventually

SCREENSHOT = {"type": "screenshot"}
LATE_S = 0.5  # longer than a page must be quiet


async def test_windows_become_tabs(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    for way in ("noopener", "popunder"):
        answer = await click_way(client, env_id, site, way)
        assert (answer["title"], len(answer["tabs"])) == ("Second", 2)
        answer = await client.step(env_id, {"type": "close_tab"})
        assert (answer["title"], len(answer["tabs"])) == ("Clicks", 1)


async def test_window_that_closes_itself_is_told(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "selfclosing")
    assert (answer["title"], answer["settled"]) == ("Clicks", True)
    assert [event["type"] for event in answer["events"]] in (
        ["tab_blinked"],
        ["tab_opened", "tab_closed"],
    )
    answer = await click_way(client, env_id, site, "closedtarget")
    assert answer["title"] == "closed true"


async def test_window_that_is_told_late_is_waited_for(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_page = Tabs._on_page

    def late(self: Tabs, page: Page) -> None:
        if self.all:
            asyncio.get_running_loop().call_later(LATE_S, on_page, self, page)
        else:  # the session's own
            on_page(self, page)

    monkeypatch.setattr(Tabs, "_on_page", late)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "noopener")
    assert (answer["title"], len(answer["tabs"])) == ("Second", 2)


@pytest.mark.parametrize(("way", "silence_s"), [("mailwindow", 600), ("sandboxedwindow", 0.1)])
async def test_window_that_never_comes_holds_nothing_up(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch, way: str, silence_s: float
) -> None:
    monkeypatch.setattr(announced, "_SILENCE_S", silence_s)
    env_id = await new_session(client, site)
    async with asyncio.timeout(60):
        answer = await click_way(client, env_id, site, way)
    assert (answer["title"], len(answer["tabs"])) == ("asked", 1)


def count_refused(answer: dict[str, Any]) -> int:
    """Return how many windows a step tells were refused, most of them only by their number."""
    told = events_of(answer, "tab_refused")
    left_out = sum(event["events"].get("tab_refused", 0) for event in events_of(answer, "left_out"))
    assert len(told) == MAX_EVENTS_OF_A_TYPE or not left_out
    assert {event["most"] for event in told} <= {MAX_TABS}
    return len(told) + left_out


async def test_windows_without_number_are_closed_and_told(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "hundreds")
    refused = count_refused(answer)

    async def all_told() -> bool:
        # A page stands still for each window, so on a slow machine the bound of a step comes first.
        nonlocal answer, refused
        if refused < 60 + 1 - MAX_TABS:
            answer = await client.step(env_id, SCREENSHOT)
            refused += count_refused(answer)
        return refused >= 60 + 1 - MAX_TABS

    await eventually(all_told, timeout_s=240)
    assert refused == 60 + 1 - MAX_TABS
    assert len(answer["tabs"]) == MAX_TABS
    answer = await client.step(env_id, {"type": "new_tab"})
    assert answer["error"] == f"new_tab: there are {MAX_TABS} tabs already: close one first"
    answer = await client.step(env_id, {"type": "close_tab"}, {"type": "new_tab"})
    assert (answer["error"], len(answer["tabs"])) == (None, MAX_TABS)


async def test_last_tab_that_closes_itself_leaves_an_empty_one(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/clicks.html?close"))["env_id"]
    answer = await client.step(env_id, {"type": "click", "x": 100, "y": 50})
    assert [tab["url"] for tab in answer["tabs"]] == ["about:blank"]
    assert [event["type"] for event in answer["events"]] == ["tab_closed", "tab_opened"]
    answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    assert answer["title"] == "Second"


async def test_dialogs_are_answered_and_told(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "alert")
    assert (answer["title"], events_of(answer, "dialog")[0]["message"]) == ("told", "Saved")
    answer = await click_way(client, env_id, site, "prompt")
    assert answer["title"] == "named Ann"
    assert events_of(answer, "dialog") == [
        {
            "type": "dialog",
            "dialog_type": "prompt",
            "message": "Name?",
            "answer": "accepted",
            "text": "Ann",
        }
    ]
    answer = await click_way(client, env_id, site, "leave")
    assert answer["title"] == "Second"
    assert events_of(answer, "dialog")[0]["dialog_type"] == "beforeunload"


async def test_prompt_is_dismissed_by_policy_and_leaving_is_not(
    new_client: ClientFactory, site: str
) -> None:
    client = await new_client(dialog_policy="dismiss")
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "prompt")
    assert answer["title"] == "named null"
    assert events_of(answer, "dialog")[0]["answer"] == "dismissed"
    answer = await click_way(client, env_id, site, "leave")
    assert answer["title"] == "Second"


async def test_dialogs_without_number_are_counted(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "alerts")
    assert answer["title"] == "told all"
    assert len(events_of(answer, "dialog")) == MAX_EVENTS_OF_A_TYPE
    assert answer["events"][-1] == {
        "type": "left_out",
        "events": {"dialog": 50 - MAX_EVENTS_OF_A_TYPE},
    }


async def test_windows_share_the_storage_that_is_graded(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    await click_way(client, env_id, site, "selfclosing")
    stored = json.loads((await client.storage(env_id))["local_storage_dump"])
    assert stored["blinked"] == "yes"


async def test_window_opened_beside_a_loading_frame(client: Client, site: str) -> None:
    task = {
        "task_id": "T",
        "start_url": f"{site}/second.html",
        "verifier": "local_storage",
        "assertions": [{"title": "t", "only_changed": []}],
        "browser": {"time": "2031-03-01T08:00:00Z", "random_seed": 7},
    }
    seeded = await client.post("/seed_session", {"verifier_metadata": task})
    env_id = seeded["env_id"]
    client.opened.append(env_id)
    seen = set()
    for _ in range(6):  # what goes wrong here does not every time
        answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/opener.html"})
        assert [tab["title"] for tab in answer["tabs"]] == ["Opener loaded", "First"]
        seen.add(json.loads((await client.storage(env_id))["local_storage_dump"])["first"])
        await client.step(env_id, {"type": "close_tab"})
    (found,) = map(json.loads, seen)
    assert (found["timers"], found["year"]) == (True, 2031)


async def test_select_of_a_new_window_is_chosen_by_clicks(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/opener.html"))["env_id"]
    for y in (35, 85):
        answer = await client.step(env_id, {"type": "click", "x": 60, "y": y})
    assert (answer["title"], answer["error"]) == ("First", None)
    stored = json.loads((await client.storage(env_id))["local_storage_dump"])
    assert stored["option"] in ("two", "three")
