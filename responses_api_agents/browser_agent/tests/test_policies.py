"""What open-weight models write, to canonical actions."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_api_agents.browser_agent import policies as package
from responses_api_agents.browser_agent.policies import policies
from responses_api_agents.browser_agent.policies.base import FINISH_ALONE, Parsed, Policy
from responses_api_agents.browser_agent.policies.frames import QWEN_25, Grid, Resized
from responses_api_agents.browser_agent.tests.mutated_replies import (
    MARKS,
    check,
    made_up,
    mutated_replies,
    outcome,
)
from responses_api_agents.browser_agent.tests.policy_examples import (
    EXAMPLES,
    HEIGHT,
    WIDTH,
    Meaning,
)
from tests.documented import first_column

README = Path(package.__file__).parent / "README.md"
DEFAULTS = {"x": None, "y": None, "dx": 0, "dy": 0, "button": "left", "count": 1}
TEXT_FAMILIES = sorted(policies().keys() - {"functions", "functions_per_mille"})
FEW = settings(max_examples=30, deadline=None)
"""Many families share what is tried here."""


def parse(policy: str, text: str) -> Parsed:
    return policies()[policy].parse(text, WIDTH, HEIGHT)


@pytest.mark.parametrize(
    ("policy", "text", "meaning"),
    [(policy, *example[1:]) for policy, examples in EXAMPLES.items() for example in examples],
)
def test_documented_actions(policy: str, text: str, meaning: Meaning) -> None:
    parsed = parse(policy, text)
    check(parsed)
    if meaning is None:
        assert parsed.error
        assert not parsed.actions
    elif isinstance(meaning, str):
        assert parsed == Parsed(answer=meaning)
    else:
        assert parsed.error is None
        assert [_plain(action) for action in parsed.actions] == [_plain(a) for a in meaning]


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in action.items() if DEFAULTS.get(name, ...) != value}


@pytest.mark.parametrize("policy", TEXT_FAMILIES)
def test_all_actions_are_documented_told_and_tested(policy: str) -> None:
    family = policies()[policy]
    assert {example[0] for example in EXAMPLES[policy]} == family.actions.keys()
    text = README.read_text("utf-8")
    heading = re.search(rf"^\| (Action of [^|]*`{policy}`[^|]*) \|", text, re.MULTILINE)
    assert heading
    assert first_column(README, heading[1]) == family.actions.keys()
    prompt = family.system_prompt(WIDTH, HEIGHT)
    assert all(name in prompt for name in family.actions)


def test_families_are_documented() -> None:
    assert first_column(README, "`policy`") == policies().keys()
    budgets = dict(
        re.findall(r"^\| `(\w+)` .*\| (\d+|–) \|$", README.read_text("utf-8"), re.MULTILINE)
    )
    assert budgets == {name: str(p.screenshots or "–") for name, p in policies().items()}


@pytest.mark.parametrize("policy", policies())
@FEW
@given(text=st.text() | st.lists(st.sampled_from(MARKS) | st.text(max_size=5)).map("".join))
def test_any_text_is_survived(policy: str, text: str) -> None:
    check(parse(policy, text))


@pytest.mark.parametrize("policy", TEXT_FAMILIES)
@FEW
@given(data=st.data())
def test_any_change_of_a_valid_reply_is_survived(policy: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([example[1] for example in EXAMPLES[policy]]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(st.sampled_from(MARKS) | st.text(max_size=4)) + text[end:]
    check(parse(policy, text))


@pytest.mark.parametrize("policy", policies())
def test_damaged_replies_make_nothing_up(policy: str) -> None:
    """`make mutations` tries 100,000 of each family."""
    for text in itertools.islice(mutated_replies(policy, seed=0), 300):
        parsed = outcome(policy, text)
        check(parsed)
        assert made_up(policy, text, parsed) == []


def test_what_is_made_up_is_found() -> None:
    """Or the test before could not fail."""
    text = EXAMPLES["qwen3_vl"][0][1]
    for action in (
        {"type": "click", "x": 1, "y": 2},
        {"type": "type", "text": "never said"},
        {"type": "key", "chords": [["F7"]]},
        {"type": "scroll", "dy": 123},
        {"type": "wait", "ms": 777},
        {"type": "navigate", "url": "http://a.test/"},
    ):
        assert made_up("qwen3_vl", text, Parsed([action]))
    assert made_up("qwen3_vl", text, Parsed(answer="42"))


@pytest.mark.parametrize("policy", policies())
@FEW
@given(
    name=st.sampled_from(["computer_use", "click", "type", "navigate"]) | st.text(),
    arguments=st.dictionaries(
        st.sampled_from(["action", "x", "y", "coordinate", "text", "url", "keys", "point"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text()
            | st.sampled_from(["left_click", "key", "scroll", "type"]),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
    ).map(json.dumps)
    | st.text(),
)  # fmt: skip
def test_any_function_call_is_survived(policy: str, name: str, arguments: str) -> None:
    check(policies()[policy].parse_function(name, arguments, WIDTH, HEIGHT))


@pytest.mark.parametrize("policy", policies())
def test_long_replies_are_read_in_one_pass(policy: str) -> None:
    """Each would take minutes if the time were quadratic in the length."""
    for mark in [*MARKS, "<parameter=a>", "<function=", "'", "a=", "[", "click(", "\\'"]:
        if len(mark) < 30:
            check(parse(policy, "Action: ```\n<tool_call><function=a>click('" + mark * 20_000))


def test_functions_that_a_server_finds_mean_the_same() -> None:
    qwen = policies()["qwen3_vl"]
    call = '{"action": "left_click", "coordinate": [500, 500]}'
    found = qwen.parse_function("computer_use", call, WIDTH, HEIGHT)
    assert (found.actions[0]["x"], found.actions[0]["y"]) == (640, 360)
    per_mille = policies()["functions_per_mille"]
    found = per_mille.parse_function("click", '{"x": 500, "y": 500}', WIDTH, HEIGHT)
    assert found.actions == [{"type": "click", "x": 640, "y": 360}]
    assert [tool["name"] for tool in per_mille.tools(WIDTH, HEIGHT)] == list(per_mille.actions)


@pytest.mark.parametrize("name", ["x", "y"])
def test_true_is_no_number(name: str) -> None:
    """It would pass for 1."""
    arguments = json.dumps({"x": 5, "y": 5} | {name: True})
    parsed = policies()["functions"].parse_function("click", arguments, WIDTH, HEIGHT)
    assert parsed.actions == []
    assert f"{name}: must be a number, not true or false" in (parsed.error or "")


def test_a_function_call_holds_whole_characters() -> None:
    parsed = policies()["functions"].parse_function("\ud800", "{}", WIDTH, HEIGHT)
    assert "half of a surrogate pair" in (parsed.error or "")


@pytest.mark.parametrize(
    ("policy", "text", "actions", "words"),
    [
        ("qwen3_vl", '<tool_call>{"name": "computer_use"}', 0, "'action' is missing"),
        ("qwen3_vl", '<tool_call>{"name": "bash", "arguments": {}}', 0, "no tool 'bash'"),
        (
            "qwen3_5",
            "<tool_call><function=computer_use><parameter=action>left_click</parameter>"
            "<param=coordinate>[1, 2]</parameter></function></tool_call>",
            *(0, "can be in it, not '<param=coordinate>"),
        ),
        ("opencua", "```\npyautogui.click(1, 2)\nimport os\n```", 0, "not 'import os"),
        ("opencua", "```\npyautogui.click(x=get(), y=1)\n```", 0, "'get(), y=1"),
        ("opencua", "```\npyautogui.click(1, 2)\npyautogui.screenshot()```", 1, "'screenshot'"),
        ("opencua", "```\npyautogui.click(1, 2)\ncomputer.terminate('success')```", 1, "run"),
        ("ui_tars_1_5", "Action: click(point='<point>5000 1</point>')", 0, "x is 5000"),
        ("ui_tars_1_5", "Action: click(point='middle')", 0, "must be a point"),
        ("ui_tars_1_5", "Action: click(start_box='(9,9,-9,9)')", 0, "must be a box from its top"),
        ("opencua", "```\npyautogui.keyDown('alt')\npyautogui.click()```", 0, "Alt cannot be held"),
        ("ui_tars_1_5", "Action: release(key='ctrl')", 0, "Control is not held"),
        ("glm_v", "left_click(start_box='[1,2]', speed=3)", 0, "no field 'speed'"),
        ("holo3", '{"tool_call": {"tool_name": "click", "x": 1}}', 0, "'y' is missing"),
        ("molmoweb", '{"name": "click", "x": 101, "y": 1}', 0, "from 0 to 100"),
    ],
)
def test_the_model_is_told_what_is_wrong(policy: str, text: str, actions: int, words: str) -> None:
    parsed = parse(policy, text)
    assert len(parsed.actions) == actions
    assert words in (parsed.error or "")


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        (r"C:\dir\new", "C:\\dir\new"),
        (r"it\'s \"so\"", 'it\'s "so"'),
        (r"a\\n\tb\x41\u00e9\U0001f600\101\0", "a\\n\tbA\u00e9\U0001f600A\0"),
        (r"\xZZ\u12", r"\xZZ\u12"),
        (r"\ud800", None),
        (r"\U00110000", None),
    ],
)
def test_texts_in_code_are_read_as_python_reads_them(written: str, typed: str | None) -> None:
    parsed = parse("opencua", f"```python\npyautogui.write(message='{written}')\n```")
    assert [action["text"] for action in parsed.actions] == ([] if typed is None else [typed])
    assert bool(parsed.error) == (typed is None)


def test_keys_are_held_up_to_their_release() -> None:
    code = """pyautogui.keyDown('ctrl')
