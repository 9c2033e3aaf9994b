"""The OpenAI model server against the strict simulator, over real HTTP, and its translation."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from responses_api_models.openai_computer_model.app import (
    OpenAIComputerModel,
    OpenAIComputerModelConfig,
)
from responses_api_models.openai_computer_model.translate import (
    UnusableReply,
    from_openai,
    to_openai,
)
from tests.simulators import openai_scripts as scripts
from tests.simulators.faults import dropped_connection, trickle
from tests.simulators.http_server import serve
from tests.simulators.openai_api import OpenAISimulator

PROJECT = Path(__file__).resolve().parents[3]
SERVER = PROJECT / "responses_api_models/openai_computer_model"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Json = dict[str, Any]


def server(base_url: str, **settings: Any) -> OpenAIComputerModel:
    config = OpenAIComputerModelConfig(
        **{
            "host": "127.0.0.1",
            "port": 1,
            "entrypoint": "app.py",
            "name": "policy_model",
            "openai_api_key": "sk-simulator",
            "openai_base_url": base_url,
            "openai_model": "gpt-5.4",
            "max_retries": 0,
            **settings,
        }
    )
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = OmegaConf.create({})
    return OpenAIComputerModel(config=config, server_client=client)


@asynccontextmanager
async def model(base_url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the model server and yield a client of it."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(serve(server(base_url, **settings).setup_webserver()))
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30))


@pytest.fixture
def simulator() -> OpenAISimulator:
    return OpenAISimulator(scripts.ga_batch())


def request(**changes: Any) -> Json:
    task = {"role": "user", "content": [{"type": "input_text", "text": "Do it."}]}
    return {"input": [task], "tools": [{"type": "computer"}], **changes}


def outputs(reply: Json) -> list[Json]:
    """Answer every call of a reply, as an agent does."""
    items: list[Json] = []
    for item in reply["output"]:
        if item["type"] == "function_call":
            kind = "function_call_output"
            items.append({"type": kind, "call_id": item["call_id"], "output": "ok"})
        elif item["type"] == "computer_call":
            shot = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}
            items.append(
                {
                    "type": "computer_call_output",
                    "call_id": item["call_id"],
                    "output": shot,
                    "acknowledged_safety_checks": item["pending_safety_checks"],
                }
            )
    return items


async def ask(client: httpx.AsyncClient, body: Json) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    NeMoGymResponse.model_validate(reply)
    return reply


ODD_ACTIONS = [
    scripts.click(10.4, 20.5),
    {"type": "drag", "path": [[1, 2], [3.5, 4]]},
    {"type": "zoom", "region": [0, 0, 10, 10]},
    {"type": "click", "button": "left"},
    {"type": "wait"},
]
CONVERSATIONS = {
    "batch": scripts.ga_batch(),
    "message beside call": scripts.message_beside_call(),
    "several calls": scripts.several_calls(),
    "function beside computer": scripts.function_beside_computer(),
    "safety checks": scripts.safety_checks_pending(),
    "reasoning": scripts.reasoning_items(),
    "omitted safety checks": scripts.omitted_safety_checks(),
    "odd actions": scripts.script([scripts.computer_call(*ODD_ACTIONS)]),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("stateless", [True, False])
async def test_a_whole_conversation(name: str, stateless: bool) -> None:
    simulator = OpenAISimulator(CONVERSATIONS[name])
    switch_tab = {
        "type": "function",
        "name": "switch_tab",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    body = request(tools=[{"type": "computer"}, switch_tab])
    if stateless:
        body |= {"store": False, "include": ["reasoning.encrypted_content"]}
    history = body["input"]
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            for _ in range(4):
                reply = await ask(client, body)
                answers = outputs(reply)
                if not answers:
                    break
                history = history + reply["output"] + answers
                body |= (
                    {"input": history}
                    if stateless
                    else {"input": answers, "previous_response_id": reply["id"]}
                )
    assert reply["output"][-1]["content"][0]["text"] == "Done."
    assert [r.error for r in simulator.requests] == [None, None]
    # Nothing that OpenAI said came back to it in other words.
    changed = simulator.altered_items()
    if name == "omitted safety checks" and stateless:
        assert [item.pop("pending_safety_checks") for item in changed] == [[]]
        changed = simulator.altered_items()
    assert changed == []


async def test_the_preview_tool() -> None:
    simulator = OpenAISimulator(scripts.preview_single())
    tool = {
        "type": "computer_use_preview",
        "display_width": 1280,
        "display_height": 720,
        "environment": "browser",
    }
    with simulator.serve() as base_url:
        async with model(base_url, openai_model="computer-use-preview") as client:
            reply = await ask(client, request(tools=[tool], truncation="auto"))
    assert reply["output"][0]["action"] == scripts.click(10, 20) | {"keys": None}
    assert simulator.requests[0].body["tools"] == [tool]


async def test_what_is_no_utf_8_is_a_reply() -> None:
    typed = scripts.computer_call({"type": "type", "text": "a\ud83d"})
    simulator = OpenAISimulator(scripts.script([scripts.message("\ud83d"), typed]))
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            message, call = (await ask(client, request(tools=[{"type": "computer"}])))["output"]
    assert message["content"][0]["text"] == "\ufffd"
    assert call["actions"][0]["text"] == "a\ufffd"


async def test_only_what_was_set_is_sent(simulator: OpenAISimulator) -> None:
    body = request(
        model="some-other-model", temperature=0.5, max_output_tokens=100, top_p=None, metadata={}
    )
    with simulator.serve() as base_url:
        settings = {"openai_organization": "org-1", "openai_project": "proj-1"}
        async with model(base_url, **settings) as client:
            await ask(client, body)
    sent = simulator.requests[0]
    assert sent.body == {
        "model": "gpt-5.4",
        "input": body["input"],
        "tools": [{"type": "computer"}],
        "temperature": 0.5,
        "max_output_tokens": 100,
        "metadata": {},
    }
    assert sent.headers["openai-organization"] == "org-1"
    assert sent.headers["openai-project"] == "proj-1"


async def test_azure_gets_key_and_version_in_its_own_places() -> None:
    simulator = OpenAISimulator(scripts.ga_batch(), azure=True)
    settings = {"openai_key_header": "api-key", "openai_api_version": "2026-01-01-preview"}
    settings |= {"openai_headers": {"x-team": "browsers"}}
    with simulator.serve() as base_url:
        async with model(base_url, **settings) as client:
            first = await ask(client, request())
            await ask(client, request(previous_response_id=first["id"], input=outputs(first)))
        async with model(base_url) as client:
            refused = await client.post("/v1/responses", json=request())
    sent = simulator.requests[0]
    assert (sent.query, sent.headers["x-team"]) == (
        {"api-version": "2026-01-01-preview"},
        "browsers",
    )
    assert refused.status_code == 401


async def test_usage_reaches_the_caller() -> None:
    simulator = OpenAISimulator(scripts.cached_and_reasoning_usage())
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            usage = (await ask(client, request()))["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 1024
    assert usage["output_tokens_details"]["reasoning_tokens"] == 128


async def test_refusals_empty_and_incomplete_replies_are_replies() -> None:
    for policy, check in (
        (scripts.refused(), lambda r: r["output"][0]["content"][0]["type"] == "refusal"),
        (scripts.empty(), lambda r: r["output"] == []),
        (
            scripts.incomplete(),
            lambda r: r["incomplete_details"]["reason"] == "max_output_tokens",
        ),
    ):
        with OpenAISimulator(policy).serve() as base_url:
            async with model(base_url) as client:
                assert check(await ask(client, request()))


async def error(client: httpx.AsyncClient, body: Json, status: int) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == status, response.text
    content = response.json()
    assert set(content) == {"error"}
    assert set(content["error"]) == {"message", "type", "code"}
    return content["error"]


async def test_openai_errors_keep_their_status_and_text(simulator: OpenAISimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            refused = await error(client, request(previous_response_id="resp_x"), 400)
            assert refused["code"] == "previous_response_not_found"
            assert "resp_x" in refused["message"]
        async with model(base_url, openai_api_key="sk-wrong") as client:
            assert (await error(client, request(), 401))["code"] == "invalid_api_key"
        async with model(base_url, openai_model="gpt-none") as client:
            assert (await error(client, request(), 404))["code"] == "model_not_found"
        # A refused request is never repeated.
        assert [r.status for r in simulator.requests] == [400, 401, 404]


async def test_retries_are_bounded_and_honour_retry_after(simulator: OpenAISimulator) -> None:
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
            assert response.json()["error"]["code"] == "rate_limit_exceeded"
            assert len(simulator.requests) == 6


async def test_failing_servers_and_connections(simulator: OpenAISimulator) -> None:
    with simulator.serve() as base_url:
        async with model(base_url, timeout_s=0.3) as client:
            for fault, status, kind in (
                (scripts.server_error(), 500, "server_error"),
                (scripts.unavailable(), 503, "server_error"),
                (scripts.hang(), 504, "timeout_error"),
                (trickle(), 504, "timeout_error"),
                (scripts.cut_connection(), 502, "connection_error"),
                (scripts.malformed_json(), 502, "connection_error"),
                (dropped_connection(), 502, "connection_error"),
            ):
                simulator.fail_next(fault)
                assert (await error(client, request(), status))["type"] == kind
            for fault, status in ((scripts.too_long(), 400), (scripts.too_large(), 413)):
                simulator.fail_next(fault)
                told = await error(client, request(), status)
                assert told["code"] == "context_length_exceeded"
            await ask(client, request())
        async with model(base_url, max_retries=3) as client:
            before = len(simulator.requests)
            for fault in (scripts.malformed_json(), dropped_connection(), scripts.cut_connection()):
                simulator.fail_next(fault)
            await ask(client, request())
            assert len(simulator.requests) == before + 4


async def test_a_reply_that_fits_no_model_is_a_502() -> None:
    odd = {"type": "teleport_call", "id": "tp_1"}
    for output, expected in (([odd], "teleport_call"), (None, "no list 'output'")):
        policy = scripts.script(scripts.SimReply([], extra={"output": output}))
        with OpenAISimulator(policy).serve() as base_url:
            async with model(base_url) as client:
                assert expected in (await error(client, request(), 502))["message"]


@pytest.mark.parametrize(
    ("code", "status"),
    [("server_error", 500), ("rate_limit_exceeded", 429), ("invalid_prompt", 400), ("new", 400)],
)
async def test_a_failed_reply_is_an_error(code: str, status: int) -> None:
    failure = {"error": {"code": code, "message": "It broke."}}
    policy = scripts.script(scripts.SimReply([], status="failed", extra=failure))
    with OpenAISimulator(policy).serve() as base_url:
        async with model(base_url) as client:
            told = await error(client, request(), status)
    assert (told["code"], told["message"]) == (code, "It broke.")


async def test_shutdown_closes_the_client(simulator: OpenAISimulator) -> None:
    instance = server("http://127.0.0.1:1/v1")
    with serve(instance.setup_webserver()):
        assert not instance._client.is_closed()
    assert instance._client.is_closed()


# Translation alone -------------------------------------------------------------------------------


def empty_reply(**changes: Any) -> Json:
    return {"id": "resp_1", "created_at": 1, "model": "gpt-5.4", "output": [], **changes}


def call(*actions: Any, **changes: Any) -> Json:
    return {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "actions": list(actions),
        **changes,
    }


def validated(reply: Json) -> Json:
    """What is left of a reply after NeMo Gym's validation."""
    return NeMoGymResponse.model_validate(reply).model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (scripts.click(10.4, 20), scripts.click(10, 20)),
        (scripts.click(10.0, 20), scripts.click(10, 20)),
        (
            {"type": "drag", "path": [[1, 2], [3.6, 4]]},
            {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 4, "y": 4}]},
        ),
        (
            {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 99.9},
            {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 100},
        ),
        ({"type": "zoom", "level": 2}, {"type": "screenshot"}),
        ({"type": "click", "button": "left"}, {"type": "screenshot"}),
        ("click", {"type": "screenshot"}),
    ],
)
def test_an_action_is_made_valid_and_its_original_kept(raw: Any, expected: Json) -> None:
    for field, value in (("actions", [raw]), ("action", raw)):
        item = call(actions=None, **{field: value}) if field == "action" else call(raw)
        reply = from_openai(empty_reply(output=[item]))
        survived = validated(reply)["output"][0][field]
        action = survived[0] if field == "actions" else survived
        native = action.pop("native", None)
        assert action == expected
        assert repr(native) == repr(raw) or (native is None and raw == expected)
        sent = to_openai({"input": reply["output"]}, model="gpt-5.4")["input"][0][field]
        assert repr(sent[0] if field == "actions" else sent) == repr(raw) or raw == expected


