"""Whole conversations between an agent and the simulated API: tools, results, the browser."""

import json
from typing import Any

import pytest

from responses_api_models.anthropic_model.tests.anthropic_stack import (
    NOTE,
    Json,
    ask,
    calls_in,
    computer,
    converse,
    errors,
    output_of,
    request,
    simulated,
)
from tests.simulators import anthropic_scripts as scripts
from tests.simulators.anthropic_solutions import solution
from tests.simulators.solutions import load_solutions

SOLUTIONS = load_solutions()

TOOL_OF_MODEL = {
    "claude-3-5-sonnet-20241022": "computer_20241022",
    "claude-sonnet-4-5": "computer_20250124",
    "claude-haiku-4-5": "computer_20250124",
    "claude-opus-4-5": "computer_20251124",
    "claude-sonnet-4-6": "computer_20251124",
    "claude-opus-4-7": "computer_20251124",
    "claude-opus-4-8": "computer_toolset_20260801",
    "claude-opus-5": "computer_toolset_20260801",
    "claude-opus-5-5": "computer_toolset_20260801",
    "claude-haiku-5-5": "computer_toolset_20260801",
    "claude-fable-5-1": "computer_toolset_20260801",
}


@pytest.mark.parametrize(("name", "tool"), TOOL_OF_MODEL.items())
async def test_each_model_gets_its_computer_tool(name: str, tool: str) -> None:
    policy = scripts.clicks(3, thoughts=True)
    async with simulated(policy, anthropic_model=name) as (simulator, client):
        replies, _ = await converse(client, request(tools=[computer(), NOTE]))
    assert errors(simulator) == []
    assert simulator.altered_replies() == []
    assert [r.body["tools"][0]["type"] for r in simulator.requests] == [tool] * 4
    assert [calls_in(reply)[0]["action"]["x"] for reply in replies[:3]] == [10, 11, 12]
    assert replies[0]["output"][0]["summary"][0]["text"] == "thought 0"
    assert replies[-1]["output"][-1]["content"][0]["text"] == "Done."


async def test_the_configuration_overrides_the_tool() -> None:
    settings = {"anthropic_model": "claude-opus-5", "computer_tool": "computer_20251124"}
    policy = scripts.script([scripts.legacy("zoom", region=[0, 0, 100, 50])])
    async with simulated(policy, **settings) as (simulator, client):
        replies, _ = await converse(client, request())
    assert errors(simulator) == []
    assert simulator.requests[0].body["tools"][0] == {
        "type": "computer_20251124",
        "name": "computer",
        "display_width_px": 1280,
        "display_height_px": 720,
        "enable_zoom": True,
        "cache_control": {"type": "ephemeral"},
    }
    assert calls_in(replies[0])[0]["name"] == "zoom"


@pytest.mark.parametrize("task_id", ["BRD-02", "CRM-01", "BRD-04"])
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-opus-5-5"])
async def test_the_demo_tasks_scripts(task_id: str, name: str) -> None:
    turns = SOLUTIONS[task_id]["turns"]
    async with simulated(solution(turns), anthropic_model=name) as (simulator, client):
        replies, _ = await converse(client, request())
    assert errors(simulator) == []
    assert len(replies) == len(turns)
    assert replies[-1]["output"][-1]["content"][0]["text"] == turns[-1]["answer"]


def test_every_demo_script_has_native_calls() -> None:
    for tool in ("computer_20250124", "computer_toolset_20260801"):
        for task_id, task in SOLUTIONS.items():
            policy = solution(task["turns"])
            for number in range(len(task["turns"])):
                assert policy(scripts.SimTurn(number, {}, tool)), task_id


def batch(turn: scripts.SimTurn) -> list[scripts.Block]:
    if turn.number:
        return [scripts.text("Done.")]
    return [
        scripts.text("Two clicks, a note, and a look."),
        scripts.call(turn.tool, "left_click", coordinate=[1, 2]),
        scripts.function("note", text="hi"),
        scripts.call(turn.tool, "left_click", text="ctrl"),
        scripts.call(turn.tool, "screenshot"),
    ]


