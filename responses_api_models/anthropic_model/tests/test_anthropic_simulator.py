"""The simulator refuses what the real API refuses, so that tests against it can fail."""

import copy
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from responses_api_models.anthropic_model.tests.anthropic_stack import (
    Json,
    converse,
    picture,
    request,
    simulated,
)
from tests.simulators import anthropic_scripts as scripts
from tests.simulators.anthropic_api import MAX_REQUEST_BYTES, AnthropicSimulator

HEADERS = {"x-api-key": "sk-ant-simulator", "anthropic-version": "2023-06-01"}


def image(url: str) -> Json:
    media_type, data = url.removeprefix("data:").split(";base64,")
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def policy(turn: scripts.SimTurn) -> list[scripts.Block]:
    if turn.number == 2:
        return [scripts.text("Done.")]
    calls = [scripts.call(turn.tool, name) for name in ("left_mouse_up", "screenshot")]
    return [scripts.thinking("Hm."), *calls]


async def recorded(model: str) -> tuple[AnthropicSimulator, Json, dict[str, str]]:
    """A simulator with a conversation that it took, its last request and the headers."""
    async with simulated(policy, anthropic_model=model, thinking="adaptive") as (simulator, client):
        await converse(client, request())
    last = simulator.requests[-1]
    assert last.status == 200
    return (
        simulator,
        last.body,
        HEADERS | {"anthropic-beta": last.headers.get("anthropic-beta", "")},
    )


def results(body: Json) -> list[Json]:
    return body["messages"][2]["content"]


def assistant(body: Json) -> list[Json]:
    return body["messages"][1]["content"]


def fail(result: Json, text: str = "no") -> None:
    result |= {"is_error": True, "content": [{"type": "text", "text": text}]}


def extra_breakpoints(body: Json) -> None:
    for result in results(body):
        result["cache_control"] = {"type": "ephemeral"}
    results(body)[0]["content"][0]["cache_control"] = {"type": "ephemeral"}


def many_large_images(body: Json) -> None:
    body["messages"][0]["content"] += [image(picture(10, 2001))] + [image(picture(8, 8))] * 20


CHANGES: dict[str, Callable[[Json], Any]] = {
    "extra_field: Extra inputs": lambda b: b.update(extra_field=1),
    "max_tokens: Field required": lambda b: b.pop("max_tokens"),
    "range: 0..1": lambda b: b.update(temperature=1.5),
    "only be set to 1": lambda b: b.update(temperature=0.5),
    "Thinking may not be enabled": lambda b: b.update(tool_choice={"type": "any"}),
    "not found in provided tools": lambda b: b.update(tool_choice={"type": "tool", "name": "x"}),
    "budget_tokens": lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 100}),
    "block_binding": lambda b: b["thinking"].update(block_binding={}),
    "context_management": lambda b: b.update(
        context_management={"edits": [{"type": "clear_thinking_20251015"}]}
    ),
    "does not match any of the expected tags": lambda b: b["tools"].append({"type": "computer_1"}),
    "tools.0.name: Extra inputs": lambda b: b["tools"][0].update(name="computer"),
    "cannot be combined": lambda b: b["tools"].append(
        {"name": "computer", "input_schema": {"type": "object"}}
    ),
    "'additionalProperties'": lambda b: b["tools"].append(
        {"name": "f", "input_schema": {"type": "object"}, "strict": True}
    ),
    "A maximum of 4 blocks": extra_breakpoints,
    "thinking blocks cannot be cached": lambda b: assistant(b)[0].update(
        cache_control={"type": "ephemeral"}
    ),
    "roles must alternate": lambda b: b["messages"].insert(0, b["messages"][0]),
    "non-empty content": lambda b: b["messages"][0].update(content=[]),
    "non-whitespace": lambda b: b["messages"][0]["content"].append(scripts.text(" ")),
    "prefill": lambda b: b["messages"].append(
        {"role": "assistant", "content": [scripts.text("So")]}
    ),
    "without `tool_result` blocks": lambda b: results(b).pop(),
    "unexpected `tool_use_id`": lambda b: results(b).insert(
        2, results(b)[0] | {"tool_use_id": "toolu_other"}
    ),
    "in its order": lambda b: results(b).reverse(),
    "must come first": lambda b: results(b).insert(0, scripts.text("Well.")),
    "toolset_name must be": lambda b: results(b)[0].pop("toolset_name"),
    "must return an image": lambda b: results(b)[1].update(content=[scripts.text("OK")]),
    "must be type `text`": lambda b: results(b)[1].update(is_error=True),
    "expected 'Not executed": lambda b: [fail(result) for result in results(b)],
    "an earlier action of this turn failed": lambda b: fail(results(b)[0]),
    "answers browser tools only": lambda b: results(b)[0].update(
        content=[{"type": "browser_state", "tabs": []}]
    ),
    "media type": lambda b: b["messages"][0]["content"][1]["source"].update(
        media_type="image/webp"
    ),
    "Could not process image": lambda b: b["messages"][0]["content"][1]["source"].update(
        data="AAAA"
    ),
    "many-image requests": many_large_images,
    "too large for this toolset": lambda b: b["messages"][0]["content"].append(
        image(picture(2600, 1000))
    ),
    "Invalid `signature`": lambda b: assistant(b).insert(
        0, scripts.thinking("Oh.") | {"signature": "sig_forged"}
    ),
    "cannot be modified": lambda b: assistant(b)[0].update(thinking="Ha."),
    "`thinking` or `redacted_thinking` blocks": lambda b: assistant(b).pop(0),
    "does not support tool types": lambda b: b.update(model="claude-haiku-4-5", thinking=None),
}


