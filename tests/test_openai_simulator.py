"""The OpenAI simulator refuses what the real API refuses, and nothing else."""

import base64
import io
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.simulators.http_server import serve
from tests.simulators.openai_api import MAX_REQUEST_BYTES, OpenAISimulator
from tests.simulators.openai_scripts import (
    Policy,
    SimReply,
    cached_and_reasoning_usage,
    click,
    computer_call,
    cut_connection,
    empty,
    function_beside_computer,
    ga_batch,
    ga_lone_screenshot_first,
    hang,
    in_order,
    incomplete,
    malformed_json,
    message,
    message_beside_call,
    omitted_safety_checks,
    preview_single,
    rate_limited,
    reasoning_items,
    refused,
    safety_checks_pending,
    script,
    server_error,
    several_calls,
    unavailable,
)

KEY = "sk-simulator"
Json = dict[str, Any]


def data_url(kind: str = "png", declared: str | None = None) -> str:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), "white").save(stream, kind)
    encoded = base64.b64encode(stream.getvalue()).decode()
    return f"data:image/{declared or kind};base64,{encoded}"


TASK = {"role": "user", "content": [{"type": "input_text", "text": "Do it."}]}
PREVIEW_TOOL = {
    "type": "computer_use_preview",
    "display_width": 1280,
    "display_height": 720,
    "environment": "browser",
}
SWITCH_TAB = {
    "type": "function",
    "name": "switch_tab",
    "parameters": {
        "type": "object",
        "properties": {"index": {"type": "integer"}},
        "required": ["index"],
        "additionalProperties": False,
    },
    "strict": True,
}


def request(**changes: Any) -> Json:
    body = {"model": "gpt-5.4", "input": [TASK], "tools": [{"type": "computer"}]}
    return {k: v for k, v in (body | changes).items() if v is not None}


def output_for(call: Json, **changes: Any) -> Json:
    if call["type"] == "function_call":
        return {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
    shot = {"type": "computer_screenshot", "image_url": data_url(), "detail": "original"}
    item = {"type": "computer_call_output", "call_id": call["call_id"], "output": shot}
    checks = call.get("pending_safety_checks")
    return item | ({"acknowledged_safety_checks": checks} if checks else {}) | changes


class Client:
    """Talks to a simulator in process."""

    def __init__(self, policy: Policy) -> None:
        self.simulator = OpenAISimulator(policy)
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.simulator.app),
            base_url="http://simulator/v1",
            headers={"authorization": f"Bearer {KEY}"},
        )

    async def send(self, body: Json) -> httpx.Response:
        return await self.http.post("/responses", json=body)

    async def reply(self, body: Json) -> Json:
        response = await self.send(body)
        assert response.status_code == 200, response.text
        return response.json()

    async def error(self, body: Json, status: int = 400) -> str:
        response = await self.send(body)
        assert response.status_code == status, response.text
        return response.json()["error"]["message"]


def calls(reply: Json) -> list[Json]:
    return [item for item in reply["output"] if item["type"].endswith("_call")]


GA_POLICIES = {
    "batch": ga_batch,
    "lone screenshot first": ga_lone_screenshot_first,
    "message beside call": message_beside_call,
    "several calls": several_calls,
    "function beside computer": function_beside_computer,
    "safety checks": safety_checks_pending,
    "reasoning": reasoning_items,
    "omitted safety checks": omitted_safety_checks,
    "usage": cached_and_reasoning_usage,
}


@pytest.mark.parametrize("name", GA_POLICIES)
@pytest.mark.parametrize("stateless", [True, False])
async def test_a_correct_client_is_never_refused(name: str, stateless: bool) -> None:
    client = Client(GA_POLICIES[name]())
    tools = [{"type": "computer"}, SWITCH_TAB]
    history: list[Json] = [TASK]
    body = request(tools=tools, input=history)
    if stateless:
        body |= {"store": False, "include": ["reasoning.encrypted_content"]}
    for _ in range(5):
        reply = await client.reply(body)
        outputs = [output_for(call) for call in calls(reply)]
        if not outputs:
            break
        history += reply["output"] + outputs
        if stateless:
            body["input"] = history
        else:
            body |= {"input": outputs, "previous_response_id": reply["id"]}
    assert reply["output"][-1]["content"][0]["text"] == "Done."
    assert client.simulator.altered_items() == []


