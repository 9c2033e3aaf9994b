"""The mouse, on a page of widgets that work with trusted events only as a person would cause."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conftest import Client, ClientFactory
from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.input import Input

VIEWPORT = {"viewport_width": 1280, "viewport_height": 720}
PAD = {"x": 100, "y": 50}


def drag(*points: tuple[float, float], **fields: Any) -> dict[str, Any]:
    return {"type": "drag", "path": [{"x": x, "y": y} for x, y in points], **fields}


def click(x: float, y: float, **fields: Any) -> dict[str, Any]:
    return {"type": "click", "x": x, "y": y, **fields}


class Page:
    """A session on the page of widgets."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def do(self, *actions: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.step(self.env_id, *actions)
        assert answer["error"] is None, answer["error"]
        return answer

    async def fails(self, action: dict[str, Any]) -> str:
        answer = await self.client.step(self.env_id, action)
        assert answer["error"]
        assert answer["screenshot"]
        return answer["error"]

    async def _stored(self, name: str) -> Any:
        dump = await self.client.storage(self.env_id)
        return json.loads(json.loads(dump["local_storage_dump"])[name])

    async def state(self) -> dict[str, Any]:
        return await self._stored("state")

    async def log(self, *types: str) -> list[dict[str, Any]]:
        log = await self._stored("log")
        assert all(event["trusted"] for event in log)
        return [event for event in log if event["type"] in types]


async def open_page(client: Client, site: str) -> Page:
    return Page(client, (await client.seed(f"{site}/mouse.html", **VIEWPORT))["env_id"])


@pytest.fixture
async def page(client: Client, site: str) -> Page:
    return await open_page(client, site)


@pytest.mark.parametrize(
    ("button", "number", "bit", "last"),
    [
        ("left", 0, 1, "click"),
        ("middle", 1, 4, "auxclick"),
        ("right", 2, 2, "auxclick"),
        ("back", 3, 8, "auxclick"),
        ("forward", 4, 16, "auxclick"),
    ],
)
async def test_buttons_and_modifiers_of_each_button(
    page: Page, button: str, number: int, bit: int, last: str
) -> None:
    await page.do({"type": "click", **PAD, "button": button, "modifiers": ["Shift", "Alt"]})
    log = await page.log("pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick")
    seen = [(e["type"], e["button"], e["buttons"]) for e in log]
    assert seen == [
        ("pointerdown", number, bit),
        ("mousedown", number, bit),
        ("pointerup", number, 0),
        ("mouseup", number, 0),
        (last, number, 0),
    ]
    assert {e["held"] for e in log} == {"shiftKey altKey"}
    assert (await page.state())["menu"] == (1 if button == "right" else 0)
    await page.do(
        {"type": "mouse_down", **PAD, "button": button}, {"type": "mouse_up", "button": button}
    )
    log = await page.log("mousedown", "mouseup")
    assert [(e["button"], e["buttons"], e["held"]) for e in log[2:]] == [
        (number, bit, ""),
        (number, 0, ""),
    ]