async def test_it_refuses_what_the_api_refuses() -> None:
    simulator, body, headers = await recorded("claude-opus-5")
    transport = httpx.ASGITransport(app=simulator.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        taken = await client.post("/v1/messages", json=body, headers=headers)
        assert taken.status_code == 200, taken.text
        for expected, change in CHANGES.items():
            changed = copy.deepcopy(body)
            change(changed)
            answer = await client.post("/v1/messages", json=changed, headers=headers)
            assert answer.status_code == 400, expected
            assert expected in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["system", "tools", "messages"])
async def test_thinking_is_bound_to_what_came_before(name: str) -> None:
    simulator, body, headers = await recorded("claude-opus-5-5")
    if name == "system":
        body["system"][0]["text"] = "Other instructions."
    elif name == "tools":
        body["tools"][0]["configs"] = {"zoom": {"enabled": False}}
    else:
        body["messages"][0]["content"][0]["text"] = "Another task."
    transport = httpx.ASGITransport(app=simulator.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        dropped = await client.post("/v1/messages", json=body, headers=headers)
        assert len(dropped.json()["input_transformations"]) == 2
        del body["thinking"]["block_binding"]
        refused = await client.post("/v1/messages", json=body, headers=headers)
        assert "bound to a different conversation" in refused.json()["error"]["message"]


async def test_headers_and_size() -> None:
    simulator, body, _ = await recorded("claude-opus-4-7")
    beta = {"anthropic-beta": "computer-use-2025-11-24"}
    transport = httpx.ASGITransport(app=simulator.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for headers, expected in (
            (HEADERS, "does not match any of the expected tags"),
            (HEADERS | {"anthropic-beta": "computer-use-1999-01-01"}, "Unexpected value"),
            (beta | {"x-api-key": "sk-ant-simulator"}, "anthropic-version"),
            (HEADERS | beta | {"x-api-key": "sk-ant-other"}, "invalid x-api-key"),
        ):
            answer = await client.post("/v1/messages", json=body, headers=headers)
            assert expected in answer.json()["error"]["message"]
        taken = await client.post("/v1/messages", json=body, headers=HEADERS | beta)
        assert taken.status_code == 200
        too_many = b" " * MAX_REQUEST_BYTES + b"{}"
        answer = await client.post("/v1/messages", content=too_many, headers=HEADERS | beta)
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"