def test_a_coordinate_that_is_no_number_is_not_rounded() -> None:
    reply = from_openai(empty_reply(output=[call(scripts.click(float("nan"), 1))]))
    assert reply["output"][0]["actions"][0]["type"] == "screenshot"


def test_a_valid_action_is_left_alone() -> None:
    action = scripts.click(10, 20) | {"keys": ["SHIFT"]}
    reply = from_openai(empty_reply(output=[call(action, pending_safety_checks=[])]))
    assert reply["output"][0]["actions"] == [action]


def test_what_nemo_gym_requires_is_filled_in() -> None:
    text = {"type": "output_text", "text": "hi"}
    raw = empty_reply(
        output=[
            call(scripts.click(1, 2)),
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]},
            {"type": "reasoning", "id": "rs_1", "summary": None},
        ],
        usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    before = json.dumps(raw)
    reply = from_openai(raw)
    assert json.dumps(raw) == before
    computer, message, thought = reply["output"]
    assert computer["pending_safety_checks"] == []
    assert computer["status"] == message["status"] == "completed"
    assert message["content"][0]["annotations"] == []
    assert thought["summary"] == []
    assert reply["usage"]["input_tokens_details"] == {"cached_tokens": None}
    assert (reply["tools"], reply["tool_choice"], reply["parallel_tool_calls"]) == (
        [],
        "auto",
        True,
    )
    assert validated(reply) == reply


