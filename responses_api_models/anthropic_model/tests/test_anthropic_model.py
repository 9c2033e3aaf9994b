"""The Anthropic model server: failures, parameters, histories and the key."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

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
    picture,
    request,
    server,
    simulated,
)
from tests.simulators import anthropic_scripts as scripts
from tests.simulators.anthropic_api import AnthropicSimulator
from tests.simulators.faults import dropped_connection, trickle
from tests.simulators.http_server import serve

SERVER = Path(__file__).resolve().parents[1]


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
        (trickle(), 504, "timeout_error"),
        (scripts.cut_connection(), 502, "connection_error"),
        (scripts.malformed_json(), 502, "connection_error"),
        (dropped_connection(), 502, "connection_error"),
    ],
    ids=["500", "529", "hang", "trickle", "cut", "malformed", "drop"],
)
async def test_failing_servers_and_connections(
    fault: scripts.Fault, status: int, kind: str
) -> None:
    async with simulated(scripts.clicks(1), timeout_s=0.3) as (simulator, client):
        simulator.fail_next(fault)
        assert (await error(client, request(), status))["type"] == kind
        await ask(client, request())
    async with simulated(scripts.clicks(1), timeout_s=0.3, max_retries=1) as (simulator, client):
        simulator.fail_next(fault)
        await ask(client, request())
    assert len(simulator.requests) == 2


async def test_a_conversation_that_is_too_long_is_told_apart() -> None:
    async with simulated(scripts.clicks(1)) as (simulator, client):
        for fault, status, kind in (
            (scripts.too_long(), 400, "invalid_request_error"),
            (scripts.too_large(), 413, "request_too_large"),
        ):
            simulator.fail_next(fault)
            told = await error(client, request(), status)
            assert (told["type"], told["code"]) == (kind, "context_length_exceeded")
        image = {"type": "input_image", "image_url": picture(), "detail": "auto"}
        task = {"role": "user", "content": [image] * 101}
        told = await error(client, request() | {"input": [task]}, 400)
        assert "too many images" in told["message"]
        assert told["code"] == "context_length_exceeded"


async def test_a_reply_that_is_no_message_is_a_502() -> None:
    for content in (None, ["text"], [{"type": "tool_use", "name": "note", "input": {}, "id": 1}]):
        policy = scripts.script(scripts.SimReply([], extra={"content": content}))
        async with simulated(policy) as (_, client):
            assert (await error(client, request(), 502))["code"] == "bad_reply"
    policy = scripts.script(scripts.SimReply([], extra={"usage": {"input_tokens": "few"}}))
    async with simulated(policy) as (_, client):
        assert "malformed" in (await error(client, request(), 502))["message"]


async def test_what_is_no_utf_8_or_too_large_a_number_goes_back_as_it_came() -> None:
    policy = scripts.in_order(
        [scripts.text("\ud83d"), scripts.member("type", text="a\ud83d")],
        [scripts.member("left_click", coordinate=[10**20, 5])],
        [scripts.text("Done.")],
    )
    async with simulated(policy) as (simulator, client):
        replies, _ = await converse(client, request())
    assert errors(simulator) == []
    assert simulator.altered_replies() == []
    message, call = replies[0]["output"][1:]
    assert message["content"][0]["text"] == "\ufffd"
    assert call["action"]["text"] == "a\ufffd"


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
    ({"max_output_tokens": 0}, "max_output_tokens"),
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
    cut_off = third | {"call_id": "call_4", "arguments": "{", "status": "incomplete"}
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I click.", "annotations": []}],
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    items = [thought, said, first, second, third, cut_off]
    outputs = [output_of(item, text="fine") for item in (first, second, third)]
    for name in ("claude-opus-5", "claude-sonnet-4-6"):
        async with simulated(scripts.clicks(0), anthropic_model=name) as (simulator, client):
            await ask(client, request(*items, *outputs, tools=[computer(), NOTE]))
        assert errors(simulator) == []
        content = simulator.requests[0].body["messages"][1]["content"]
        assert [block.get("name") for block in content] == (
            [None, "left_click", "key", "note", "reload", "reload"]
            if name == "claude-opus-5"
            else [None, "computer", "computer", "note", "reload", "reload"]
        )
        result = simulator.requests[0].body["messages"][2]["content"][-1]
        assert result["content"][0]["text"] == "Not executed: the reply was cut off."


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
        twice = [*start, output_of(call), output_of(call)]
        told = await error(client, body | {"input": twice}, 400)
        assert told["message"] == f"input.4: the call {call['call_id']!r} has an output already"


async def test_a_damaged_reply_in_the_history_is_named() -> None:
    async with simulated(scripts.clicks(1)) as (_, client):
        body = request()
        reply = await ask(client, body)
        reasoning, call = reply["output"]
        whole = reasoning["encrypted_content"]
        for damaged in (
            whole[: len(whole) // 2],
            json.dumps({"provider": "anthropic"}),
            json.dumps({"provider": "anthropic", "content": "text"}),
            json.dumps({"provider": "anthropic", "content": ["text"]}),
            json.dumps({"provider": "anthropic", "content": [{"type": ["tool_use"]}]}),
            json.dumps({"provider": "anthropic", "content": [{"type": "tool_use", "id": 1}]}),
        ):
            broken = reasoning | {"encrypted_content": damaged}
            items = [*body["input"], broken, call, output_of(call)]
            told = await error(client, body | {"input": items}, 400)
            assert told["code"] == "invalid_value"
            assert told["message"].startswith("input.1.encrypted_content: it is damaged")
        # Another provider's thoughts are no business of ours, whatever they look like.
        for foreign in ("gAAAA", "[" * 100_000, json.dumps({"provider": "gemini", "content": 1})):
            other = reasoning | {"encrypted_content": foreign}
            await ask(client, body | {"input": [*body["input"], other, call, output_of(call)]})


async def test_shutdown_closes_the_client() -> None:
    instance = server("http://127.0.0.1:1")
    with serve(instance.setup_webserver()):
        assert not instance._client.is_closed()
    assert instance._client.is_closed()
