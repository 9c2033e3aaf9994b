"""Thinking, prompt caching and the ways a reply ends, against the simulated API."""

import json

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
    request,
    simulated,
)
from tests.simulators import anthropic_scripts as scripts
from tests.simulators.anthropic_api import AnthropicSimulator

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
