"""The keyboard: texts of all scripts in fields of all kinds, and every key that has a name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Client, ClientFactory
from resources_servers.browser_gym.browser import patience
from resources_servers.browser_gym.keys import (
    _TABLE,
    UnknownKeyError,
    is_on_keyboard,
    normalize_chord,
    normalize_key,
)
from tests.waiting import eventually

VIEWPORT = {"viewport_width": 1280, "viewport_height": 720}
FIELDS = {
    "plain": (100, 40),
    "area": (100, 180),
    "next": (100, 100),
    "line": (100, 280),
    "secret": (100, 340),
    "phone": (100, 400),
    "short": (100, 460),
    "controlled": (100, 520),
    "rtl": (500, 40),
    "editable": (500, 100),
    "editor": (500, 220),
}
TEXTS = (
    "emoji 👩‍👩‍👧 👍🏽 🇪🇺 🚀, 日本語と中文, 한글 \u1112\u1161\u11ab",
    "e\u0301 ñ n\u0303 Å, שלום עולם مرحبا, a\u200bb, \"'`&<b>\\{}",
)


class Page:
    """A session on the page of fields."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def step(self, *actions: dict[str, Any]) -> dict[str, Any]:
        return await self.client.step(self.env_id, *actions)

    async def type(self, field: str, text: str, **fields: Any) -> dict[str, Any]:
        x, y = FIELDS[field]
        answer = await self.step({"type": "type", "text": text, "x": x, "y": y, **fields})
        assert answer["error"] is None
        return await self.state()

    async def press(self, *chords: list[str]) -> list[list[str]]:
        """Press chords and return the key events that came of it."""
        answer = await self.step({"type": "key", "chords": list(chords)})
        assert answer["error"] is None, answer["error"]
        return (await self.state())["keys"]

    async def state(self) -> dict[str, Any]:
        dump = json.loads((await self.client.storage(self.env_id))["local_storage_dump"])
        state = json.loads(dump["state"])
        assert state["trusted"]
        return state


async def open_page(client: Client, site: str, query: str = "") -> Page:
    seeded = await client.seed(f"{site}/typing.html{query}", **VIEWPORT)
    return Page(client, seeded["env_id"])


@pytest.fixture
async def page(client: Client, site: str) -> Page:
    return await open_page(client, site)


async def test_every_text_arrives_in_every_field(page: Page) -> None:
    for text in TEXTS:
        for field in ("plain", "area", "secret", "controlled", "rtl", "editable"):
            state = await page.type(field, text, clear_first=True)
            assert state[field].replace("\u00a0", " ") == text, field
        assert (await page.type("editor", text, clear_first=True))["model"] == text


async def test_lines(page: Page) -> None:
    assert (await page.type("area", "one\r\ntwo\n\rthree"))["area"] == "one\ntwo\n\nthree"
    assert (await page.type("editor", "one\ntwo"))["model"] == "one\ntwo"
    state = await page.type("line", "sent\n")
    assert (state["line"], state["submitted"]) == ("sent", 1)
    state = await page.type("line", " twice", press_enter=True)
    assert (state["line"], state["submitted"]) == ("sent twice", 2)


async def test_tab_goes_to_the_next_field(page: Page) -> None:
    state = await page.type("plain", "first\tsecond\t")
    assert (state["plain"], state["next"], state["focus"]) == ("first", "second", "area")


async def test_fields_that_change_or_refuse_what_is_typed(page: Page) -> None:
    assert (await page.type("phone", "5551234567"))["phone"] == "(555) 123-4567"
    assert (await page.type("short", "abcdefgh"))["short"] == "abcde"
    assert (await page.type("controlled", "React-like"))["controlled"] == "React-like"


@pytest.mark.parametrize("piece", ["The quick brown fox, 0123456789. ", "日本語👩‍👩‍👧e\u0301"])
async def test_four_thousand_characters_arrive_exactly(page: Page, piece: str) -> None:
    text = (piece * 400)[:4000].strip()
    assert (await page.type("area", text))["area"] == text


DRAG = {"type": "drag", "path": [{"x": 450, "y": 240}, {"x": 600, "y": 240}]}


async def test_each_part_of_an_action_has_time_of_its_own(
    new_client: ClientFactory, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "MOST_TIMES", 1000)
    client = await new_client(action_timeout_s=3)
    page = await open_page(client, site, "?slow=250")
    # Each takes longer than a part of it may, on however fast a machine.
    state = await page.type("area", "x\n" * 7 + "y")
    assert state["area"] == "x\n" * 7 + "y"
    await page.press(*[["z"]] * 14)
    assert (await page.state())["area"] == "x\n" * 7 + "y" + "z" * 14
    assert (await page.step(DRAG))["error"] is None


async def test_an_action_that_takes_the_page_too_long_is_ended(
    new_client: ClientFactory, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "MOST_TIMES", 1)
    client = await new_client(action_timeout_s=3)
    page = await open_page(client, site, "?slow=250")
    answer = await page.step({"type": "type", "text": "x\n" * 20, "x": 100, "y": 180})
    assert "type: the page answers too slowly: the action was stopped after 3 s" in answer["error"]

    async def answers_again() -> bool:
        return (await page.step({"type": "click", "x": 100, "y": 100}))["error"] is None

    await eventually(answers_again)
    state = await page.state()
    assert 0 < len(state["area"]) < 30
    assert (state["focus"], state["next"]) == ("next", "")
    # One part that takes longer than any may.
    await page.step({"type": "navigate", "url": f"{site}/typing.html?slow=3500"})
    answer = await page.step({"type": "key", "chords": [["x"]]})
    assert answer["error"] == "key: the page did not respond within 3 s"


