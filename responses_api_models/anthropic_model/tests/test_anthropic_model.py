"""The Anthropic model server against the strict simulator, over real HTTP."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from omegaconf import OmegaConf
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from responses_api_models.anthropic_model.app import MissingApiKey, require_key
from responses_api_models.anthropic_model.tests.anthropic_stack import (
    NOTE,
    Json,
    ask,
    calls_in,
    computer,
    converse,
    errors,
    model,
    output_of,
    request,
    server,
    simulated,
)
from tests.simulators import anthropic_scripts as scripts
from tests.simulators.anthropic_api import AnthropicSimulator
from tests.simulators.http_server import serve

PROJECT = Path(__file__).resolve().parents[3]
SERVER = PROJECT / "responses_api_models/anthropic_model"
SOLUTIONS = json.loads(
    (PROJECT / "resources_servers/browser_gym/demo_gym/solutions.json").read_text("utf-8")
)

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
    async with simulated(scripts.solution(turns), anthropic_model=name) as (simulator, client):
        replies, _ = await converse(client, request())
    assert errors(simulator) == []
    assert len(replies) == len(turns)
    assert replies[-1]["output"][-1]["content"][0]["text"] == turns[-1]["answer"]


def test_every_demo_script_has_native_calls() -> None:
    for tool in ("computer_20250124", "computer_toolset_20260801"):
        for task_id, task in SOLUTIONS.items():
            policy = scripts.solution(task["turns"])
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


# Thinking ---------------------------------------------------------------------------------------


def thoughtful(turn: scripts.SimTurn) -> list[scripts.Block]:
    if turn.number == 3:
        return [scripts.thinking(""), scripts.text("Done.")]
    place = [5, 5 + turn.number]
    return [
        scripts.thinking("Where is it?"),
        scripts.redacted(),
        scripts.text("There."),
        scripts.call(turn.tool, "left_click", coordinate=place),
    ]


@pytest.mark.parametrize(
    ("name", "settings", "sent"),
    [
        ("claude-opus-5", {"thinking": "adaptive"}, {"type": "adaptive"}),
        (
            "claude-sonnet-4-5",
            {"thinking": "enabled", "thinking_budget": 2048, "thinking_display": "summarized"},
            {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
        ),
        ("claude-opus-5", {"thinking": "disabled"}, {"type": "disabled"}),
        ("claude-opus-5", {}, None),
        (
            "claude-opus-5-5",
            {},
            {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        ),
        ("claude-opus-5-5", {"prefix_mismatch": "error"}, None),
    ],
)
async def test_thinking_goes_back_untouched(name: str, settings: Json, sent: Json | None) -> None:
    settings = {"anthropic_model": name, "effort": "low", **settings}
    async with simulated(thoughtful, **settings) as (simulator, client):
        replies, _ = await converse(client, request(reasoning={"effort": "high"}))
    assert errors(simulator) == []
    assert len(replies) == 4
    assert simulator.altered_replies() == []
    assert simulator.requests[0].body.get("thinking") == sent
    assert simulator.requests[0].body["output_config"] == {"effort": "high"}
    assert not any(r.reply and "input_transformations" in r.reply for r in simulator.requests)


async def test_no_effort_switches_thinking_off() -> None:
    async with simulated(scripts.clicks(0), effort="max") as (simulator, client):
        await ask(client, request(reasoning={"effort": "none"}))
        await ask(client, request(reasoning={"effort": "minimal"}))
    first, second = (r.body for r in simulator.requests)
    assert (first["thinking"], first["output_config"]) == ({"type": "disabled"}, {"effort": "max"})
    assert second["output_config"] == {"effort": "low"}


async def pruned(simulator: AnthropicSimulator, client: httpx.AsyncClient) -> httpx.Response:
    """Go on with a conversation in which an earlier screenshot was pruned."""
    body = request()
    _, history = await converse(client, body)
    first = next(item for item in history if item.get("type") == "computer_call_output")
    first["output"] = {"type": "computer_screenshot", "image_url": "", "text": "[omitted]"}
    body["input"] = [*history, {"role": "user", "content": "Once more."}]
    return await client.post("/v1/responses", json=body)


async def test_changed_history_drops_thinking_bound_to_it() -> None:
    async with simulated(thoughtful, anthropic_model="claude-opus-5-5") as (simulator, client):
        response = await pruned(simulator, client)
    assert response.status_code == 200, response.text
    dropped = json.loads(response.json()["metadata"]["input_transformations"])
    assert len(dropped) == 3  # of all replies but the first, which came before the screenshot


async def test_changed_history_is_refused_if_configured() -> None:
    settings = {"anthropic_model": "claude-opus-5-5", "prefix_mismatch": "error"}
    async with simulated(thoughtful, **settings) as (simulator, client):
        response = await pruned(simulator, client)
    assert response.status_code == 400
    assert "bound to a different conversation" in response.json()["error"]["message"]


async def test_anthropic_clears_old_content_itself() -> None:
    edits = [
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
        {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}},
    ]
    management = {"edits": edits}
    async with simulated(thoughtful, context_management=management) as (simulator, client):
        replies, _ = await converse(client, request())
    assert errors(simulator) == []
    assert simulator.requests[0].body["context_management"] == management
    assert simulator.requests[0].betas == {"context-management-2025-06-27"}
    assert json.loads(replies[0]["metadata"]["context_management"]) == {"applied_edits": []}


# Caching ----------------------------------------------------------------------------------------


async def test_cache_breakpoints_move_forward() -> None:
    async with simulated(scripts.clicks(5)) as (simulator, client):
        replies, _ = await converse(client, request(tools=[computer(), NOTE]))
    assert errors(simulator) == []
    for number, recorded in enumerate(simulator.requests):
        marked = [
            index
            for index, message in enumerate(recorded.body["messages"])
            if "cache_control" in message["content"][-1]
        ]
        assert marked == [index for index in (2 * number - 2, 2 * number) if index >= 0]
        assert "cache_control" in recorded.body["system"][-1]
        assert "cache_control" in recorded.body["tools"][-1]
    # Each request reads all that the one before it wrote.
    sent = [reply["usage"]["input_tokens"] for reply in replies]
    read = [reply["usage"]["input_tokens_details"]["cached_tokens"] for reply in replies]
    assert read == [0, *sent[:-1]]
    assert replies[1]["usage"]["input_tokens_details"]["cache_write_tokens"] > 0


async def test_caching_can_be_off_or_longer() -> None:
    async with simulated(scripts.clicks(1), cache=False) as (simulator, client):
        await ask(client, request())
        assert "cache_control" not in json.dumps(simulator.requests[0].body)
    async with simulated(scripts.clicks(1), cache_ttl="1h") as (simulator, client):
        await ask(client, request())
        assert simulator.requests[0].body["system"][-1]["cache_control"]["ttl"] == "1h"
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


# Stop reasons -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "pause_turn", "compaction"])
async def test_whole_replies(reason: str) -> None:
    reply = scripts.SimReply([scripts.text("Hm.")], stop_reason=reason)
    async with simulated(scripts.script(reply)) as (_, client):
        told = await ask(client, request())
    assert (told["status"], told["metadata"]["stop_reason"]) == ("completed", reason)
    assert told["output"][1]["content"][0]["text"] == "Hm."


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_a_call_that_was_cut_off_is_marked_and_answered(reason: str) -> None:
    cut = [scripts.member("screenshot"), scripts.member("left_click")]
    policy = scripts.script(scripts.SimReply(cut, stop_reason=reason))
    async with simulated(policy) as (simulator, client):
        body = request()
        told = await ask(client, body)
        first, second = calls_in(told)
        history = [*body["input"], *told["output"], {"role": "user", "content": "Go on."}]
        await ask(client, body | {"input": history})
    assert errors(simulator) == []
    assert told["status"] == "incomplete"
    assert told["incomplete_details"]["reason"] == "max_output_tokens"
    assert told["metadata"]["stop_reason"] == reason
    assert (first["status"], second["status"]) == ("completed", "incomplete")
    assert second["type"] == "function_call"


async def test_a_refusal() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    reply = scripts.SimReply(
        [scripts.text("I st"), scripts.member("left_click")],
        stop_reason="refusal",
        extra={"stop_details": details},
    )
    async with simulated(scripts.script(reply)) as (_, client):
        told = await ask(client, request())
    assert told["output"][-1]["content"][0] == {"type": "refusal", "refusal": "Not this."}
    assert calls_in(told)[0]["status"] == "incomplete"
    assert json.loads(told["metadata"]["stop_details"])["category"] == "cyber"


async def test_a_paused_turn_goes_on() -> None:
    policy = scripts.in_order(
        scripts.SimReply([scripts.thinking("Wait."), scripts.text("Hm.")], "pause_turn"),
        [scripts.thinking("Go."), scripts.member("screenshot")],
    )
    settings = {"anthropic_model": "claude-opus-5-5", "prefix_mismatch": "error"}
    async with simulated(policy, **settings) as (simulator, client):
        body = request()
        paused = await ask(client, body)
        body["input"] += paused["output"]
        await converse(client, body)
    assert errors(simulator) == []
    assert simulator.altered_replies() == []


@pytest.mark.parametrize("content", [[], [scripts.text("")]])
async def test_an_empty_reply_leaves_no_empty_message(content: list[scripts.Block]) -> None:
    async with simulated(scripts.in_order(content)) as (simulator, client):
        body = request()
        empty = await ask(client, body)
        body["input"] += [*empty["output"], {"role": "user", "content": "Please go on."}]
        await ask(client, body)
    assert errors(simulator) == []
    assert [item["type"] for item in empty["output"]] == ["reasoning"]


# Failures ---------------------------------------------------------------------------------------


async def error(client: httpx.AsyncClient, body: Json, status: int) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == status, response.text
    content = response.json()
    assert set(content) == {"error"}
    return content["error"]


async def test_anthropic_errors_keep_their_status_and_text() -> None:
    simulator = AnthropicSimulator(scripts.clicks(1))
    with simulator.serve() as base_url:
        async with model(base_url, anthropic_api_key="sk-ant-wrong") as client:
            told = await error(client, request(), 401)
            assert (told["type"], told["message"]) == ("authentication_error", "invalid x-api-key")
        async with model(base_url, anthropic_model="claude-none-5-9") as client:
            assert (await error(client, request(), 404))["code"] == "not_found_error"
        async with model(base_url, anthropic_model="claude-haiku-4-5", thinking="adaptive") as c:
            assert "not supported" in (await error(c, request(), 400))["message"]
    # A refused request is never repeated.
    assert [r.status for r in simulator.requests] == [401, 404, 400]


async def test_retries_are_bounded_and_honour_retry_after() -> None:
    simulator = AnthropicSimulator(scripts.clicks(1))
    with simulator.serve() as base_url:
        async with model(base_url, max_retries=3) as client:
            simulator.fail_next(scripts.rate_limited(0.01), times=3)
            await ask(client, request())
            assert [r.status for r in simulator.requests] == [429, 429, 429, 200]
        async with model(base_url, max_retries=1) as client:
            simulator.fail_next(scripts.rate_limited(0.01), times=2)
            response = await client.post("/v1/responses", json=request())
            assert response.status_code == 429
            assert response.headers["retry-after"] == "0.01"
            assert len(simulator.requests) == 6


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (scripts.server_error(), 500, "api_error"),
        (scripts.overloaded(), 529, "overloaded_error"),
        (scripts.hang(), 504, "timeout_error"),
        (scripts.cut_connection(), 502, "connection_error"),
        (scripts.malformed_json(), 502, "provider_error"),
    ],
    ids=["500", "529", "hang", "cut", "malformed"],
)
async def test_failing_servers_and_connections(
    fault: scripts.Fault, status: int, kind: str
) -> None:
    async with simulated(scripts.clicks(1), timeout_s=0.3) as (simulator, client):
        simulator.fail_next(fault)
        assert (await error(client, request(), status))["type"] == kind
        await ask(client, request())
    if fault.kind == "malformed":
        return  # an answer, so it is not repeated
    async with simulated(scripts.clicks(1), timeout_s=0.3, max_retries=1) as (simulator, client):
        simulator.fail_next(fault)
        await ask(client, request())
    assert len(simulator.requests) == 2


async def test_a_refused_connection_is_a_502() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with model(f"http://127.0.0.1:{unused.getsockname()[1]}") as client:
            message = (await error(client, request(), 502))["message"]
    assert message.startswith("Anthropic could not be reached at http://127.0.0.1:")


async def test_a_reply_that_is_no_message_is_a_502() -> None:
    for content in (None, ["text"], [{"type": "tool_use", "name": "note", "input": {}, "id": 1}]):
        policy = scripts.script(scripts.SimReply([], extra={"content": content}))
        async with simulated(policy) as (_, client):
            assert (await error(client, request(), 502))["code"] == "bad_reply"


async def test_chat_completions_are_not_served() -> None:
    async with simulated(scripts.clicks(1)) as (_, client):
        body = {"messages": [{"role": "user", "content": "hi"}]}
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 501


IMPOSSIBLE: list[tuple[Json, str]] = [
    ({"temperature": 0.5}, "temperature"),
    ({"top_p": 0.5}, "top_p"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"tools": [computer(), computer()]}, "tools.1"),
    ({"tools": [computer(), NOTE | {"name": "computer"}]}, "tools"),
    ({"tools": [{"type": "computer"}]}, "tools.0"),
    ({"tools": [NOTE | {"parameters": {"type": "object"}}]}, "tools.note.parameters"),
    ({"tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
    ({"max_output_tokens": 1024}, "max_output_tokens"),
    ({"input": []}, "input"),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
]


async def test_what_cannot_be_done_is_a_400_that_names_the_field() -> None:
    settings = {"thinking": "enabled", "thinking_budget": 1024}
    async with simulated(scripts.clicks(1), **settings) as (simulator, client):
        for changes, field in IMPOSSIBLE:
            told = await error(client, request(**changes), 400)
            assert told["message"].startswith(f"{field}: ")
    assert simulator.requests == []


async def test_parameters() -> None:
    body = request(tools=[computer(), NOTE], max_output_tokens=100, temperature=0.5, top_p=0.9)
    choices = {
        "none": {"type": "none"},
        "required": {"type": "any", "disable_parallel_tool_use": True},
        "note": {"type": "tool", "name": "note", "disable_parallel_tool_use": True},
        "auto": {"type": "auto", "disable_parallel_tool_use": True},
        "computer": {"type": "any", "disable_parallel_tool_use": True},
    }
    shapes: dict[str, Any] = {
        "note": {"type": "function", "name": "note"},
        "computer": {"type": "computer_use_preview"},
    }
    async with simulated(scripts.clicks(0)) as (simulator, client):
        for name in choices:
            choice = shapes.get(name, name)
            await ask(client, body | {"tool_choice": choice, "parallel_tool_calls": False})
        await ask(client, body)
    assert errors(simulator) == []
    assert [r.body.get("tool_choice") for r in simulator.requests] == [*choices.values(), None]
    sent = simulator.requests[0].body
    assert (sent["max_tokens"], sent["temperature"], sent["top_p"]) == (100, 0.5, 0.9)
    assert sent["tools"][1] == {
        "name": "note",
        "description": "Remember a text.",
        "input_schema": NOTE["parameters"],
        "strict": True,
        "cache_control": {"type": "ephemeral"},
    }


async def test_usage() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 5},
    }
    reply = scripts.SimReply([scripts.text("Done.")], usage=usage)
    async with simulated(scripts.script(reply)) as (_, client):
        told = (await ask(client, request(temperature=1.0, top_p=1.0)))["usage"]
    assert told["input_tokens"] == 1110
    assert told["input_tokens_details"] == {"cached_tokens": 100, "cache_write_tokens": 1000}
    assert told["output_tokens_details"] == {"reasoning_tokens": 5}
    assert (told["output_tokens"], told["total_tokens"]) == (7, 1117)


async def test_no_more_requests_in_flight_than_allowed() -> None:
    now = most = 0

    async def count(request: Request) -> JSONResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.1)  # the chance for one request too many to arrive
        now -= 1
        return JSONResponse({"id": "msg_1", "content": [], "stop_reason": "end_turn"})

    with serve(Starlette(routes=[Route("/v1/messages", count, methods=["POST"])])) as url:
        async with model(url, max_concurrent_requests=2) as client:
            await asyncio.gather(*(ask(client, request()) for _ in range(5)))
    assert most == 2


async def test_a_request_without_tools_or_pictures() -> None:
    async with simulated(scripts.clicks(0), extra_body={"stop_sequences": ["X"]}) as (sim, client):
        told = await ask(client, {"input": "Hello?"})
    assert errors(sim) == []
    assert sim.requests[0].body["stop_sequences"] == ["X"]
    assert told["output"][-1]["content"][0]["text"] == "Done."


async def test_a_history_from_elsewhere_is_translated() -> None:
    first = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "status": "completed",
        "pending_safety_checks": [],
        "actions": [
            {"type": "click", "button": "left", "x": 1, "y": 2},
            {"type": "keypress", "keys": ["CTRL", "A"]},
        ],
    }
    second = {"type": "function_call", "call_id": "call:2", "name": "note", "arguments": "{}"}
    third = {"type": "function_call", "call_id": "call_3", "name": "reload", "arguments": "{}"}
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I click.", "annotations": []}],
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    items = [thought, said, first, second, third]
    outputs = [output_of(item, text="fine") for item in (first, second, third)]
    for name in ("claude-opus-5", "claude-sonnet-4-6"):
        async with simulated(scripts.clicks(0), anthropic_model=name) as (simulator, client):
            await ask(client, request(*items, *outputs, tools=[computer(), NOTE]))
        assert errors(simulator) == []
        content = simulator.requests[0].body["messages"][1]["content"]
        assert [block.get("name") for block in content] == (
            [None, "left_click", "key", "note", "reload"]
            if name == "claude-opus-5"
            else [None, "computer", "computer", "note", "reload"]
        )


async def test_outputs_and_calls_must_fit() -> None:
    async with simulated(scripts.clicks(1)) as (_, client):
        body = request()
        reply = await ask(client, body)
        call = calls_in(reply)[0]
        start = [*body["input"], *reply["output"]]
        told = await error(client, body | {"input": start}, 400)
        assert told["message"] == f"input: the call {call['call_id']!r} has no output"
        stray = output_of(call) | {"call_id": "toolu_other"}
        told = await error(client, body | {"input": [*start, output_of(call), stray]}, 400)
        assert "'toolu_other' that waits" in told["message"]
        part = {"type": "input_file", "file_id": "file_1"}
        odd = {"type": "function_call_output", "call_id": call["call_id"], "output": [part]}
        told = await error(client, body | {"input": [*start, odd]}, 400)
        assert "'input_file'" in told["message"]
        stranger = call | {"call_id": "toolu_other"}
        told = await error(client, body | {"input": [*start, stranger]}, 400)
        assert "is not in the reply" in told["message"]


async def test_shutdown_closes_the_client() -> None:
    instance = server("http://127.0.0.1:1")
    with serve(instance.setup_webserver()):
        assert not instance._client.is_closed()
    assert instance._client.is_closed()


@pytest.mark.parametrize(
    "key", [None, "", "  ", "<your key>", "your-api-key", "sk-ant-...", "CHANGEME"]
)
def test_a_missing_or_placeholder_key_is_named(key: str | None) -> None:
    with pytest.raises(MissingApiKey, match=r"cua_anthropic_api_key in env.yaml, or ANTHROPIC_API"):
        require_key(key)
    assert require_key(" sk-ant-real ") == "sk-ant-real"


def test_without_a_key_the_server_ends_with_one_line() -> None:
    config = OmegaConf.load(SERVER / "configs/anthropic_model.yaml").policy_model
    settings: Any = OmegaConf.to_container(config, resolve=False)
    server_settings = settings["responses_api_models"]["anthropic_model"]
    server_settings |= {"anthropic_api_key": None, "anthropic_model": "claude-opus-5-5"}
    server_settings |= {"anthropic_base_url": "http://127.0.0.1:1"}
    server_settings |= {"host": "127.0.0.1", "port": 1}
    head = {"host": "127.0.0.1", "port": 1}
    env = {
        **os.environ,
        "NEMO_GYM_CONFIG_DICT": json.dumps({"policy_model": settings, "head_server": head}),
        "NEMO_GYM_CONFIG_PATH": "policy_model",
        "PYTHONPATH": str(SERVER),
    }
    result = subprocess.run(
        [sys.executable, "app.py"],
        cwd=SERVER,
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1].startswith("anthropic_model: the Anthropic key")
    assert "Traceback" not in result.stderr