@pytest.mark.parametrize("name", ["claude-sonnet-4-6", "claude-opus-5-5"])
async def test_several_calls_are_answered_in_order_in_one_message(name: str) -> None:
    body = request(tools=[computer(), NOTE])
    async with simulated(batch, anthropic_model=name) as (simulator, client):
        reply = await ask(client, body)
        calls = calls_in(reply)
        # Outputs in another order, and a remark before the last one.
        remark = {"role": "user", "content": "Careful."}
        outputs = [output_of(call, text="fine") for call in calls]
        history = [*body["input"], *reply["output"], *outputs[1:], remark, outputs[0]]
        await ask(client, body | {"input": history})
    assert errors(simulator) == []
    assert [call.get("name", "computer") for call in calls] == [
        "computer",
        "note",
        "click",
        "computer",
    ]
    last = simulator.requests[1].body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result"] * 4 + ["text"]
    family = "computer" if name == "claude-opus-5-5" else None
    assert [b.get("toolset_name") for b in last[:4]] == [family, None, family, family]
    assert "URL: http://a.test/" in last[3]["content"][0]["text"]


@pytest.mark.parametrize("name", ["claude-sonnet-4-6", "claude-opus-5-5"])
@pytest.mark.parametrize("rest", ["left out", "answered"])
async def test_calls_after_a_failed_one(name: str, rest: str) -> None:
    body = request(tools=[computer(), NOTE])
    async with simulated(batch, anthropic_model=name) as (simulator, client):
        reply = await ask(client, body)
        calls = calls_in(reply)
        outputs = [output_of(calls[0], text="outside the page", failed=True)]
        if rest == "answered":
            outputs += [output_of(call, text="not run", failed=True) for call in calls[1:]]
        await ask(client, body | {"input": body["input"] + reply["output"] + outputs})
    assert errors(simulator) == []
    last = simulator.requests[1].body["messages"][-1]["content"]
    texts = [block["content"][0]["text"] for block in last[:4]]
    assert all(block["is_error"] for block in last[:4])
    assert texts[0] == "outside the page"
    if name == "claude-opus-5-5":
        skipped = "Not executed: an earlier computer action in this turn failed."
        assert texts[2:] == [skipped, skipped]
    # A failure may hold no picture, so the screen follows the results.
    assert [block["type"] for block in last[4:]] == ["text", "image"]


async def test_an_image_and_text_come_back_together() -> None:
    policy = scripts.script([scripts.member("cursor_position")], [scripts.member("screenshot")])

    def answer(number: int, item: Json) -> Json:
        return output_of(item, text="x=1, y=2" if number == 0 else "")

    async with simulated(policy) as (simulator, client):
        await converse(client, request(), answer=answer)
    assert errors(simulator) == []
    first = simulator.requests[1].body["messages"][-1]["content"][0]["content"]
    assert [part["type"] for part in first] == ["text", "image"]
    assert first[0]["text"].startswith("x=1, y=2")


@pytest.mark.parametrize("name", ["claude-sonnet-4-6", "claude-opus-5"])
async def test_pruned_screenshots(name: str) -> None:
    def policy(turn: scripts.SimTurn) -> list[scripts.Block]:
        kind = "screenshot" if turn.number % 2 else "left_mouse_up"
        stop = turn.number == 4
        return [scripts.text("Done.")] if stop else [scripts.call(turn.tool, kind)]

    async with simulated(policy, anthropic_model=name) as (simulator, client):
        body = request()
        _, history = await converse(client, body)
        for item in history[:-3]:
            if item.get("type") == "computer_call_output":
                item["output"] = {
                    "type": "computer_screenshot",
                    "image_url": "",
                    "text": "[screenshot omitted]",
                }
            elif item.get("type") == "function_call_output":
                item["output"] = "[screenshot omitted]"
        await ask(client, body | {"input": [*history, {"role": "user", "content": "More."}]})
    assert errors(simulator) == []


# Browser toolset --------------------------------------------------------------------------------

TABS = [
    {"tab_id": "t1", "title": "A", "url": "http://a.test/", "active": False},
    {"tab_id": "t2", "title": "", "url": "", "active": True},
]


