"""Every recorded reply goes through its translator and back to its provider as it came."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fastapi import FastAPI, Response

from responses_api_models.anthropic_model.tests import anthropic_stack
from responses_api_models.gemini_model.tests import helpers as gemini_stack
from responses_api_models.openai_computer_model.tests import (
    test_openai_computer_model as openai_stack,
)
from tests.apps.packages import DOWNLOAD_TIMEOUT_S
from tests.recorded.archives import Exchange
from tests.recorded.replay import (
    check_anthropic,
    check_gemini,
    check_openai,
    replay_anthropic,
    replay_gemini,
    replay_openai,
    same,
    without_nulls,
)
from tests.simulators.http_server import serve

Json = dict[str, Any]

# The first test downloads the recordings.
pytestmark = [pytest.mark.long, pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + 300)]

# What the providers' own tools leave in a reply. This gym offers none of them, so the simulators do
# not know them; that they go back unchanged is checked all the same.
HOSTED_BLOCKS = ("server_tool_use", "mcp_tool_use", "_tool_result")
OWN_ITEMS = {"message", "reasoning", "function_call", "computer_call"}


def answered(exchanges: Sequence[Exchange], provider: str) -> list[tuple[str, Json]]:
    """Return source and reply of each answer that succeeded."""
    return [
        (exchange.source, json.loads(exchange.reply))
        for exchange in exchanges
        if exchange.provider == provider and exchange.status == 200
    ]


def faults(replies: list[tuple[str, Json]], check: Callable[[Json], None]) -> list[str]:
    """Return what is wrong, a line for each reply."""
    found = []
    for source, reply in replies:
        try:
            check(reply)
        except Exception as error:  # each of them is reported
            found.append(f"{source}: {error!r:.500}")
    return found


def said(response: Json) -> tuple[str, list[tuple[str, Any]]]:
    """Return the texts and the function calls of a Responses object."""
    texts, calls = "", []
    for item in response["output"]:
        if item["type"] == "message":
            texts += "".join(p["text"] for p in item["content"] if p["type"] == "output_text")
        elif item["type"] == "function_call":
            calls.append((item["name"], json.loads(item["arguments"])))
    return texts, calls


def test_how_many_recordings_there_are(exchanges: list[Exchange]) -> None:
    assert Counter((exchange.provider, exchange.status == 200) for exchange in exchanges) == {
        ("anthropic", True): 288,
        ("anthropic", False): 12,
        ("gemini", True): 165,
        ("gemini", False): 2,
        ("openai", True): 268,
        ("openai", False): 3,
    }


def check_anthropic_reply(reply: Json) -> None:
    replayed = replay_anthropic(reply)
    content = reply["content"]
    # Anthropic says empty texts, and refuses to hear them.
    heard = [b for b in content if b["type"] != "text" or b["text"].strip()]
    assert same(replayed.returned, heard), replayed.returned
    if not any(kind in block["type"] for block in content for kind in HOSTED_BLOCKS):
        check_anthropic(replayed.body, replayed.betas, content)
    response, usage, reason = replayed.response, reply["usage"], reply["stop_reason"]
    texts = "".join(b["text"] for b in content if b["type"] == "text")
    calls = [(b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
    assert said(response) == (texts, calls)
    assert response["metadata"]["stop_reason"] == str(reason)
    assert response["status"] == ("incomplete" if reason == "max_tokens" else "completed")
    sent = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert response["usage"]["input_tokens"] == sum(usage.get(name) or 0 for name in sent)
    assert response["usage"]["output_tokens"] == usage["output_tokens"]


def check_gemini_reply(reply: Json) -> None:
    replayed = replay_gemini(reply)
    candidate, usage = reply["candidates"][0], reply.get("usageMetadata")
    content = candidate.get("content") or {}
    parts = content.get("parts") or []
    issued = [content] if parts else []
    assert same(replayed.returned, issued), replayed.returned
    check_gemini(replayed.body, issued, reply.get("modelVersion", "gemini-3.8-flash"))
    response, reason = replayed.response, candidate["finishReason"]
    texts = "".join(p["text"] for p in parts if "text" in p and not p.get("thought"))
    calls = [p["functionCall"] for p in parts if "functionCall" in p]
    assert said(response) == (texts, [(call["name"], call.get("args") or {}) for call in calls])
    assert response["metadata"]["stop_reason"] == reason
    assert response["status"] == ("completed" if reason == "STOP" else "incomplete")
    if usage is None:
        assert response["usage"] is None
        return
    # Gemini leaves zeros out.
    sent, spoken, thought = (
        usage.get(name, 0)
        for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    assert response["usage"]["input_tokens"] == sent + usage.get("toolUsePromptTokenCount", 0)
    assert response["usage"]["output_tokens"] == spoken + thought
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == thought
    assert response["usage"]["total_tokens"] == usage.get(
        "totalTokenCount", sent + spoken + thought
    )


def check_openai_reply(reply: Json) -> None:
    replayed = replay_openai(reply)
    assert without_nulls(replayed.returned) == without_nulls(reply["output"])
    if all(item["type"] in OWN_ITEMS for item in reply["output"]):
        check_openai(replayed.body, reply["output"])
    response = replayed.response
    for name in ("status", "incomplete_details", "id", "model"):
        assert response[name] == reply[name], name
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert response["usage"][name] == reply["usage"][name], name


CHECKS = {
    "anthropic": check_anthropic_reply,
    "gemini": check_gemini_reply,
    "openai": check_openai_reply,
}


@pytest.mark.parametrize("provider", CHECKS)
def test_a_reply_goes_back_as_it_came(exchanges: list[Exchange], provider: str) -> None:
    assert faults(answered(exchanges, provider), CHECKS[provider]) == []


# What an error of each provider becomes: its kind and its code.
NAMED = {
    "anthropic": lambda error: (error["type"], error["type"]),
    "gemini": lambda error: (error["status"], error["status"]),
    "openai": lambda error: (error["type"], error["code"]),
}
STACKS = {
    "anthropic": anthropic_stack.model,
    "gemini": gemini_stack.model,
    "openai": openai_stack.model,
}


@pytest.mark.parametrize("provider", STACKS)
async def test_an_error_is_told_as_what_it_is(exchanges: list[Exchange], provider: str) -> None:
    failed = [e for e in exchanges if e.provider == provider and e.status != 200]
    waiting = iter(failed)
    api = FastAPI()

    @api.post("/{path:path}")
    async def fail() -> Response:
        exchange = next(waiting)
        return Response(exchange.reply, exchange.status, media_type="application/json")

    with serve(api) as url:
        async with STACKS[provider](url) as client:
            for exchange in failed:
                answer = await client.post("/v1/responses", json={"input": "Hello."})
                error = json.loads(exchange.reply)["error"]
                kind, code = NAMED[provider](error)
                told = {"message": error["message"], "type": kind, "code": code}
                assert (answer.status_code, answer.json()) == (exchange.status, {"error": told})
    assert next(waiting, None) is None
