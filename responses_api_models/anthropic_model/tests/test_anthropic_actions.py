"""Native actions to contract items and back, without a server."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nemo_gym.openai_utils import NeMoGymResponse

# The environment's own definition, which the translator itself does not import.
from resources_servers.browser_gym.actions import parse_action
from responses_api_models.anthropic_model import browser_actions, computer_actions
from responses_api_models.anthropic_model.errors import Untranslatable
from responses_api_models.anthropic_model.images import Frame, ImageLimits
from responses_api_models.anthropic_model.items import canonical_actions
from responses_api_models.anthropic_model.models import facts_of
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.tests.anthropic_stack import Json, calls_in, computer
from responses_api_models.anthropic_model.tools import Offer, build_offer
from responses_api_models.anthropic_model.translate import build_response
from tests.documented import first_column
from tests.simulators import anthropic_scripts as scripts

README = Path(__file__).resolve().parents[1] / "README.md"
SMALL = ImageLimits(1568, 1568)
FRAMES = [Frame.of(1280, 720, SMALL), Frame.of(2560, 1440, SMALL), Frame.of(1919, 1081, SMALL)]
# Models and tools; the last one's viewport is sent smaller than it is.
OFFERS = [
    ("claude-opus-5", "auto", (1280, 720)),
    ("claude-opus-4-7", "auto", (1280, 720)),
    ("claude-opus-5", "browser_toolset_20260801", (1280, 720)),
    ("claude-sonnet-4-5", "auto", (2560, 1440)),
]


def offer(model: str, tool: Any, size: tuple[int, int]) -> Offer:
    chosen = RequestSettings(anthropic_model=model, computer_tool=tool)
    return build_offer([computer(*size)], chosen, facts_of(model))


def reply(*blocks: Json, **changes: Any) -> Json:
    content = [{"id": f"toolu_{index}", **block} for index, block in enumerate(blocks)]
    return {"id": "msg_1", "model": "m", "content": content, "stop_reason": "tool_use", **changes}


def response(native: Json, offered: Offer) -> Json:
    """The valid reply with one call, as the agent gets it."""
    built = build_response(reply(native), offered, now=1)
    dumped = NeMoGymResponse.model_validate(built).model_dump(mode="json", exclude_unset=True)
    assert (
        json.loads(dumped["output"][0]["encrypted_content"])["content"] == reply(native)["content"]
    )
    return dumped


# Coordinates are well inside every frame.
points = st.tuples(st.integers(0, 1200), st.integers(0, 700)).map(list)
modifiers = st.lists(
    st.sampled_from(["shift", "ctrl", "alt", "super"]), min_size=1, max_size=4, unique=True
).map("+".join)
key_names = st.sampled_from(["a", "Z", "+", "Return", "Page_Down", "F5", "ctrl", "shift", "-"])
chords = (
    st.lists(key_names, min_size=1, max_size=3).filter(lambda k: "+" not in k[:-1]).map("+".join)
)
key_texts = st.lists(chords, min_size=1, max_size=3).map(" ".join)
texts = st.text(st.characters(exclude_categories=["Cs"]))
seconds = st.one_of(st.integers(0, 300), st.integers(1, 299_999).map(lambda ms: ms / 1000)).map(
    lambda value: int(value) if value == int(value) else value
)
regions = st.tuples(points, points).map(lambda pair: [*pair[0], *pair[1]])


def fields(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy:
    return st.fixed_dictionaries(required, optional=optional or {})


def natives(inputs: dict[str, st.SearchStrategy[Json]]) -> st.SearchStrategy[tuple[str, Json]]:
    """Calls of any of these names, each with its inputs."""
    return st.sampled_from(sorted(inputs)).flatmap(
        lambda name: st.tuples(st.just(name), inputs[name])
    )


directions = st.sampled_from(["up", "down", "left", "right"])
keys = fields({"text": key_texts}, {"repeat": st.integers(1, 100)})
held_keys = fields({"text": chords, "duration": seconds})
COMPUTER = {
    **dict.fromkeys(computer_actions.CLICKS, fields({}, {"coordinate": points, "text": modifiers})),
    **dict.fromkeys(("screenshot", "cursor_position"), fields({})),
    **dict.fromkeys(("left_mouse_down", "left_mouse_up"), fields({})),
    "mouse_move": fields({"coordinate": points}),
    "left_click_drag": fields({"coordinate": points})
    | fields({"start_coordinate": points, "coordinate": points}, {"text": modifiers}),
    "scroll": fields(
        {"scroll_direction": directions, "scroll_amount": st.integers(1, 100)},
        {"coordinate": points, "text": modifiers},
    ),
    "type": fields({"text": texts}),
    "key": keys,
    "hold_key": held_keys,
    "wait": fields({"duration": seconds}),
    "zoom": fields({"region": regions}),
}
coordinates = points.map(lambda point: {"type": "coordinate", "x": point[0], "y": point[1]})
refs = st.sampled_from(["e1", "ref_7"]).map(lambda ref: {"type": "ref", "ref": ref})
BROWSER = {
    **dict.fromkeys(
        computer_actions.CLICKS, fields({"target": coordinates | refs}, {"modifiers": modifiers})
    ),
    **dict.fromkeys(("screenshot", "get_page_text", "new_tab", "list_tabs"), fields({})),
    **dict.fromkeys(
        ("mouse_move", "left_mouse_down", "left_mouse_up"),
        fields({"target": coordinates | refs}),
    ),
    "navigate": fields(
        {"url": st.sampled_from(["a.test", "http://a.test/", "back", "forward", "reload"])}
    ),
    "zoom": fields({"region": regions}),
    "left_click_drag": fields({"from": coordinates, "target": coordinates}),
    "scroll": fields(
        {
            "target": coordinates | refs,
            "scroll_direction": directions,
            "scroll_amount": st.integers(1, 10),
        }
    ),
    "type": fields({"text": texts}),
    "key": keys,
    "hold_key": held_keys,
    "scroll_to": fields({"target": refs}),
    "form_input": fields({"target": refs, "value": st.one_of(texts, st.booleans(), st.integers())}),
    "read_page": st.just({"filter": "interactive"}),
    "find": fields({"query": texts.filter(bool)}),
    "wait": fields({"duration": seconds}),
    **dict.fromkeys(("switch_tab", "close_tab"), st.just({"tab_id": "t1"})),
}


def test_all_documented_actions_are_tested() -> None:
    assert COMPUTER.keys() == computer_actions.FIELDS.keys()
    assert BROWSER.keys() | {"hover"} == browser_actions.FIELDS.keys()
    assert first_column(README, "Anthropic") == COMPUTER.keys() | BROWSER.keys() | {"hover"}


def test_hover_goes_back_as_mouse_move() -> None:
    target = {"target": {"type": "coordinate", "x": 3, "y": 4}}
    action = browser_actions.decode("hover", target, FRAMES[0])
    assert action == {"type": "move", "x": 3, "y": 4}
    assert browser_actions.encode(action, FRAMES[0]) == ("mouse_move", target)


@pytest.mark.parametrize(
    ("name", "tool", "large", "binds"),
    [
        ("claude-3-5-sonnet-20241022", "computer_20241022", False, False),
        ("claude-3-7-sonnet-20250219", "computer_20250124", False, False),
        ("claude-opus-4-20250514", "computer_20250124", False, False),
        ("claude-sonnet-4-5-20250929", "computer_20250124", False, False),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "computer_20251124", False, False),
        ("claude-opus-4-7", "computer_20251124", True, False),
        ("claude-opus-4-8", "computer_toolset_20260801", True, False),
        ("claude-sonnet-5@20260601", "computer_toolset_20260801", True, False),
        ("claude-fable-5-1", "computer_toolset_20260801", True, True),
        ("claude-opus-5-5", "computer_toolset_20260801", True, True),
        ("claude-haiku-5-5", "computer_toolset_20260801", True, False),
        ("some-alias", "computer_toolset_20260801", True, False),
    ],
)
def test_facts_of_models(name: str, tool: str, large: bool, binds: bool) -> None:
    facts = facts_of(name)
    assert facts.computer_tool == tool
    assert facts.image_limits.allow(1920, 1080) == large
    assert facts.binds_thinking == binds


@settings(deadline=None)
@given(native=natives(COMPUTER), frame=st.sampled_from(FRAMES))
def test_computer_actions_survive_the_way_there_and_back(
    native: tuple[str, Json], frame: Frame
) -> None:
    name, native_fields = native
    action = computer_actions.decode(name, native_fields, frame)
    assert computer_actions.encode(action, frame) == (name, native_fields)


@settings(deadline=None)
@given(native=natives(BROWSER), frame=st.sampled_from(FRAMES))
def test_browser_actions_survive_the_way_there_and_back(
    native: tuple[str, Json], frame: Frame
) -> None:
    name, native_fields = native
    action = browser_actions.decode(name, native_fields, frame)
    assert browser_actions.encode(action, frame) == (name, native_fields)


def runnable(action: Json) -> Json:
    """The action within what the environment allows, or as it is."""
    limits = {"ms": 60_000, "duration_ms": 60_000}
    return action | {n: min(action[n], limit) for n, limit in limits.items() if n in action}


@settings(deadline=None, max_examples=200)
@given(native=natives(COMPUTER), offered=st.sampled_from(OFFERS))
def test_items_say_what_the_native_call_says(native: tuple[str, Json], offered: Any) -> None:
    offered = offer(*offered)
    name, native_fields = native
    if offered.toolset_name == "browser":
        return
    block = scripts.call(offered.tool, name, **native_fields)
    (item,) = calls_in(response(block, offered))
    (action,) = canonical_actions(item)
    again = offered.encode(action)
    assert again["input"] == block["input"]
    assert again.get("toolset_name") == block.get("toolset_name")
    if action["type"] != "drag" or action["path"][0] is not None:
        parse_action(runnable(action))


@settings(deadline=None)
@given(native=natives(BROWSER))
def test_browser_items_are_actions_of_the_environment(native: tuple[str, Json]) -> None:
    offered = offer(*OFFERS[2])
    block = scripts.member(native[0], family="browser", **native[1])
    block["input"] = native[1]
    (item,) = calls_in(response(block, offered))
    (action,) = canonical_actions(item)
    parse_action(runnable(action))
    assert offered.encode(action)["input"] == native[1]


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (scripts.member("left_click"), ("click", {"button": "left", "count": 1})),
        (
            scripts.member("triple_click", coordinate=[3, 4]),
            ("click", {"button": "left", "count": 3, "x": 3, "y": 4}),
        ),
        (
            scripts.member("scroll", scroll_direction="left", scroll_amount=2),
            ("scroll", {"dx": -200, "dy": 0}),
        ),
        (scripts.member("wait", duration=1.5), ("wait", {"ms": 1500})),
        (
            scripts.member("hold_key", text="shift+a", duration=2),
            ("hold_key", {"keys": ["shift", "a"], "duration_ms": 2000}),
        ),
        (
            scripts.member("key", text="Down Down ctrl++", repeat=3),
            ("key", {"chords": [["Down"], ["Down"], ["ctrl", "+"]], "repeat": 3}),
        ),
        (scripts.member("key", text="a+b"), ("key", {"chords": [["a", "b"]]})),
        (scripts.member("key", text=" "), {"type": "keypress", "keys": [" "]}),
        (scripts.member("left_mouse_down"), ("mouse_down", {"button": "left"})),
        (
            scripts.member("left_click", coordinate=[3, 4], text="Ctrl+shift"),
            {"type": "click", "button": "left", "x": 3, "y": 4, "keys": ["CTRL", "SHIFT"]},
        ),
        (
            scripts.member("left_click", coordinate=[3, 4], key="alt"),
            {"type": "click", "button": "left", "x": 3, "y": 4, "keys": ["ALT"]},
        ),
        (
            scripts.member("middle_click", coordinate=[3, 4]),
            {"type": "click", "button": "wheel", "x": 3, "y": 4},
        ),
        (
            scripts.member("double_click", coordinate=[3, 4]),
            {"type": "double_click", "x": 3, "y": 4},
        ),
        (scripts.member("key", text="ctrl+s"), {"type": "keypress", "keys": ["ctrl", "s"]}),
        (
            scripts.member("scroll", scroll_direction="down", scroll_amount=5, coordinate=[3, 4]),
            {"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": 500},
        ),
        (
            scripts.member("left_click_drag", start_coordinate=[1, 2], coordinate=[3, 4]),
            {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
        ),
        (
            scripts.member("left_click_drag", coordinate=[3, 4]),
            ("drag", {"path": [None, {"x": 3, "y": 4}]}),
        ),
        (scripts.member("type", text="a\nb"), {"type": "type", "text": "a\nb"}),
    ],
)
def test_units_and_shapes(native: Json, expected: Any) -> None:
    (item,) = calls_in(response(native, offer(*OFFERS[0])))
    if isinstance(expected, tuple):
        assert (item["name"], json.loads(item["arguments"])) == expected
    else:
        action = {name: value for name, value in item["action"].items() if value is not None}
        assert action == expected
        assert item["native"] == {"id": "toolu_0", **native}


@pytest.mark.parametrize(
    ("native", "problem"),
    [
        (scripts.member("left_click", coordinate=[1]), "'coordinate' must be [x, y]"),
        (scripts.member("left_click", coordinate="1, 2"), "'coordinate' must be [x, y]"),
        (scripts.member("left_click", text="space"), "only shift, ctrl, alt and super"),
        (scripts.member("mouse_move"), "'coordinate' is missing"),
        (scripts.member("left_click", x=1), "there is no field 'x'"),
        (scripts.member("scroll", scroll_direction="in", scroll_amount=1), "'scroll_direction'"),
        (scripts.member("scroll", scroll_direction="up", scroll_amount=-1), "at least 0"),
        (scripts.member("scroll", scroll_direction="up", scroll_amount=1.5), "whole number"),
        (scripts.member("wait", duration="1"), "'duration' must be a number"),
        (scripts.member("wait", duration=math.inf), "'duration' must be a number"),
        (scripts.member("wait", duration=1e308), "'duration' must be a number"),
        (scripts.member("left_click", coordinate=[1e308, 1]), "'coordinate' must be [x, y]"),
        (scripts.member("left_click", coordinate=[10**400, 1]), "'coordinate' must be [x, y]"),
        (scripts.member("scroll", scroll_direction=["up"], scroll_amount=1), "'scroll_direction'"),
        (scripts.member("key", text="  "), "names no key"),
        (scripts.member("type", text=3), "'text' must be a text"),
        (scripts.member("zoom", region=[1, 2]), "'region' must be"),
        (scripts.member("teleport"), "there is no such action"),
        (scripts.member("left_click", family="browser", target={"x": 1}), "must be a target"),
        (scripts.member("switch_tab", family="browser"), "'tab_id' is missing"),
        (scripts.member("javascript_exec", family="browser", text="1"), "no such tool"),
        (scripts.member("left_click") | {"input": [3, 4]}, "its input must be an object"),
        (scripts.member("screenshot") | {"input": None}, "its input must be an object"),
        (scripts.member("screenshot", family="browser") | {"input": "{}"}, "must be an object"),
        (scripts.legacy("screenshot") | {"input": "screenshot"}, "its input must be an object"),
        (scripts.member("scroll_to", family="browser"), "'target' is missing"),
        (
            scripts.member("scroll_to", family="browser", target=scripts.at(3, 4)),
            "'target' must be of type 'ref'",
        ),
    ],
)
def test_a_malformed_call_carries_its_error(native: Json, problem: str) -> None:
    (item,) = calls_in(response(native, offer(*OFFERS[0])))
    arguments = json.loads(item["arguments"])
    assert item["name"] == native["name"]
    assert problem in arguments["error"]
    assert arguments["error"].startswith(f"{native['name']}: ")


def test_a_legacy_call_without_an_action_is_malformed() -> None:
    broken = {"type": "tool_use", "name": "computer", "input": {"coordinate": [1, 2]}}
    (item,) = calls_in(response(broken, offer(*OFFERS[1])))
    assert "there is no such action" in json.loads(item["arguments"])["error"]


def test_coordinates_of_a_shrunk_screenshot_come_back_exactly() -> None:
    offered = offer(*OFFERS[3])
    size = offered.frame.sent_width, offered.frame.sent_height
    assert size == (1456, 819)
    (item,) = calls_in(response(scripts.legacy("left_click", coordinate=[728, 100]), offered))
    arguments = json.loads(item["arguments"])
    assert (arguments["x"], arguments["y"]) == (1280, 100 * 1440 / 819)


@pytest.mark.parametrize(
    "action",
    [
        {"type": "click", "x": 1, "y": 2, "hold_ms": 500},
        {"type": "click", "x": 1, "y": 2, "button": "back"},
        {"type": "drag", "path": [{"x": 1, "y": 2}] * 3},
        {"type": "type", "text": "a", "press_enter": True},
        {"type": "scroll", "dx": 1, "dy": 1},
        {"type": "navigate", "url": "a.test"},
        {"type": "mouse_down", "button": "right"},
    ],
)
def test_what_the_computer_tools_cannot_say(action: Json) -> None:
    with pytest.raises(Untranslatable):
        computer_actions.encode(action, FRAMES[0])