def test_values_newer_than_the_sdk_do_not_end_an_episode() -> None:
    newer = {
        "error": {"code": "misalignment_policy_violation", "message": "Stopped."},
        "incomplete_details": {"reason": "steered"},
        "reasoning": {"effort": "extreme"},
        "service_tier": "galactic",
        "tools": [{"type": "telepathy"}],
        "metadata": {"queue": 1},
        "user": 5,
    }
    reply = validated(from_openai(empty_reply(status="failed", **newer)))
    assert reply["native"] == newer
    assert reply["error"] == {"code": "server_error", "message": "Stopped."}
    assert reply["incomplete_details"] == {"reason": None}
    assert (reply["service_tier"], reply["tools"]) == (None, [])


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({}, None),
        ({"input_tokens": None, "output_tokens": None, "total_tokens": None}, None),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, None),
        ("free", None),
        ({"input_tokens": 1, "output_tokens": 2}, 3),
    ],
)
def test_a_gateways_usage_does_not_end_an_episode(usage: Any, total: int | None) -> None:
    reply = validated(from_openai(empty_reply(usage=usage)))
    assert (reply["usage"] or {}).get("total_tokens") == total


def test_unknown_fields_survive() -> None:
    item = call(scripts.click(1, 2), pending_safety_checks=[], status="completed", mood="good")
    reply = validated(from_openai(empty_reply(output=[item], billing={"payer": "developer"})))
    assert reply["output"][0]["mood"] == "good"
    assert reply["billing"] == {"payer": "developer"}


@pytest.mark.parametrize("reply", [[], "x", {"id": "resp_1"}, {"output": [1]}])
def test_what_is_no_reply_is_named(reply: Any) -> None:
    with pytest.raises(UnusableReply, match="output"):
        from_openai(reply)


def test_nulls_are_not_sent_and_screenshots_keep_their_detail() -> None:
    shot = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}
    check = {"id": "sc_1", "code": None, "message": None}
    answer = {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": shot,
        "id": None,
        "acknowledged_safety_checks": [check],
    }
    action = scripts.click(1, 2)
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {
            "input": [
                call(action | {"keys": None}, pending_safety_checks=[check], status="completed"),
                answer,
            ],
            "user": None,
        }
    )
    dumped = params.model_dump(mode="json", exclude_unset=True)
    sent = to_openai(dumped | {"store": False}, model="gpt-5.4")
    assert set(sent) == {"input", "model", "store"}
    assert sent["input"][0]["actions"] == [action]
    assert sent["input"][0]["pending_safety_checks"] == [{"id": "sc_1"}]
    del answer["id"]
    assert sent["input"][1] == answer | {"acknowledged_safety_checks": [{"id": "sc_1"}]}