async def test_the_preview_tool_gives_single_actions() -> None:
    client = Client(preview_single())
    body = request(model="computer-use-preview", tools=[PREVIEW_TOOL], truncation="auto")
    reply = await client.reply(body)
    assert reply["output"][0]["action"] == click(10, 20)
    again = body | {
        "previous_response_id": reply["id"],
        "input": [output_for(reply["output"][0])],
    }
    assert (await client.reply(again))["output"][0]["action"]["text"] == "hi"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "Missing required parameter: 'model'."),
        ({"input": None}, "Missing required parameter: 'input'."),
        ({"wait": 1}, "Unknown parameter: 'wait'."),
        ({"temperature": 2.5}, "Expected a value <= 2"),
        ({"temperature": -1}, "Expected a value >= 0"),
        ({"temperature": "hot"}, "Invalid type for 'temperature'"),
        ({"top_p": 1.5}, "Expected a value <= 1"),
        ({"max_output_tokens": 15}, "Expected a value >= 16"),
        ({"include": ["everything"]}, "Invalid value: 'everything'"),
        ({"truncation": "some"}, "Invalid value: 'some'"),
        ({"tool_choice": {"type": "computer_use_preview"}}, "not found in 'tools'"),
        ({"tools": [PREVIEW_TOOL]}, "Tool 'computer_use_preview' is not supported with gpt-5.4."),
        ({"tools": [{"type": "computer", "display_width": 1}]}, "Unknown parameter: 'tools[0]"),
        ({"tools": [{"type": "computer_20251124"}]}, "Invalid value: 'computer_20251124'"),
        ({"tools": [{"type": "function", "name": "go back"}]}, "does not match pattern"),
        (
            {"tools": [SWITCH_TAB | {"parameters": {"type": "object", "properties": {}}}]},
            "Invalid schema for function 'switch_tab'",
        ),
        ({"model": "gpt-5.1"}, "Tool 'computer' is not supported with gpt-5.1."),
        ({"model": "gpt-5.4-chat-latest"}, "Tool 'computer' is not supported"),
        (
            {"model": "computer-use-preview", "truncation": "auto"},
            "Tool 'computer' is not supported with computer-use-preview.",
        ),
        (
            {"model": "computer-use-preview", "tools": [PREVIEW_TOOL]},
            "requires 'truncation' to be 'auto'",
        ),
        ({"previous_response_id": "resp_nope"}, "Previous response with id 'resp_nope' not found"),
    ],
)
async def test_refused_parameters(changes: Json, message: str) -> None:
    assert message in await Client(ga_batch()).error(request(**changes))


async def test_bad_keys_models_urls_and_bodies() -> None:
    client = Client(ga_batch())
    assert "does not exist" in await client.error(request(model="gpt-oss"), 404)
    assert (await client.http.post("/nothing", json={})).json()["error"]["type"]
    assert "could not parse" in (await client.http.post("/responses", content=b"{")).text
    client.http.headers["authorization"] = "Bearer sk-other"
    assert "Incorrect API key" in await client.error(request(), 401)
    del client.http.headers["authorization"]
    assert "didn't provide" in await client.error(request(), 401)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"type": "input_image", "image_url": "x"}, "Invalid value: 'input_image'"),
        (TASK | {"native": 1}, "Unknown parameter: 'input[0].native'."),
        ({"role": "tool", "content": "x"}, "Invalid value: 'tool'"),
        ({"role": "assistant", "content": TASK["content"]}, "Invalid value: 'input_text'"),
        ({"role": "assistant", "content": "x", "id": "abc"}, "begins with 'msg'"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "'input[0].call_id'"),
        (
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c" * 65},
            "1 to 64 characters",
        ),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"}, ".status'"),
    ],
)
async def test_refused_items(item: Json, message: str) -> None:
    assert message in await Client(ga_batch()).error(request(input=[item]))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("", "base64-encoded data URL"),
        ("data:text/plain;base64,aGk=", "base64-encoded data URL"),
        ("data:image/png;base64,aGk=", "does not represent a valid image"),
        ("data:image/png;base64,%%%", "does not represent a valid image"),
        (data_url()[:-40], "does not represent a valid image"),
        (data_url("jpeg", declared="png"), "says image/png but holds jpeg data"),
    ],
)
async def test_refused_images(image: str, message: str) -> None:
    part = {"type": "input_image", "image_url": image}
    body = request(input=[{"role": "user", "content": [part]}])
    assert message in await Client(ga_batch()).error(body)
    client = Client(ga_batch())
    reply = await client.reply(request())
    bad = output_for(calls(reply)[0], output={"type": "computer_screenshot", "image_url": image})
    follow_up = request(previous_response_id=reply["id"], input=[bad])
    assert message in await client.error(follow_up)


