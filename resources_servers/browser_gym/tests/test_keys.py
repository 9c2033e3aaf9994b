"""Key names: the spellings providers use, and that Playwright knows every name they lead to."""

import pytest

from conftest import Client
from resources_servers.browser_gym.keys import (
    _TABLE,
    UnknownKeyError,
    normalize_chord,
    normalize_key,
)


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("CTRL", "Control"),
        ("Control_L", "Control"),
        ("left ctrl", "Control"),
        ("cmd", "Meta"),
        ("Super_R", "Meta"),
        ("WIN", "Meta"),
        ("OPTION", "Alt"),
        ("ISO_Level3_Shift", "AltGraph"),
        ("Return", "Enter"),
        ("KP_Enter", "NumpadEnter"),
        ("\n", "Enter"),
        ("\t", "Tab"),
        (" ", "Space"),
        ("SPACEBAR", "Space"),
        ("esc", "Escape"),
        ("BackSpace", "Backspace"),
        ("Page_Down", "PageDown"),
        ("Next", "PageDown"),
        ("pgup", "PageUp"),
        ("ArrowUp", "ArrowUp"),
        ("KP_Left", "ArrowLeft"),
        ("KP_7", "7"),
        ("f5", "F5"),
        ("plus", "+"),
        ("underscore", "_"),
        ("<Tab>", "Tab"),
        ("'Enter'", "Enter"),
        ("a", "a"),
        ("A", "A"),
        ("+", "+"),
        ("é", "é"),
    ],
)
def test_spellings(spelling: str, key: str) -> None:
    assert normalize_key(spelling) == key


@pytest.mark.parametrize("name", ["", "Hyperspace", "F99", "ctrl+a", "  "])
def test_unknown_keys_are_named(name: str) -> None:
    with pytest.raises(UnknownKeyError) as caught:
        normalize_key(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("names", "chord"),
    [
        (["CTRL", "A"], ["Control", "a"]),
        (["A", "CTRL"], ["Control", "a"]),
        (["CTRL", "SHIFT", "T"], ["Control", "Shift", "KeyT"]),
        (["shift", "1"], ["Shift", "Digit1"]),
        (["ISO_Left_Tab"], ["Shift", "Tab"]),
        (["SHIFT", "A"], ["Shift", "A"]),
        (["alt", "Left"], ["Alt", "ArrowLeft"]),
    ],
)
def test_chords_put_modifiers_first_and_lower_letters(names: list[str], chord: list[str]) -> None:
    assert normalize_chord(names) == chord


async def test_playwright_knows_every_key(client: Client) -> None:
    seeded = await client.seed("about:blank")
    keys = sorted(set(_TABLE.values()) | {"Space"})
    for start in range(0, len(keys), 100):
        chords = [[key] for key in keys[start : start + 100]]
        answer = await client.step(seeded["env_id"], {"type": "key", "chords": chords})
        assert answer["error"] is None
