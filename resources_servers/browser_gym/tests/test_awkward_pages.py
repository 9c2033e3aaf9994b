"""Pages that are hard to see, to reach or to leave: each has an outcome that a model can act on."""

import base64
import io
import json
from typing import Any

import PIL.Image
import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym.actions import Action
from resources_servers.browser_gym.browser.page import PageDriver
from tests.clicks import click_way, events_of, new_session
from tests.waiting import eventually

VIEWPORT = {"viewport_width": 1280, "viewport_height": 720}
SCREENSHOT = {"type": "screenshot"}


def click(x: float, y: float) -> dict[str, Any]:
    return {"type": "click", "x": x, "y": y}


async def stored(client: Client, env_id: str) -> dict[str, str]:
    return json.loads((await client.storage(env_id))["local_storage_dump"])


# ---- Frames and shadow trees.


async def test_frames_are_used_like_the_page(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/frames.html", **VIEWPORT))["env_id"]
    for left in (20, 400):
        answer = await client.step(
            env_id,
            click(left + 50, 75),
            {"type": "type", "text": "words", "x": left + 50, "y": 135},
            {"type": "scroll", "x": left + 200, "y": 250, "dy": 300},
        )
        assert answer["error"] is None
    origins = (await client.storage(env_id))["origins"]
    other = site.replace("127.0.0.1", "localhost")
    for origin, query in ((site, "?near"), (other, "?far")):
        kept = {key: origins[origin][key] for key in ("clicked", "typed", "scrolled")}
        assert kept == {"clicked": query, "typed": "words", "scrolled": "300"}


async def test_select_of_a_frame_is_chosen_by_clicks(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/frames.html", **VIEWPORT))["env_id"]
    for y in (55, 105):
        await client.step(env_id, click(860, y))
    assert (await stored(client, env_id))["option"] in ("two", "three")


async def test_frame_of_another_site_is_read_behind_the_page(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/frames.html", **VIEWPORT))["env_id"]
    answer = await client.step(
        env_id,
        {"type": "page_text"},
        {"type": "find", "query": "framed words"},
        {"type": "list_elements"},
        {"type": "set_value", "x": 70, "y": 135, "value": "set"},
        {"type": "set_value", "x": 450, "y": 135, "value": "set"},
    )
    text, found, elements, near, far = answer["results"]
    other = site.replace("127.0.0.1", "localhost")
    head = f"\nin the frame {other}/framed.html?far:\n"
    assert f"{head}framed words" in text["text"]
    places = found["text"].split(head)
    assert [place.count("framed words") for place in places] == [1, 1]
    assert 'textbox "Framed field", value "", at (115, 135)' in elements["text"]
    assert f'{head}f1e1 button "Press", at (495, 75)' in elements["text"]
    assert (near["status"], far["status"]) == ("ok", "ok")
    origins = (await client.storage(env_id))["origins"]
    assert (origins[site]["typed"], origins[other]["typed"]) == ("set", "set")


async def test_shadow_trees_are_used_by_pixels_and_open_ones_are_read(
    client: Client, site: str
) -> None:
    env_id = (await client.seed(f"{site}/frames.html", **VIEWPORT))["env_id"]
    answer = await client.step(
        env_id,
        {"type": "type", "text": "one", "x": 50, "y": 435},
        {"type": "type", "text": "two", "x": 450, "y": 435},
        {"type": "list_elements"},
        {"type": "find", "query": "shadow closed"},
    )
    values = await stored(client, env_id)
    assert (values["open"], values["closed"]) == ("one", "two")
    elements, found = answer["results"][2:]
    assert ("open field" in elements["text"], "closed field" in elements["text"]) == (True, False)
    assert "no visible text" in found["text"]
    answer = await client.step(
        env_id,
        {"type": "set_value", "x": 50, "y": 435, "value": "three"},
        {"type": "set_value", "x": 450, "y": 435, "value": "four"},
    )
    assert (await stored(client, env_id))["open"] == "three"
    assert "no field" in answer["error"]


# ---- Layout.


async def test_hover_menus_sticky_headers_and_panes(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/layout.html", **VIEWPORT))["env_id"]
    await client.step(env_id, {"type": "move", "x": 60, "y": 30})
    await client.step(env_id, click(60, 70))  # the menu stays open between steps
    assert (await stored(client, env_id))["chosen"] == "Export"

    # The button slides under the header, whose own button gets the click.
    answer = await client.step(
        env_id,
        {"type": "scroll", "x": 1200, "y": 600, "dy": 490},
        {"type": "find", "query": "under"},
    )
    assert "covered" in answer["results"][1]["text"]
    await client.step(env_id, click(450, 30))
    values = await stored(client, env_id)
    assert (values.get("under"), values["bar"]) == (None, "clicked")
    await client.step(env_id, {"type": "scroll", "x": 1200, "y": 600, "dy": -490})

    # The innermost pane takes the wheel until its end, then the one around it.
    inner = {"type": "scroll", "x": 100, "y": 200}
    await client.step(env_id, {**inner, "dy": 100})
    assert json.loads((await stored(client, env_id))["scroll"]) == [0, 0, 100]
    await client.step(env_id, {**inner, "dy": 5000})
    await client.step(env_id, {**inner, "dy": 60})
    page, outer, _ = json.loads((await stored(client, env_id))["scroll"])
    assert (page, outer) == (0, 60)


async def test_endless_list_grows_and_drawing_is_kept(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/layout.html", **VIEWPORT))["env_id"]
    for entries in (40, 60):
        answer = await client.step(env_id, {"type": "scroll", "x": 800, "y": 200, "dy": 5000})
        assert answer["settled"]
        assert int((await stored(client, env_id))["entries"]) >= entries
    path = [{"x": 50, "y": 450}, {"x": 150, "y": 550}, {"x": 250, "y": 450}]
    answer = await client.step(env_id, {"type": "drag", "path": path})
    stroke = json.loads((await stored(client, env_id))["stroke"])
    assert (stroke[0], stroke[-1]) == ([30, 30], [230, 30])
    assert [130, 130] in stroke
    image = PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"]))).convert("L")
    assert min(image.crop((95, 495, 106, 506)).tobytes()) < 128  # the line is seen


async def test_noise_does_not_swell_the_screenshot(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/noise.html", **VIEWPORT)
    assert len(base64.b64decode(seeded["screenshot"])) < 2_000_000


# ---- Addresses.


@pytest.mark.parametrize("way", ["chain", "meta", "javascript", "blob", "rewrite"])
async def test_other_ways_to_another_document(client: Client, site: str, way: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, way)
    titles = {"javascript": "Written", "blob": "Blob", "rewrite": "Rewritten"}
    assert (answer["title"], answer["error"]) == (titles.get(way, "Second"), None)
    assert answer["settled"]


async def test_http_errors_are_shown_and_told(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    for status, path in ((404, "status/404"), (500, "status/500"), (401, "auth")):
        answer = await click_way(client, env_id, site, path.replace("/", ""))
        url = f"{site}/{path}"
        assert answer["events"] == [{"type": "http_error", "status": status, "url": url}]
        assert (answer["error"], answer["current_url"]) == (None, url)
        answer = await client.step(env_id, {"type": "navigate", "url": url})
        assert [event["status"] for event in events_of(answer, "http_error")] in ([status], [])
        assert answer["events"] or answer["error"]
    answer = await click_way(client, env_id, site, "empty")
    assert (answer["title"], answer["events"]) == ("Clicks", [])


async def test_pages_that_do_not_open_are_told(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    for way, url, reason in (
        ("refused", "http://127.0.0.1:9/", "net::ERR_"),
        ("unknown", "http://nowhere.invalid/", "net::ERR_NAME_NOT_RESOLVED"),
        ("circle", f"{site}/redirect/-1", "net::ERR_TOO_MANY_REDIRECTS"),
        ("mailto", "mailto:ann@example.test", "no program for mailto: addresses"),
        ("scheme", "gym:open", "no program for gym: addresses"),
    ):
        answer = await click_way(client, env_id, site, way)
        (told,) = events_of(answer, "load_failed")
        assert (told["url"], reason in told["reason"]) == (url, True)
        if url.startswith("http"):
            assert answer["current_url"] == answer["tabs"][0]["url"] == url
            answer = await client.step(env_id, {"type": "go_back"})
        assert answer["title"] == "Clicks"


async def test_ways_that_lead_nowhere_leave_the_page(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "data")  # browsers refuse it to pages
    assert (answer["title"], answer["error"]) == ("Clicks", None)
    env_id = (await client.seed(f"{site}/clicks.html?back"))["env_id"]
    answer = await client.step(env_id, click(100, 50))
    assert answer["title"] == "stayed"


async def test_slow_page_is_told_and_given_up(new_client: ClientFactory, site: str) -> None:
    client = await new_client(navigation_timeout_s=4, settle_max_ms=1000)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "slow")
    loading = {"type": "loading", "url": f"{site}/slow-page/20000"}
    assert (answer["events"], answer["settled"]) == ([loading], False)
    assert (await client.step(env_id, SCREENSHOT))["events"] == [loading]
    answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/slow-page/20000"})
    assert "/slow-page/20000 did not answer within 4 s" in answer["error"]
    answer = await client.step(env_id, SCREENSHOT)
    assert (answer["events"], answer["settled"]) == ([], True)  # it is not waited for any more

    answer = await click_way(client, env_id, site, "slowwindow")
    assert answer["events"] == [{"type": "loading", "url": f"{site}/slow-page/8000"}]

    async def opened() -> bool:
        return (await client.step(env_id, SCREENSHOT))["title"] == "Slow"

    await eventually(opened)


async def test_picture_that_never_comes_is_waited_for_once(
    new_client: ClientFactory, site: str
) -> None:
    client = await new_client(settle_max_ms=300)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "neverloads")
    assert (answer["title"], answer["settled"], bool(answer["screenshot"])) == (
        "waiting",
        False,
        True,
    )
    assert (await client.step(env_id, SCREENSHOT))["settled"]


# ---- What a person would be asked.


@pytest.mark.parametrize(
    ("way", "titles"),
    [
        ("print", {"printed"}),
        ("share", {"got no share", "NotAllowedError", "AbortError"}),
        ("clipboard", {"NotAllowedError"}),
        ("geolocation", {"geolocation 1"}),
        ("notifications", {"got default", "got denied"}),
        ("camera", {"NotFoundError", "NotAllowedError"}),
        ("openfile", {"AbortError"}),
        ("savefile", {"AbortError"}),
        ("payment", {"NotSupportedError", "UnknownError", "AbortError", "NotAllowedError"}),
        ("worker", {"got 200"}),
        ("quota", {"QuotaExceededError"}),
    ],
)
async def test_no_question_hangs(client: Client, site: str, way: str, titles: set[str]) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, way)
    assert answer["error"] is None

    async def told() -> bool:
        answer = await client.step(env_id, SCREENSHOT)
        assert (answer["error"], answer["settled"]) == (None, True)
        return answer["title"] in titles

    await eventually(told)


async def test_full_screen_is_as_large_as_the_viewport(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "fullscreen")
    assert answer["title"] == "got undefined"
    image = PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"])))
    assert image.size == (1280, 720)
    await client.step(env_id, click(1270, 710))
    assert (await stored(client, env_id))["at"] == "1270, 710"
    answer = await client.step(env_id, {"type": "key", "chords": [["Escape"]]})
    image = PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"])))
    assert image.size == (1280, 720)


# ---- Pages that hang.


@pytest.mark.usefixtures("short_waits_for_a_page")
@pytest.mark.parametrize("way", ["loop", "endlessalerts", "holdsleaving"])
async def test_busy_page_is_told_and_left(
    client: Client, site: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    do = PageDriver._do

    async def noting(driver: PageDriver, action: Action) -> str | None:
        begun.append(action.type)
        return await do(driver, action)

    monkeypatch.setattr(PageDriver, "_do", noting)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, way)
    assert "click: the page is busy with a script" in answer["error"]
    busy = {"type": "busy", "url": f"{site}/clicks.html?{way}"}
    assert busy in answer["events"]
    for action in ({"type": "type", "text": "x"}, {"type": "list_elements"}, {"type": "go_back"}):
        answer = await client.step(env_id, action)
        assert "the page is busy" in answer["error"]
    answer = await client.step(env_id, {"type": "wait", "ms": 10})
    assert (answer["results"][0]["status"], busy in answer["events"]) == ("ok", True)
    answer = await client.step(env_id, {"type": "navigate", "url": f"{site}/second.html"})
    assert (answer["error"], answer["title"]) == (None, "Second")
    assert [tab["tab_id"] for tab in answer["tabs"]] == ["tab-1"]
    # The others were refused before they began, as each bound in turn would be a minute and more.
    assert begun == ["navigate", "click", "wait", "navigate"]


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_busy_page_is_reloaded_or_its_tab_closed(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    await click_way(client, env_id, site, "loop")
    answer = await client.step(env_id, {"type": "reload"})
    assert (answer["error"], answer["title"], answer["events"]) == (None, "Clicks", [])
    await client.step(
        env_id, {"type": "new_tab", "url": f"{site}/clicks.html?loop"}, click(100, 50)
    )
    answer = await client.step(env_id, {"type": "close_tab"})
    assert (answer["error"], answer["title"]) == (None, "Clicks")


async def test_page_that_only_works_for_a_while_is_waited_for(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "work")
    assert (answer["error"], answer["title"], answer["events"]) == (None, "worked", [])


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_page_that_works_longer_is_told_until_it_answers(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "work")
    assert "the page is busy" in answer["error"]

    async def worked() -> bool:
        return (await client.step(env_id, SCREENSHOT))["title"] == "worked"

    await eventually(worked)
    assert (await client.step(env_id, SCREENSHOT))["events"] == []
