"""OpenAI's actions and our function tools, to canonical actions."""

from pathlib import Path
from typing import Any

import pytest

from resources_servers.browser_gym.actions import parse_action
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    action_to_canonical,
    browser_function_tools,
    function_to_canonical,
)
from tests.documented import first_column
from tests.simulators.openai_items import ACTION_FIELDS

README = Path(__file__).resolve().parents[1] / "README.md"


ACTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "click", "button": "left", "x": 3, "y": 4}, {"button": "left", "x": 3, "y": 4}),
    ({"type": "click", "button": "wheel", "x": 3, "y": 4}, {"button": "middle"}),
    ({"type": "click", "button": "back", "x": 3, "y": 4}, {"button": "back"}),
    (
        {"type": "click", "button": "left", "x": 3, "y": 4, "keys": ["CTRL", "SHIFT"]},
        {"modifiers": ["Control", "Shift"]},
    ),
    ({"type": "double_click", "x": 3, "y": 4, "keys": None}, {"type": "click", "count": 2}),
    (
        {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "keys": ["ALT"]},
        {"path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "modifiers": ["Alt"]},
    ),
    (
        {"type": "drag", "path": [[1, 2], [3, 4]]},
        {"path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    ),
    ({"type": "keypress", "keys": ["CTRL", "A"]}, {"type": "key", "chords": [["CTRL", "A"]]}),
    ({"type": "keypress", "keys": ["DOWN", "DOWN"]}, {"chords": [["DOWN"], ["DOWN"]]}),
    (
        {"type": "keypress", "keys": ["CTRL", "K", "S"]},
        {"chords": [["CTRL", "K"], ["CTRL", "S"]]},
    ),
    ({"type": "keypress", "keys": ["SHIFT"]}, {"chords": [["SHIFT"]]}),
    ({"type": "keypress", "keys": ["ctrl+shift+t"]}, {"chords": [["ctrl", "shift", "t"]]}),
    ({"type": "keypress", "keys": ["ctrl++"]}, {"chords": [["ctrl", "+"]]}),
    ({"type": "keypress", "keys": ["CTRL", "+"]}, {"chords": [["CTRL", "+"]]}),
    ({"type": "move", "x": 3, "y": 4}, {"type": "move", "x": 3, "y": 4}),
    (
        {"type": "scroll", "x": 3, "y": 4, "scroll_x": 5, "scroll_y": -6},
        {"dx": 5, "dy": -6, "x": 3, "y": 4},
    ),
    ({"type": "type", "text": "a\nb"}, {"type": "type", "text": "a\nb"}),
    ({"type": "wait"}, {"type": "wait", "ms": 2000}),
    ({"type": "screenshot"}, {"type": "screenshot"}),
    (
        {"type": "click", "x": 3, "y": 4, "native": {"type": "click", "x": 3.4, "y": 4.5}},
        {"x": 3.4, "y": 4.5},
    ),
]


@pytest.mark.parametrize(("native", "canonical"), ACTIONS)
def test_actions(native: dict[str, Any], canonical: dict[str, Any]) -> None:
    action = action_to_canonical(native)
    parse_action(action)
    assert {key: action[key] for key in canonical} == canonical


def test_all_documented_actions_are_tested() -> None:
    assert {native["type"] for native, _ in ACTIONS} == ACTION_FIELDS.keys()
    assert first_column(README, "OpenAI's action") == ACTION_FIELDS.keys()


@pytest.mark.parametrize(
    ("native", "words"),
    [
        ({"type": "teleport"}, "no action of type 'teleport'"),
        ({}, "no action of type None"),
        ({"type": "screenshot", "native": {"type": "zoom"}}, "no action of type 'zoom'"),
        ({"type": "click", "button": "left", "x": 3}, "click: 'y' is missing"),
        ({"type": "click", "button": "purple", "x": 3, "y": 4}, "unknown button 'purple'"),
        ({"type": "click", "x": "left", "y": 4}, "click: x:"),
        ({"type": "click", "x": 3, "y": 4, "keys": ["A"]}, "only modifier keys"),
        ({"type": "click", "x": 3, "y": 4, "keys": ["HYPER"]}, "unknown key 'HYPER'"),
        ({"type": "drag", "path": [[1, 2]]}, "drag: path"),
        ({"type": "drag", "path": "far"}, "drag:"),
        ({"type": "keypress", "keys": []}, "'keys' is empty"),
        ({"type": "keypress", "keys": "ENTER"}, "'keys' is a list, not 'ENTER'"),
        ({"type": "screenshot", "native": "click"}, "an action is an object, not 'click'"),
        ({"type": "keypress"}, "keypress: 'keys' is missing"),
        ({"type": "type", "text": None}, "type: text"),
    ],
)
def test_unusable_actions_are_named_to_the_model(native: dict[str, Any], words: str) -> None:
    with pytest.raises(UnusableCall) as caught:
        action_to_canonical(native)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments", "canonical"),
    [
        ("navigate", '{"url": "example.com"}', {"type": "navigate", "url": "example.com"}),
        ("go_back", "", {"type": "go_back"}),
        ("new_tab", '{"url": null}', {"type": "new_tab"}),
        ("switch_tab", '{"index": 1}', {"type": "switch_tab", "index": 1}),
        ("list_tabs", "{}", {"type": "list_tabs"}),
    ],
)
def test_functions(name: str, arguments: str, canonical: dict[str, Any]) -> None:
    assert function_to_canonical(name, arguments) == canonical


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("click", "{}", "there is no tool named 'click'"),
        ("navigate", "{", "not JSON"),
        ("navigate", "[1]", "not a JSON object"),
        ("navigate", "{}", "navigate: url"),
        ("go_back", '{"steps": 2}', "go_back: steps"),
        ("switch_tab", "{}", "switch_tab: give exactly one"),
        ("switch_tab", f'{{"index": {10**30}}}', "switch_tab: index"),
        ("navigate", "[" * 100_000, "not JSON"),
        ("navigate", r'{"url": "\ud800"}', "not JSON"),
        ("switch_tab", '{"index": NaN}', "not JSON"),
    ],
)
def test_unusable_functions_are_named(name: str, arguments: str, words: str) -> None:
    with pytest.raises(UnusableCall) as caught:
        function_to_canonical(name, arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "action",
    [
        {"type": "x" * 10**6},
        {"type": "click", "x": 1, "y": 1, "button": "x" * 10**6},
        {"type": "click", "x": 1, "y": 1, "keys": ["x" * 10**6]},
    ],
)
def test_what_is_told_of_a_call_is_short(action: dict[str, Any]) -> None:
    with pytest.raises(UnusableCall) as caught:
        action_to_canonical(action)
    assert len(str(caught.value)) < 1000


def test_every_offered_function_has_a_canonical_action() -> None:
    samples = {"url": "https://example.com", "index": 0}
    for tool in browser_function_tools():
        properties = tool["parameters"]["properties"]
        action = {"type": tool["name"]} | {name: samples[name] for name in properties}
        parse_action(action)