async def test_side_buttons_go_back_and_forward(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/second.html", **VIEWPORT))["env_id"]
    page = Page(client, env_id)
    await page.do({"type": "navigate", "url": f"{site}/mouse.html"})
    back = await page.do({"type": "click", **PAD, "button": "back"})
    assert back["title"] == "Second"
    forward = await page.do({"type": "click", **PAD, "button": "forward"})
    assert forward["title"] == "Mouse"


async def test_click_counts_select_words_and_paragraphs(page: Page) -> None:
    await page.do(click(60, 350, count=2))
    assert (await page.state())["selected"].strip() == "two"
    await page.do(click(60, 350, count=3))
    assert (await page.state())["selected"].strip() == "One two three four."
    assert [e["detail"] for e in await page.log("click")] == [1, 2, 1, 2, 3]


async def test_text_is_selected_by_drag_and_by_shift_click(page: Page) -> None:
    await page.do(drag((21, 350), (84, 350)))
    by_drag = (await page.state())["selected"]
    await page.do(click(300, 300), click(21, 350), click(84, 350, modifiers=["Shift"]))
    assert by_drag == (await page.state())["selected"] != ""
    assert "One two three four.".startswith(by_drag)


async def test_modifiers_are_held_around_any_mouse_action_and_released(page: Page) -> None:
    held = {"modifiers": ["Control", "Meta"]}
    await page.do({"type": "move", "x": 30, "y": 30, **held})
    await page.do({"type": "scroll", **PAD, "dy": 10, **held})
    await page.do(drag((30, 30), (60, 60), **held))
    for type_ in ("mousemove", "wheel", "mousedown", "mouseup"):
        assert (await page.log(type_))[-1]["held"] == "ctrlKey metaKey"
    outside = [
        {"type": "move", "x": 5000, "y": 30, **held},
        {"type": "scroll", "x": 30, "y": -1, "dy": 10, **held},
        click(5000, 30, **held),
        drag((30, 30), (1280, 30), **held),
    ]
    for action in outside:
        assert "is outside the 1280x720 viewport" in await page.fails(action)
    await page.do(click(30, 30))
    assert (await page.log("click"))[-1]["held"] == ""
    keys = [e["type"] for e in await page.log("keydown", "keyup")]
    assert keys.count("keydown") == keys.count("keyup")


async def test_long_press(page: Page) -> None:
    await page.do(click(300, 50))
    assert (await page.state())["long"] == 0
    await page.do(click(300, 50, hold_ms=600))
    assert (await page.state())["long"] == 1
    await page.do(click(300, 50, hold_ms=600, count=2))  # only the second press is long
    assert (await page.state())["long"] == 2
    assert [e["detail"] for e in await page.log("click")] == [1, 1, 1, 2]


async def test_html5_drag_and_drop_over_several_steps(page: Page) -> None:
    await page.do({"type": "mouse_down", "x": 430, "y": 50})
    await page.do({"type": "move", "x": 470, "y": 60})
    await page.do({"type": "move", "x": 560, "y": 70})
    await page.do({"type": "move", "x": 570, "y": 70})
    await page.do({"type": "mouse_up"})
    state = await page.state()
    assert (state["dropped"], state["effect"]) == (["card", '{"id": 7}'], "move")


async def test_html5_drag_and_drop_with_data_and_modifier(page: Page) -> None:
    await page.do(drag((430, 50), (600, 80), modifiers=["Control"]))
    state = await page.state()
    assert (state["dropped"], state["effect"]) == (["card", '{"id": 7}'], "copy")
    order = [e["type"] for e in await page.log("mousedown", "dragstart", "drop", "dragend")]
    assert order == ["mousedown", "dragstart", "drop", "dragend"]
    assert len(await page.log("dragover")) >= 2


async def test_drags_that_libraries_and_widgets_follow(page: Page) -> None:
    from_the_pointer = {"type": "drag", "path": [None, {"x": 120, "y": 150}]}
    assert "has not been placed yet" in await page.fails(from_the_pointer)
    await page.do({"type": "move", "x": 24, "y": 150}, from_the_pointer)
    assert 40 <= int((await page.state())["range"]) <= 60
    await page.do(drag((30, 240), (170, 240), (310, 240)))
    state = await page.state()
    assert state["strokes"] >= 20
    assert state["ink"] == [True, True, True]
    await page.do(drag((420, 180), (480, 230), (620, 380)))
    assert (await page.state())["ball"] == [600, 360]


async def test_button_is_up_after_a_drag_that_took_too_long(
    new_client: ClientFactory, site: str
) -> None:
    page = await open_page(await new_client(action_timeout_s=2), site)
    held = {"button": "middle", "modifiers": ["Control"]}
    assert "did not respond within" in await page.fails(drag((265, 120), (350, 120), **held))
    await page.do({"type": "move", **PAD})
    assert [e["buttons"] for e in await page.log("mouseup")] == [0]
    last = (await page.log("mousemove"))[-1]
    assert (last["buttons"], last["held"]) == (0, "")


async def test_pointer_is_in_the_same_place_in_a_new_tab(client: Client, site: str) -> None:
    page = await open_page(client, site)
    await page.do({"type": "move", "x": 300, "y": 50})
    await page.do({"type": "new_tab", "url": f"{site}/mouse.html"})
    await page.do({"type": "mouse_down"}, {"type": "mouse_up"})
    log = await page.log("mousedown", "mouseup")
    assert [(e["x"], e["y"], e["target"]) for e in log] == [(300, 50, "long")] * 2
    await page.do({"type": "scroll", "dy": 5})
    assert [(e["x"], e["y"]) for e in await page.log("wheel")] == [(300, 50)]


async def test_scroll_reaches_the_container_under_the_pointer_then_its_parent(page: Page) -> None:
    await page.do({"type": "scroll", "x": 800, "y": 100, "dx": 50, "dy": 60})
    state = await page.state()
    assert (state["inner"], state["outer"]) == ([50, 60], 0)
    await page.do({"type": "scroll", "x": 800, "y": 100, "dy": 5000})
    inner = (await page.state())["inner"]
    await page.do({"type": "scroll", "x": 800, "y": 100, "dy": 120})
    state = await page.state()
    assert (state["inner"], state["outer"]) == (inner, 120)
    await page.do({"type": "scroll", "x": 1000, "y": 300, "dy": -5000})
    assert (await page.state())["outer"] == 0


@pytest.mark.parametrize("how", [{"dx": 80}, {"dy": 80, "modifiers": ["Shift"]}])
async def test_horizontal_scroll(page: Page, how: dict[str, Any]) -> None:
    await page.do({"type": "scroll", "x": 800, "y": 360, **how})
    assert (await page.state())["strip"] == 80


@given(st.floats() | st.integers(), st.floats() | st.integers())
def test_any_point_is_inside_or_refused(x: float, y: float) -> None:
    width, height = 1280, 720
    driver = Input(None, None, None, None, width=width, height=height)  # type: ignore[arg-type]
    try:
        move = parse_action({"type": "move", "x": x, "y": y})
        assert move.type == "move"
        assert move.x is not None
        assert move.y is not None
        driver.check_inside(move.x, move.y)
    except (ValidationError, ActionError):
        inside = False
    else:
        inside = True
    assert inside is (0 <= x < width and 0 <= y < height)