async def test_the_browser_toolset() -> None:
    def use(name: str, **fields: Any) -> scripts.Block:
        return scripts.member(name, family="browser", **fields)

    policy = scripts.script(
        [use("navigate", url="http://a.test/"), use("navigate", url="back")],
        [use("left_click", target=scripts.at(3, 4), modifiers="shift", tab_id="t1")],
        [use("new_tab"), use("list_tabs")],
        [use("find", query="Save"), use("read_page"), use("zoom", region=[0, 0, 50, 50])],
        [use("scroll", target=scripts.at(3, 4), scroll_direction="up")],
        [use("form_input", target={"type": "ref", "ref": "e1"}, value=True)],
    )

    def answer(number: int, item: Json) -> Json:
        if item.get("name") not in ("new_tab", "list_tabs"):
            return output_of(item, text="fine")
        part = {"type": "input_text", "text": json.dumps({"tabs": TABS})}
        return {"type": "function_call_output", "call_id": item["call_id"], "output": [part]}

    settings = {"computer_tool": "browser_toolset_20260801"}
    async with simulated(policy, **settings) as (simulator, client):
        replies, _ = await converse(client, request(), answer=answer)
    assert errors(simulator) == []
    assert simulator.altered_replies() == []
    called = [
        (call.get("name"), json.loads(call["arguments"]))
        if call["type"] == "function_call"
        else {name: value for name, value in call["action"].items() if value is not None}
        for reply in replies
        for call in calls_in(reply)
    ]
    assert called == [
        ("navigate", {"url": "http://a.test/"}),
        ("go_back", {}),
        ("switch_tab", {"tab_id": "t1"}),
        {"type": "click", "button": "left", "x": 3, "y": 4, "keys": ["SHIFT"]},
        ("new_tab", {}),
        ("list_tabs", {}),
        ("find", {"query": "Save"}),
        ("list_elements", {}),
        ("zoom", {"region": {"x0": 0, "y0": 0, "x1": 50, "y1": 50}}),
        {"type": "scroll", "x": 3, "y": 4, "scroll_x": 0, "scroll_y": -300},
        ("set_value", {"value": True, "ref": "e1"}),
    ]
    tabs = simulator.requests[3].body["messages"][-1]["content"][0]["content"][0]["tabs"]
    assert [tab.get("active") for tab in tabs] == [None, True]


async def test_a_tab_that_is_gone_fails_the_whole_call() -> None:
    policy = scripts.script(
        [scripts.member("hover", family="browser", target=scripts.at(1, 1), tab_id="t9")]
    )

    def answer(number: int, item: Json) -> Json:
        gone = item.get("name") == "switch_tab"
        return output_of(item, text="no tab t9" if gone else "", failed=gone)

    settings = {"computer_tool": "browser_toolset_20260801"}
    async with simulated(policy, **settings) as (simulator, client):
        await converse(client, request(), answer=answer)
    assert errors(simulator) == []
    result = simulator.requests[1].body["messages"][-1]["content"][0]
    assert (result["is_error"], result["content"][0]["text"]) == (True, "error: no tab t9")


@pytest.mark.parametrize("name", ["claude-sonnet-4-6", "claude-opus-5-5"])
async def test_an_input_that_is_no_object_is_told_and_not_sent_back(name: str) -> None:
    def policy(turn: scripts.SimTurn) -> list[scripts.Block]:
        if turn.number:
            return [scripts.text("Done.")]
        screenshot = scripts.call(turn.tool, "screenshot")
        return [scripts.function("note") | {"input": ["a"]}, screenshot | {"input": "now"}]

    def answer(number: int, item: Json) -> Json:
        arguments = json.loads(item["arguments"])
        told = arguments["error"] if isinstance(arguments, dict) else "no object"
        return output_of(item, text=told, failed=True)

    body = request(tools=[computer(), NOTE])
    async with simulated(policy, anthropic_model=name) as (simulator, client):
        await converse(client, body, answer=answer)
    assert errors(simulator) == []
    _, said, answered = simulator.requests[1].body["messages"]
    assert [block["input"] for block in said["content"]] == [{}, {}]
    note, shot = answered["content"][:2]
    assert (note["is_error"], shot["is_error"]) == (True, True)
    assert note["content"][0]["text"] == "error: no object"
