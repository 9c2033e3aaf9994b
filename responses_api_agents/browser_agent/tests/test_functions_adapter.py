"""Canonical actions as function tools, and what comes back of them."""

import json
from typing import Any

import orjson
import pytest

from resources_servers.browser_gym.actions import parse_action
from responses_api_agents.browser_agent.adapters.base import CallOutcome, Screen
from responses_api_agents.browser_agent.adapters.functions import (
    Coordinates,
    FunctionsAdapter,
    action_tools,
    from_per_mille,
)
from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall

SCREEN = Screen("AAAA", "image/jpeg", 1280, 720, "http://site/")


def adapter(coordinates: Coordinates = "pixels", **settings: Any) -> FunctionsAdapter:
    return FunctionsAdapter(
        coordinates=coordinates,
        **{
            "model": "m",
            "instructions": None,
            "browser_functions": True,
            "history": HistoryPolicy(),
            **settings,
        },
    )


def reply(*calls: tuple[str, Any]) -> dict[str, Any]:
    output = [
        {
            "type": "function_call",
            "call_id": f"c{index}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    return {"id": "r", "output": output}


def test_tools_are_named_after_actions_and_small() -> None:
    tools = action_tools(1280, 720)
    assert len(json.dumps(tools)) < 6000
    samples = {
        "x": 1, "y": 2, "dx": 3, "dy": 4, "text": "a", "chords": [["a"]], "repeat": 2, "ms": 5,
        "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "button": "left", "count": 2,
        "modifiers": ["Shift"], "hold_ms": 0, "clear_first": True, "press_enter": True,
        "region": {"x0": 0, "y0": 0, "x1": 100, "y1": 100},
    }  # fmt: skip
    for tool in tools:
        properties = tool["parameters"]["properties"]
        parse_action({"type": tool["name"], **{name: samples[name] for name in properties}})
        parse_action(
            {"type": tool["name"], **{n: samples[n] for n in tool["parameters"]["required"]}}
        )
        assert "$ref" not in json.dumps(tool)
        assert "title" not in json.dumps(tool)


def test_first_request_offers_functions_alone() -> None:
    request = adapter("per_mille").start({"input": "Do it."}, SCREEN)
    assert {tool["type"] for tool in request["tools"]} == {"function"}
    names = [tool["name"] for tool in request["tools"]]
    assert names[:2] == ["click", "move"]
    assert "navigate" in names
    assert "the screen is 1000 wide" in json.dumps(request["tools"])


@pytest.mark.parametrize(
    ("fields", "pixels"),
    [
        ({"x": 0, "y": 999}, {"x": 0, "y": 719.28}),
        ({"x": 500, "y": 500}, {"x": 640, "y": 360}),
        ({"path": [{"x": 1, "y": 1}]}, {"path": [{"x": 1.28, "y": 0.72}]}),
        ({"dx": -250, "dy": 2000}, {"dx": -320, "dy": 1440}),
        (
            {"region": {"x0": 0, "y0": 0, "x1": 1000, "y1": 1000}},
            {"region": {"x0": 0, "y0": 0, "x1": 1280, "y1": 720}},
        ),
        ({"text": "x", "ms": 5, "x": "left"}, {"text": "x", "ms": 5, "x": "left"}),
    ],
)
def test_thousandths_of_the_screen(fields: dict[str, Any], pixels: dict[str, Any]) -> None:
    assert from_per_mille(fields, 1280, 720) == pixels


@pytest.mark.parametrize("value", [-1, 1000, 1280])
def test_points_outside_are_named_in_the_models_own_units(value: float) -> None:
    with pytest.raises(UnusableCall, match=f"y is {value}, which is not from 0 to below 1000"):
        from_per_mille({"x": 1, "y": value}, 1280, 720)


def test_calls_become_actions() -> None:
    model = adapter("per_mille")
    model.start({"input": "Do it."}, SCREEN)
    read = model.read(
        reply(("click", {"x": 100, "y": 100}), ("key", {"chords": [["Enter"]], "repeat": None}))
    )
    assert [call.actions for call in read.calls] == [
        [{"type": "click", "x": 128, "y": 72}],
        [{"type": "key", "chords": [["Enter"]]}],
    ]


def test_arguments_beyond_all_sense_are_told_to_the_model() -> None:
    model = adapter("per_mille")
    model.start({"input": "Do it."}, SCREEN)
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    arguments = [{"dx": 10**400}, {"dx": 1e308}, {"x": 10**300, "y": 1}, {"x": deep, "y": 1}]
    read = model.read(reply(*(("scroll", fields) for fields in arguments)))
    assert all(call.error and not call.actions for call in read.calls)


@pytest.mark.parametrize("name", ["key", "set_value"])
def test_actions_can_be_sent_on(name: str) -> None:
    """What a model says can hold texts and numbers that JSON has no place for."""
    arguments = {
        "key": r'{"chords": [["\ud800"]]}',
        "set_value": f'{{"ref": "e1", "value": {10**30}}}',
    }[name]
    call = {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments}
    model = adapter()
    model.start({"input": "Do it."}, SCREEN)
    (read,) = model.read({"id": "r", "output": [call]}).calls
    orjson.dumps([read.actions, read.error])


def test_outputs_are_texts_and_the_screen_follows_them() -> None:
    model = adapter()
    model.start({"input": "Do it."}, SCREEN)
    read = model.read(reply(("click", {"x": 5000, "y": 1}), ("wait", {"ms": 1})))
    after = Screen("BBBB", "image/jpeg", 1280, 720, "http://site/2")
    items = model.answer(
        read,
        [
            CallOutcome(after, ["Action failed: outside"], failed=True),
            CallOutcome(after, ["Not executed"], failed=True),
        ],
    )
    assert [item.get("output") for item in items[:2]] == [
        "error: Action failed: outside",
        "error: Not executed",
    ]
    assert [part["type"] for part in items[2]["content"]] == ["input_text", "input_image"]
    assert "http://site/2" in items[2]["content"][0]["text"]
    assert model.next()["input"][-1] == items[2]


def test_pictures_that_were_asked_for_are_shown_too() -> None:
    model = adapter(history=HistoryPolicy(policy="last_n", keep=1))
    model.start({"input": "Do it."}, SCREEN)
    region = {"x0": 0, "y0": 0, "x1": 100, "y1": 100}
    read = model.read(reply(("zoom", {"region": region}), ("wait", {"ms": 1})))
    zoomed = Screen("ZZZZ", "image/jpeg", 1280, 720, "http://site/")
    items = model.answer(read, [CallOutcome(zoomed), CallOutcome(SCREEN)])
    assert [part.get("image_url", "")[-4:] for part in items[-1]["content"]] == ["", "ZZZZ", "AAAA"]
    sent = json.dumps(model.next()["input"])
    assert "ZZZZ" not in sent
    assert sent.count("AAAA") == 1