async def first_reply(policy: Policy, **changes: Any) -> tuple[Client, Json]:
    client = Client(policy)
    return client, await client.reply(request(**changes))


async def test_every_call_needs_exactly_one_output() -> None:
    client, reply = await first_reply(several_calls())
    first, second = (output_for(call) for call in calls(reply))
    follow_up = request(previous_response_id=reply["id"])
    unanswered = await client.error(follow_up | {"input": [TASK]})
    assert unanswered == f"No tool output found for computer call {first['call_id']}."
    only_one = await client.error(follow_up | {"input": [first]})
    assert only_one == f"No tool output found for computer call {second['call_id']}."
    twice = await client.error(follow_up | {"input": [first, second, first]})
    assert twice.startswith("Duplicate output found")
    unknown = await client.error(follow_up | {"input": [first, second | {"call_id": "call_x"}]})
    assert unknown == "No tool call found for computer call output with call_id call_x."
    wrong_kind = {"type": "function_call_output", "call_id": first["call_id"], "output": "ok"}
    assert "No tool call found" in await client.error(follow_up | {"input": [wrong_kind, second]})
    backwards = [TASK, first, *reply["output"], second]
    assert "No tool call found" in await client.error(request(input=backwards))
    assert await client.reply(follow_up | {"input": [first, second]})


async def test_an_unanswered_function_call_is_named() -> None:
    client, reply = await first_reply(function_beside_computer())
    computer, function = calls(reply)
    body = request(previous_response_id=reply["id"], input=[output_for(computer)])
    expected = f"No tool output found for function call {function['call_id']}."
    assert await client.error(body) == expected


async def test_every_safety_check_must_be_acknowledged() -> None:
    client, reply = await first_reply(safety_checks_pending())
    call = calls(reply)[0]
    body = request(previous_response_id=reply["id"])
    for echoed in (None, call["pending_safety_checks"][:1]):
        item = output_for(call, acknowledged_safety_checks=echoed)
        assert "not acknowledged: sc_" in await client.error(body | {"input": [item]})


async def test_a_screenshot_is_the_only_output_of_a_computer_call() -> None:
    client, reply = await first_reply(ga_batch())
    image = {"type": "input_image", "image_url": data_url()}
    item = output_for(calls(reply)[0], output=image)
    body = request(previous_response_id=reply["id"], input=[item])
    assert "Supported values are: 'computer_screenshot'" in await client.error(body)
    extra = {"type": "computer_screenshot", "image_url": data_url(), "current_url": "x"}
    item["output"] = extra
    assert "current_url" in await client.error(body)


async def test_unstored_responses_cannot_be_continued() -> None:
    client, reply = await first_reply(ga_batch(), store=False)
    body = request(previous_response_id=reply["id"], input=[output_for(calls(reply)[0])])
    assert "not found" in await client.error(body)


async def test_duplicates_are_refused() -> None:
    client, reply = await first_reply(ga_batch())
    call = calls(reply)[0]
    resent = request(previous_response_id=reply["id"], input=[call, output_for(call)])
    assert await client.error(resent) == (
        f"Duplicate item found with id {call['id']}. Remove duplicate items from your input and "
        "try again."
    )
    copied = request(input=[TASK, call, call | {"id": "cu_other"}, output_for(call)])
    assert "Duplicate 'call_id'" in await client.error(copied)


async def test_reasoning_travels_with_the_item_it_led_to() -> None:
    options = {"store": False, "include": ["reasoning.encrypted_content"]}
    client, reply = await first_reply(reasoning_items(), **options)
    thought, call = reply["output"]
    answer = output_for(call)
    alone = await client.error(request(input=[TASK, thought], **options))
    assert "without its required following item" in alone
    moved = await client.error(request(input=[TASK, call, answer, thought], **options))
    assert f"without its required 'reasoning' item: '{thought['id']}'" in moved
    bare = await client.error(request(input=[TASK, call, answer], **options))
    assert "without its required 'reasoning' item" in bare
    forged = thought | {"encrypted_content": "gAAAAforged"}
    message = await client.error(request(input=[TASK, forged, call, answer], **options))
    assert "could not be verified" in message
    assert await client.reply(request(input=[TASK, thought, call, answer], **options))


