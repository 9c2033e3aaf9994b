"""Gemini's functions and the actions they stand for, both ways."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_api_models.gemini_model.actions import Action, Defaults, decode, encode
from responses_api_models.gemini_model.functions import (
    CURRENT_FUNCTIONS,
    LEGACY_FUNCTIONS,
    FunctionSet,
    Viewport,
    function_set_of,
)
from tests.documented import first_column
from tests.simulators.gemini_rules import CURRENT, LEGACY

Json = dict[str, Any]

README = Path(__file__).resolve().parents[1] / "README.md"

VIEW = Viewport(1280, 720)
ASKED = Defaults()


def computer(name: str, **fields: Any) -> Action:
    return Action("computer", name, fields)


def function(name: str, **fields: Any) -> Action:
    return Action("function", name, fields)


AT = {"x": 500, "y": 250}
PX = {"x": 640, "y": 180}
DECODED = [
    ("click", AT, computer("click", **PX, button="left")),
    ("click_at", AT, computer("click", **PX, button="left")),
    ("right_click", AT, computer("click", **PX, button="right")),
    ("middle_click", AT, computer("click", **PX, button="wheel")),
    ("double_click", AT, computer("double_click", **PX)),
    ("triple_click", AT, function("click", **PX, button="left", count=3)),
    ("mouse_down", AT, function("mouse_down", **PX, button="left")),
    ("mouse_up", AT, function("mouse_up", **PX, button="left")),
    ("move", AT, computer("move", **PX)),
    ("hover_at", AT, computer("move", **PX)),
    ("type", {"text": "a\nb"}, computer("type", text="a\nb")),
    ("type", {"text": "a", "press_enter": True}, function("type", text="a", press_enter=True)),
    (
        "type_text_at",
        {**AT, "text": "a"},
        function("type", **PX, text="a", clear_first=True, press_enter=True),
    ),
    (
        "type_text_at",
        {**AT, "text": "a", "clear_before_typing": False, "press_enter": False},
        function("type", **PX, text="a", clear_first=False, press_enter=False),
    ),
    (
        "drag_and_drop",
        {"start_x": 0, "start_y": 0, "end_x": 999, "end_y": 999},
        computer("drag", path=[{"x": 0, "y": 0}, {"x": 1278, "y": 719}]),
    ),
    (
        "drag_and_drop",
        {"x": 0, "y": 0, "destination_x": 999, "destination_y": 999},
        computer("drag", path=[{"x": 0, "y": 0}, {"x": 1278, "y": 719}]),
    ),
    ("wait", {}, function("wait", ms=1000)),
    ("wait", {"seconds": 2.5}, function("wait", ms=2500)),
    ("wait_5_seconds", {}, function("wait", ms=5000)),
    ("press_key", {"key": "Enter"}, computer("keypress", keys=["Enter"])),
    ("press_key", {"key": "+"}, computer("keypress", keys=["+"])),
    ("hotkey", {"keys": ["CTRL", "A"]}, computer("keypress", keys=["CTRL", "A"])),
    ("key_combination", {"keys": "control+c"}, computer("keypress", keys=["control", "c"])),
    ("key_combination", {"keys": "Control++"}, computer("keypress", keys=["Control", "+"])),
    ("key_down", {"key": "Shift"}, function("key_down", key="Shift")),
    ("key_up", {"key": "Shift"}, function("key_up", key="Shift")),
    ("take_screenshot", {}, computer("screenshot")),
    ("open_web_browser", {}, computer("screenshot")),
    (
        "scroll",
        {**AT, "direction": "down"},
        computer("scroll", **PX, scroll_x=0, scroll_y=300),
    ),
    (
        "scroll",
        {**AT, "direction": "left", "magnitude_in_pixels": 120},
        computer("scroll", **PX, scroll_x=-120, scroll_y=0),
    ),
    (
        "scroll",
        {**AT, "direction": "up", "magnitude": 500},
        computer("scroll", **PX, scroll_x=0, scroll_y=-360),
    ),
    (
        "scroll_at",
        {**AT, "direction": "down"},
        computer("scroll", **PX, scroll_x=0, scroll_y=576),
    ),
    (
        "scroll_at",
        {**AT, "direction": "right", "magnitude": 100},
        computer("scroll", **PX, scroll_x=128, scroll_y=0),
    ),
    (
        "scroll_document",
        {"direction": "up"},
        computer("scroll", x=640, y=360, scroll_x=0, scroll_y=-576),
    ),
    ("navigate", {"url": "https://a.example"}, function("navigate", url="https://a.example")),
    ("search", {}, function("navigate", url="https://www.google.com/")),
    ("go_back", {}, function("go_back")),
    ("go_forward", {}, function("go_forward")),
]


@pytest.mark.parametrize(("name", "args", "expected"), DECODED)
def test_each_documented_function(name: str, args: Json, expected: Action) -> None:
    assert decode(name, {**args, "intent": "Because."}, VIEW, ASKED) == expected


def test_all_documented_functions_are_known() -> None:
    assert (CURRENT_FUNCTIONS, LEGACY_FUNCTIONS) == (CURRENT, LEGACY)
    assert {name for name, _, _ in DECODED} == CURRENT | LEGACY
    assert first_column(README, "Gemini's function") == CURRENT | LEGACY


def test_defaults_are_settings() -> None:
    defaults = Defaults(press_enter=False, search_url="https://find.example/")
    typed = decode("type_text_at", {**AT, "text": "a"}, VIEW, defaults)
    assert typed.fields["press_enter"] is False
    assert decode("search", {}, VIEW, defaults).fields == {"url": "https://find.example/"}


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        # A missing point means the pointer; what is no number is for the agent to name.
        ("click", {}, function("click", button="left")),
        ("click_at", {"x": "left", "y": 250}, function("click", x="left", y=180, button="left")),
        ("double_click", {}, function("click", button="left", count=2)),
        ("move", {"x": True, "y": 1}, function("move", x=True, y=0)),
        ("scroll", {"direction": "down"}, function("scroll", dx=0, dy=300)),
        ("scroll", {**AT, "direction": "in"}, function("scroll", **PX, direction="in")),
        ("drag_and_drop", {"start_x": 0}, function("drag", path=[{"x": 0}, {}])),
        ("type", {}, function("type", press_enter=False)),
        ("press_key", {}, function("key", chords=[None])),
        ("navigate", {}, function("navigate")),
        ("wait", {"seconds": "long"}, function("wait", ms="long")),
        ("teleport", {"where": "Mars"}, function("teleport", where="Mars")),
        ("wait", {"seconds": 1e308}, function("wait", ms=1e308)),
        ("click", {"x": 1e308, "y": 0}, function("click", x=1e308, y=0, button="left")),
        ("click", {"x": 10**400, "y": 0}, function("click", x=10**400, y=0, button="left")),
        # Beyond the grid: the page driver says that it is outside.
        ("click", {"x": 1000, "y": -1}, computer("click", x=1280, y=-1, button="left")),
    ],
)
def test_unusable_arguments_are_passed_on(name: str, args: Json, expected: Action) -> None:
    assert decode(name, args, VIEW, ASKED) == expected


# Round trips --------------------------------------------------------------------------------------

GRID = st.integers(0, 999)
TEXTS = st.text('aZ ä+\n"\\😀', max_size=20)
KEYS = st.one_of(st.sampled_from(["Control", "Shift", "Enter", "F5", "+", "-", "a", "A", "ä", " "]))
DIRECTIONS = st.sampled_from(["up", "down", "left", "right"])
POINTS = {"x": GRID, "y": GRID}


def arguments(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(fields)


CURRENT_ARGUMENTS = {
    **dict.fromkeys(
        ("click", "double_click", "triple_click", "middle_click", "right_click"),
        arguments(**POINTS),
    ),
    **dict.fromkeys(("mouse_down", "mouse_up", "move"), arguments(**POINTS)),
    "type": arguments(text=TEXTS, press_enter=st.booleans()),
    "drag_and_drop": arguments(start_x=GRID, start_y=GRID, end_x=GRID, end_y=GRID),
    "wait": arguments(seconds=st.integers(0, 60)),
    "press_key": arguments(key=KEYS),
    **dict.fromkeys(("key_down", "key_up"), arguments(key=KEYS)),
    "hotkey": arguments(keys=st.lists(KEYS, min_size=2, max_size=4)),
    "take_screenshot": arguments(),
    "scroll": arguments(**POINTS, direction=DIRECTIONS, magnitude_in_pixels=st.integers(1, 999)),
    "navigate": arguments(url=TEXTS),
    **dict.fromkeys(("go_back", "go_forward"), arguments()),
}
LEGACY_ARGUMENTS = {
    **dict.fromkeys(("click_at", "hover_at"), arguments(**POINTS)),
    "type_text_at": arguments(
        **POINTS, text=TEXTS, press_enter=st.booleans(), clear_before_typing=st.booleans()
    ),
    "drag_and_drop": arguments(x=GRID, y=GRID, destination_x=GRID, destination_y=GRID),
    # A last plus is the plus key, so only there can it be.
    "key_combination": arguments(
        keys=st.tuples(
            st.lists(KEYS.filter(lambda key: key != "+"), min_size=1, max_size=3), KEYS
        ).map(lambda keys: "+".join([*keys[0], keys[1]]))
    ),
    "scroll_at": arguments(**POINTS, direction=DIRECTIONS, magnitude=st.integers(2, 999)),
    "open_web_browser": arguments(),
    "wait_5_seconds": arguments(),
    "navigate": arguments(url=TEXTS),
    **dict.fromkeys(("go_back", "go_forward"), arguments()),
    # These two have no words of their own once decoded.
    "search": arguments(),
    "scroll_document": arguments(direction=DIRECTIONS),
}
ONE_WAY = {"search", "scroll_document"}
# A grid finer than the pixels makes several fields the same pixel; a coarser one skips pixels.
VIEWS = st.sampled_from([VIEW, Viewport(1440, 900), Viewport(800, 600), Viewport(1921, 1083)])


def check_round_trip(
    functions: FunctionSet, choices: dict[str, st.SearchStrategy[Json]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(choices)))
    args, view = data.draw(choices[name]), data.draw(VIEWS)
    action = decode(name, args, view, ASKED)
    encoded = encode(action, view, functions)
    assert encoded is not None
    assert decode(*encoded, view, ASKED) == action
    if view.width >= 1000 and view.height >= 1000 and name not in ONE_WAY:
        assert encoded == (name, args)


@settings(deadline=None)
@given(st.data())
def test_current_functions_round_trip(data: st.DataObject) -> None:
    assert set(CURRENT_ARGUMENTS) == CURRENT
    check_round_trip("current", CURRENT_ARGUMENTS, data)


@settings(deadline=None)
@given(st.data())
def test_legacy_functions_round_trip(data: st.DataObject) -> None:
    assert set(LEGACY_ARGUMENTS) == LEGACY
    check_round_trip("legacy", LEGACY_ARGUMENTS, data)


@settings(deadline=None)
@given(st.integers(200, 4000), st.data())
def test_a_pixel_is_at_most_one_grid_field_away(size: int, data: st.DataObject) -> None:
    px = data.draw(st.integers(0, size - 1))
    view = Viewport(size, size)
    back = view.x_px(view.x_grid(px))
    assert view.y_px(view.y_grid(px)) == back
    assert back == px if size <= 1000 else abs(back - px) <= size / 1000
    assert 0 <= view.x_grid(px) <= 999


@pytest.mark.parametrize("functions", ["current", "legacy"])
@pytest.mark.parametrize(
    "action",
    [
        computer("drag", path=[{"x": 0, "y": 0}] * 3),
        computer("scroll", x=1, y=1, scroll_x=5, scroll_y=5),
        function("zoom", region={}),
        function("type", text="a", clear_first=True),
        function("wait", ms="long"),
        computer("click", x=1, y=1, button="back"),
    ],
)
def test_what_a_set_cannot_say(functions: FunctionSet, action: Action) -> None:
    assert encode(action, VIEW, functions) is None


@pytest.mark.parametrize(
    ("model", "functions"),
    [
        ("gemini-2.5-computer-use-preview-10-2025", "legacy"),
        ("gemini-3-flash-preview", "legacy"),
        ("gemini-3.1-pro-preview", "legacy"),
        ("gemini-3.5-flash", "current"),
        ("models/gemini-3.8-flash", "current"),
        ("gemini-4-argon", "current"),
        ("my-tuned-model", "current"),
    ],
)
def test_the_function_set_of_a_model(model: str, functions: FunctionSet) -> None:
    assert function_set_of(model) == functions