async def test_every_name_of_every_key_presses_it(page: Page) -> None:
    names = sorted(name for name in _TABLE if _TABLE[name] not in ("Enter", "Tab"))
    await page.type("area", "")
    for start in range(0, len(names), 60):
        some = names[start : start + 60]
        keys = await page.press(*[[spelled(name)] for name in some])
        pressed = [key for kind, key, _, _ in keys if kind == "keyup"][-len(some) :]
        assert pressed == [told(_TABLE[name]) for name in some]


def spelled(name: str) -> str:
    """Write a name of the table as some model would."""
    return name.upper() if len(name) % 2 else f"{name[:2]}_{name[2:]}".title()


def told(key: str) -> str:
    """Return what the page is told of a key."""
    numpad = {"Enter": "Enter", "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}
    return {"Space": " "}.get(key) or numpad.get(key.removeprefix("Numpad"), key)


async def test_chords_are_held_in_order_and_write_no_text(page: Page) -> None:
    await page.type("plain", "word")
    keys = await page.press(["a", "CTRL"], ["meta", "b"], ["ctrl", "shift", "K"])
    assert [key for key in keys if key[0] != "keyup"][-7:] == [
        ["keydown", "Control", "ControlLeft", "ctrlKey"],
        ["keydown", "a", "KeyA", "ctrlKey"],
        ["keydown", "Meta", "MetaLeft", "metaKey"],
        ["keydown", "b", "KeyB", "metaKey"],
        ["keydown", "Control", "ControlLeft", "ctrlKey"],
        ["keydown", "Shift", "ShiftLeft", "ctrlKey shiftKey"],
        ["keydown", "K", "KeyK", "ctrlKey shiftKey"],
    ]
    assert [key[1] for key in keys if key[0] == "keyup"][-3:] == ["K", "Shift", "Control"]
    assert (await page.state())["plain"] == "word"


async def test_keys_without_a_key_of_their_own(page: Page) -> None:
    await page.type("plain", "caf")
    await page.press(["é"], ["ß"], ["日"])
    assert (await page.state())["plain"] == "caféß日"
    await page.press(["iso_left_tab"])
    await page.press(["F13"])
    keys = (await page.state())["keys"]
    assert [key[:3] for key in keys[-2:]] == [["keydown", "F13", "F13"], ["keyup", "F13", "F13"]]
    assert ["keydown", "Tab", "Tab", "shiftKey"] in keys


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"type": "key", "chords": [["a"], ["ctrl", "Hyperspace"]]}, "unknown key 'Hyperspace'"),
        ({"type": "key", "chords": [["a"], ["ctrl", "é"]]}, "'é' has no key"),
        ({"type": "key", "chords": [["a"], ["\x07"]]}, "unknown key '\\x07'"),
        ({"type": "hold_key", "keys": ["a", "nope"], "duration_ms": 1}, "unknown key 'nope'"),
        ({"type": "hold_key", "keys": ["é"], "duration_ms": 1}, "'é' has no key"),
    ],
)
async def test_what_cannot_be_pressed_is_named_and_nothing_is(
    page: Page, action: dict[str, Any], words: str
) -> None:
    await page.type("plain", "")
    answer = await page.step(action)
    assert words in answer["error"]
    assert answer["screenshot"]
    assert (await page.state())["keys"] == []


async def test_held_key_goes_down_first_and_up_last(page: Page) -> None:
    await page.type("plain", "")
    await page.step({"type": "hold_key", "keys": ["a", "shift"], "duration_ms": 50})
    keys = [key[:2] for key in (await page.state())["keys"] if key[0] in ("keydown", "keyup")]
    assert keys == [["keydown", "Shift"], ["keydown", "A"], ["keyup", "A"], ["keyup", "Shift"]]
    assert (await page.state())["plain"] == "A"


@given(st.text(max_size=12))
def test_any_name_is_a_key_or_is_named_as_unknown(name: str) -> None:
    try:
        key = normalize_key(name)
    except UnknownKeyError as unknown:
        told_name = str(unknown).removeprefix("unknown key ")
        assert told_name == repr(name)
    else:
        assert normalize_key(key) == key
        assert key in _TABLE.values() or key == "Space" or (len(key) == 1 and key.isprintable())


@given(st.lists(st.sampled_from(["ctrl", "SHIFT", "alt", "cmd", "A", "b", "Tab", "é", "F5"])))
def test_a_chord_has_modifiers_first_and_only_keys_that_can_be_held(names: list[str]) -> None:
    try:
        chord = normalize_chord(names)
    except UnknownKeyError:
        assert "é" in names
        return
    modifiers = [key in ("Control", "Shift", "Alt", "Meta") for key in chord]
    assert modifiers == sorted(modifiers, reverse=True)
    assert len(chord) == len(names)
    assert len(chord) <= 1 or all(is_on_keyboard(key) for key in chord)