pyautogui.click(x=322, y=182)
pyautogui.hotkey('Ctrl', 'c')
pyautogui.press('v')
pyautogui.keyUp('ctrl')
pyautogui.keyDown('alt')
pyautogui.keyUp('alt')
pyautogui.press('x')"""
    click, *keys = parse("opencua", f"```python\n{code}\n```").actions
    assert click["modifiers"] == ["Control"]
    chords = [chord for key in keys for chord in key["chords"]]
    assert chords == [["Ctrl", "c"], ["Control", "v"], ["Alt"], ["x"]]


def test_reasoning_before_a_reply_is_none_of_it() -> None:
    text = '<think>First <tool_call>{"no": 1}</tool_call></think>\n' + EXAMPLES["qwen3_vl"][0][1]
    assert parse("qwen3_vl", text) == parse("qwen3_vl", EXAMPLES["qwen3_vl"][0][1])


def test_a_reply_that_ends_at_its_stop_string_is_whole() -> None:
    text = EXAMPLES["fara_1_5"][0][1]
    assert parse("fara_1_5", text.removesuffix("</tool_call>")) == parse("fara_1_5", text)


def test_the_task_is_finished_in_a_reply_of_its_own() -> None:
    tool = '<tool_call>{"name": "computer_use", "arguments": {"action": %s}}</tool_call>'
    both = tool % '"left_click"' + tool % '"answer", "text": "42"'
    parsed = parse("qwen3_vl", both)
    assert ([a["type"] for a in parsed.actions], parsed.error) == (["click"], FINISH_ALONE)


@pytest.mark.parametrize(
    ("size", "resized"),
    [
        ((1280, 720), (1288, 728)),
        ((1440, 900), (1428, 896)),
        ((1920, 1080), (1932, 1092)),
        ((40, 40), (56, 56)),
        ((8000, 4000), (5068, 2520)),
    ],
)
def test_resizing_of_qwen_2_5(size: tuple[int, int], resized: tuple[int, int]) -> None:
    assert QWEN_25.size(*size) == resized


@FEW
@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(0, 10), st.integers(0, 10))
def test_points_lie_on_the_screen(width: int, height: int, x: int, y: int) -> None:
    for frame in (Grid(1000), QWEN_25, Resized(32, 65536, 16777216)):
        view = frame.view(width, height)
        point = view.point(view.columns * x / 10, view.rows * y / 10)
        assert 0 <= point["x"] < width
        assert 0 <= point["y"] < height


def test_a_policy_needs_nothing_but_its_file() -> None:
    assert all(isinstance(policy, Policy) for policy in policies().values())
    assert [policy.name for policy in policies().values()] == list(policies())