async def test_unstored_reasoning_needs_its_encrypted_content() -> None:
    client, reply = await first_reply(reasoning_items(), store=False)
    thought, call = reply["output"]
    assert "encrypted_content" not in thought
    body = request(input=[TASK, thought, call, output_for(call)], store=False)
    assert "Items are not persisted" in await client.error(body, 404)
    client, reply = await first_reply(reasoning_items())
    thought, call = reply["output"]
    assert await client.reply(request(input=[TASK, thought, call, output_for(call)]))


async def test_altered_actions_are_refused_and_reported() -> None:
    client, reply = await first_reply(ga_batch())
    call = calls(reply)[0]
    for action, expected in (
        (click(1, 2) | {"native": {}}, "actions[0].native"),
        (click(1.5, 2), "actions[0].x"),
        ({"type": "zoom"}, "Invalid value: 'zoom'"),
        ({"type": "drag", "path": [[1, 2]]}, "Invalid value for"),
    ):
        changed = call | {"actions": [action]}
        body = request(input=[TASK, changed, output_for(call)])
        assert expected in await client.error(body)
    assert len(client.simulator.altered_items()) == 4


async def test_what_the_model_said_may_come_back_even_if_it_is_odd() -> None:
    client, reply = await first_reply(script([computer_call({"type": "zoom", "level": 2})]))
    call = calls(reply)[0]
    assert await client.reply(request(input=[TASK, call, output_for(call)]))


async def test_replies_that_are_no_calls() -> None:
    _, reply = await first_reply(incomplete())
    assert reply["status"] == "incomplete"
    assert reply["incomplete_details"] == {"reason": "max_output_tokens"}
    _, reply = await first_reply(refused())
    assert reply["output"][0]["content"][0]["type"] == "refusal"
    _, reply = await first_reply(empty())
    assert reply["output"] == []
    _, reply = await first_reply(cached_and_reasoning_usage())
    assert reply["usage"]["input_tokens_details"]["cached_tokens"] == 1024
    assert reply["usage"]["output_tokens_details"]["reasoning_tokens"] == 128
    client, _ = await first_reply(in_order([], SimReply([message("Second.")])))
    assert (await client.reply(request()))["output"][0]["content"][0]["text"] == "Second."


async def test_status_faults_pass_after_as_many_requests_as_asked() -> None:
    client = Client(ga_batch())
    client.simulator.fail_next(rate_limited(3), times=2)
    client.simulator.fail_next(server_error())
    client.simulator.fail_next(unavailable())
    limited = await client.send(request())
    assert limited.headers["retry-after"] == "3"
    for _ in range(3):
        await client.send(request())
    await client.reply(request())
    assert [r.status for r in client.simulator.requests] == [429, 429, 500, 503, 200]
    assert client.simulator.requests[0].error == "Rate limit reached for requests."


async def test_faults_of_the_connection_and_size() -> None:
    simulator = OpenAISimulator(ga_batch())
    headers = {"authorization": f"Bearer {KEY}"}
    with simulator.serve() as base_url:
        async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=0.5) as http:
            simulator.fail_next(cut_connection())
            with pytest.raises(httpx.RemoteProtocolError):
                await http.post("/responses", json=request())
            simulator.fail_next(hang())
            with pytest.raises(httpx.ReadTimeout):
                await http.post("/responses", json=request())
            simulator.fail_next(malformed_json())
            response = await http.post("/responses", json=request())
            assert response.status_code == 200
            with pytest.raises(ValueError, match="Unterminated"):
                response.json()
            assert (await http.post("/responses", json=request())).status_code == 200
            too_many = b" " * MAX_REQUEST_BYTES + b"{}"
            response = await http.post("/responses", content=too_many, timeout=30)
            assert response.status_code == 413


def test_serving_runs_the_lifespan_and_frees_the_port() -> None:
    simulator = OpenAISimulator(ga_batch())
    with serve(simulator.app) as url:
        assert httpx.get(f"{url}/docs").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
