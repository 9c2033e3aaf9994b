"""Each action in real Chromium, against a page that records what it received."""

import base64
import io
import json
from typing import Any

import PIL.Image
import pytest

from conftest import Client


class Page:
    """A session on the recorder page."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def do(self, *actions: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.step(self.env_id, *actions)
        assert answer["error"] is None, answer["error"]
        return answer

    async def _storage(self) -> dict[str, str]:
        return json.loads((await self.client.storage(self.env_id))["local_storage_dump"])

    async def log(self, *types: str) -> list[dict[str, Any]]:
        log = json.loads((await self._storage())["log"])
        assert all(event["trusted"] for event in log)
        return [event for event in log if event["type"] in types]

    async def values(self) -> dict[str, Any]:
        return json.loads((await self._storage())["values"])


@pytest.fixture
async def page(client: Client, site: str) -> Page:
    seeded = await client.seed(f"{site}/recorder.html", viewport_width=1280, viewport_height=720)
    return Page(client, seeded["env_id"])


@pytest.mark.parametrize(
    ("button", "number", "kind"),
    [
        ("left", 0, "click"),
        ("middle", 1, "auxclick"),
        ("right", 2, "auxclick"),
        ("back", 3, "auxclick"),
        ("forward", 4, "auxclick"),
    ],
)
async def test_each_mouse_button(page: Page, button: str, number: int, kind: str) -> None:
    await page.do({"type": "click", "x": 450, "y": 100, "button": button})
    for event in await page.log("mousedown", "mouseup", kind):
        assert (event["button"], event["x"], event["y"]) == (number, 450, 100)
    assert [e["type"] for e in await page.log("mousedown", "mouseup", kind)] == [
        "mousedown",
        "mouseup",
        kind,
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_click_count(page: Page, count: int) -> None:
    await page.do({"type": "click", "x": 450, "y": 100, "count": count})
    assert [e["detail"] for e in await page.log("click")] == list(range(1, count + 1))
    assert len(await page.log("dblclick")) == (1 if count >= 2 else 0)


async def test_click_holds_modifiers_and_releases_them(page: Page) -> None:
    await page.do({"type": "click", "x": 450, "y": 100, "modifiers": ["Control", "Shift"]})
    await page.do({"type": "click", "x": 450, "y": 100})
    assert [e["modifiers"] for e in await page.log("click")] == ["ctrlKey shiftKey", ""]
    assert [e["key"] for e in await page.log("keydown", "keyup")] == [
        "Control",
        "Shift",
        "Shift",
        "Control",
    ]


async def test_fractional_coordinates_arrive(page: Page) -> None:
    await page.do({"type": "move", "x": 450.4, "y": 99.6})
    assert (await page.do({"type": "cursor_position"}))["results"][0]["text"] == "x=450.4, y=99.6"


async def test_click_without_coordinates_uses_the_cursor(page: Page) -> None:
    await page.do({"type": "move", "x": 500, "y": 50}, {"type": "click"})
    assert [(e["x"], e["y"]) for e in await page.log("click")] == [(500, 50)]


async def test_cursor_must_be_placed_first(page: Page) -> None:
    answer = await page.client.step(page.env_id, {"type": "click"})
    assert answer["error"] == "click: the pointer has not been placed yet: give x and y"
    assert await page.log("click") == []


async def test_mouse_down_and_up_on_their_own(page: Page) -> None:
    await page.do({"type": "mouse_down", "x": 420, "y": 40})
    await page.do({"type": "move", "x": 460, "y": 80})
    await page.do({"type": "mouse_up"})
    assert [(e["type"], e["x"], e["y"]) for e in await page.log("mousedown", "mouseup")] == [
        ("mousedown", 420, 40),
        ("mouseup", 460, 80),
    ]


async def test_html5_drag_and_drop(page: Page) -> None:
    await page.do({"type": "drag", "path": [{"x": 800, "y": 50}, {"x": 850, "y": 210}]})
    assert (await page.values())["dropped"] == "card"


async def test_drag_moves_in_between_and_releases(page: Page) -> None:
    await page.do({"type": "drag", "path": [{"x": 420, "y": 40}, {"x": 600, "y": 200}]})
    log = await page.log("mousedown", "mousemove", "mouseup")
    down = [e["type"] for e in log].index("mousedown")
    assert (log[-1]["type"], log[-1]["x"], log[-1]["y"]) == ("mouseup", 600, 200)
    assert len(log) - down - 2 >= 10


async def test_drag_waits_for_the_page_to_make_room(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/moving.html"))["env_id"]
    for end, order in ((180, "BCDEA"), (20, "ABCDE")):
        path = [{"x": 100, "y": 200 - end}, {"x": 100, "y": end}]
        await client.step(env_id, {"type": "drag", "path": path})
        storage = json.loads((await client.storage(env_id))["local_storage_dump"])
        assert storage["order"] == order


@pytest.mark.parametrize(
    ("x", "dx", "dy", "expected"),
    [
        (500, 0, 120, {"paneTop": 120, "paneLeft": 0, "pageTop": 0}),
        (500, 80, 0, {"paneTop": 0, "paneLeft": 80, "pageTop": 0}),
        (100, 0, 300, {"paneTop": 0, "paneLeft": 0, "pageTop": 300}),
    ],
)
async def test_scroll_moves_what_is_under_the_pointer(
    page: Page, x: int, dx: int, dy: int, expected: dict[str, int]
) -> None:
    await page.do({"type": "scroll", "x": x, "y": 350, "dx": dx, "dy": dy})
    values = await page.values()
    assert {key: values[key] for key in expected} == expected


async def test_scroll_without_coordinates_is_over_the_middle(page: Page) -> None:
    await page.do({"type": "scroll", "dy": 100})
    assert [(e["x"], e["y"], e["dy"]) for e in await page.log("wheel")] == [(640, 360, 100)]


TEXTS = ["plain text", "Ünïcödé", "日本語テキスト", "emoji 🚀👩‍👩‍👧", "quotes \"'` & <b>", "한글"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("field", "y"), [("input", 40), ("area", 120), ("rich", 230)])
async def test_typed_text_arrives(page: Page, text: str, field: str, y: int) -> None:
    await page.do({"type": "click", "x": 100, "y": y}, {"type": "type", "text": text})
    assert (await page.values())[field].replace("\u00a0", " ") == text


async def test_type_sends_key_events_for_what_has_a_key(page: Page) -> None:
    await page.do({"type": "type", "text": "aB", "x": 100, "y": 40})
    assert [e["key"] for e in await page.log("keydown")] == ["a", "B"]


async def test_newlines_are_typed(page: Page) -> None:
    await page.do({"type": "type", "text": "one\ntwo", "x": 100, "y": 120})
    assert (await page.values())["area"] == "one\ntwo"


async def test_type_clears_only_when_asked(page: Page) -> None:
    await page.do({"type": "type", "text": "first", "x": 100, "y": 40})
    await page.do({"type": "type", "text": " more"})
    assert (await page.values())["input"] == "first more"
    await page.do({"type": "type", "text": "new", "clear_first": True, "press_enter": True})
    assert (await page.values())["input"] == "new"
    assert (await page.log("keydown"))[-1]["key"] == "Enter"


async def test_chord_is_held_together(page: Page) -> None:
    await page.do({"type": "type", "text": "word", "x": 100, "y": 40})
    await page.do({"type": "key", "chords": [["CTRL", "A"], ["Delete"]]})
    assert (await page.values())["input"] == ""
    keys = [(e["key"], e["modifiers"]) for e in await page.log("keydown")][4:]
    assert keys == [("Control", "ctrlKey"), ("a", "ctrlKey"), ("Delete", "")]


async def test_key_sequence_and_repeat(page: Page) -> None:
    await page.do({"type": "click", "x": 100, "y": 40})
    await page.do({"type": "key", "chords": [["a"], ["b"]], "repeat": 2})
    assert (await page.values())["input"] == "abab"


async def test_unknown_key_presses_nothing_and_is_named(page: Page) -> None:
    answer = await page.client.step(
        page.env_id, {"type": "key", "chords": [["a"], ["Control", "Hyperspace"]]}
    )
    assert answer["error"] == "key: unknown key 'Hyperspace'"
    assert answer["screenshot"]
    assert await page.log("keydown") == []


async def test_hold_key(page: Page) -> None:
    await page.do({"type": "hold_key", "keys": ["shift"], "duration_ms": 50})
    assert [e["type"] for e in await page.log("keydown", "keyup")] == ["keydown", "keyup"]


async def test_native_select_can_be_chosen_by_clicks(page: Page) -> None:
    await page.do({"type": "click", "x": 850, "y": 315})
    await page.do({"type": "click", "x": 800, "y": 365})
    assert (await page.values())["select"] in ("two", "three")
    assert len(await page.log("change")) == 1


@pytest.mark.parametrize("point", [(1280, 10), (10, 720), (-1, 5), (5, -0.5), (99999, 1)])
async def test_outside_the_viewport_is_told_not_clamped(page: Page, point: tuple) -> None:
    answer = await page.client.step(page.env_id, {"type": "click", "x": point[0], "y": point[1]})
    assert "is outside the 1280x720 viewport" in answer["error"]
    assert answer["screenshot"]
    assert await page.log("click", "mousedown") == []


async def test_batch_stops_at_the_first_failure(page: Page) -> None:
    answer = await page.client.step(
        page.env_id,
        {"type": "click", "x": 450, "y": 100},
        {"type": "click", "x": 5000, "y": 100},
        {"type": "type", "text": "never"},
    )
    assert [r["status"] for r in answer["results"]] == ["ok", "error", "not_run"]
    assert answer["error"] == answer["results"][1]["error"]
    assert len(await page.log("click")) == 1
    assert await page.log("keydown") == []


async def test_screenshot_is_the_viewport(page: Page) -> None:
    answer = await page.do({"type": "screenshot"})
    image = PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"])))
    assert (image.format, image.size, answer["media_type"]) == ("JPEG", (1280, 720), "image/jpeg")


@pytest.mark.parametrize(
    "action",
    [
        {"type": "fly"},
        {"type": "click", "x": 1},
        {"type": "click", "x": 1, "y": 1, "button": "wheel"},
        {"type": "drag", "path": [{"x": 1, "y": 1}]},
        {"type": "drag", "path": [{"x": 1, "y": 1}, None]},
        {"type": "switch_tab"},
        {"type": "wait", "ms": -1},
        {"type": "type"},
        {"type": "screenshot", "extra": 1},
    ],
)
async def test_malformed_actions_are_refused_by_name(page: Page, action: dict[str, Any]) -> None:
    answer = await page.client.post("/step", {"env_id": page.env_id, "action": action}, status=422)
    assert "action" in answer["detail"][0]["loc"]
