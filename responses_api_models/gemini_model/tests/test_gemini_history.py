"""The translation of a conversation so far."""

import json
from typing import Any

import pytest

from responses_api_models.gemini_model.settings import InvalidRequest, Settings
from responses_api_models.gemini_model.tests.helpers import (
    CLICK,
    COMPUTER,
    LEGACY,
    PARTS,
    PIXEL_DATA,
    SETTINGS,
    SWITCH_TAB,
    URL,
    after,
    calls,
    output_of,
    passed,
    reply,
    request,
    responses,
    sent,
    validated,
)
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from responses_api_models.whole_text import whole
from tests.simulators import gemini_scripts as scripts

Json = dict[str, Any]


def test_a_turn_goes_back_as_it_came() -> None:
    parts = [
        {"thought": True, "text": "Hm.", "thoughtSignature": "c2ln"},
        {"text": "I click.", "partMetadata": {"b": 1.50, "a": None, "ü": "\ud83d\ude00"}},
        {"functionCall": {"id": "x1", "name": "click", "args": {"y": 1, "x": 2.0}}, "later": [0]},
    ]
    contents = after(*parts)
    assert json.dumps(contents[1]) == json.dumps({"parts": parts, "role": "model"})
    assert responses(contents) == [
        {
            "id": "x1",
            "name": "click",
            "response": {"url": URL},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL_DATA}}],
        }
    ]


def test_every_call_is_answered_in_order() -> None:
    body = request(tools=[COMPUTER, SWITCH_TAB])
    parts = [CLICK, scripts.call("switch_tab", index=1), scripts.call("go_back"), CLICK]
    answer = reply(*parts, **body)
    outputs = [output_of(call, text=f"{number}") for number, call in enumerate(calls(answer))]
    shuffled = [outputs[index] for index in (2, 0, 3, 1)]
    contents = sent({**body, "input": body["input"] + answer["output"] + shuffled})["contents"]
    assert [response["name"] for response in responses(contents)] == [
        "click",
        "switch_tab",
        "go_back",
        "click",
    ]
    told = [response["response"]["output"] for response in responses(contents)]
    assert told == ["0", "1", "2", "3"]


def test_errors_addresses_and_missing_pictures() -> None:
    failed = after(CLICK, text="It is covered.", is_error=True)
    assert responses(failed)[0]["response"] == {"url": URL, "error": "It is covered."}
    function_failed = after(scripts.call("go_back"), text="error: No page before.")
    assert responses(function_failed)[0]["response"] == {"url": URL, "error": "No page before."}
    for call in (CLICK, scripts.call("go_back")):
        pruned = responses(after(call, image="", text="[screenshot omitted]"))[0]
        assert "parts" not in pruned
        assert pruned["response"] == {"url": URL, "output": "[screenshot omitted]"}


def test_a_function_tool_needs_no_address() -> None:
    body = request(tools=[COMPUTER, SWITCH_TAB])
    answer = reply(scripts.call("switch_tab", index=1), **body)
    call = calls(answer)[0]
    assert (call["name"], json.loads(call["arguments"])) == ("switch_tab", {"index": 1})
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "error: no"}
    contents = sent({**body, "input": body["input"] + answer["output"] + [output]})["contents"]
    assert responses(contents) == [{"name": "switch_tab", "response": {"error": "no"}}]


def test_the_latest_address_stands_in_for_a_missing_one() -> None:
    body = request()
    history = body["input"]
    for output in (URL, None):
        answer = reply(CLICK, **{**body, "input": history})
        items = [output_of(call, current_url=output) for call in calls(answer)]
        history = history + answer["output"] + items
    contents = sent({**body, "input": history})["contents"]
    assert responses(contents)[0]["response"]["url"] == URL


def test_safety_decisions_of_both_kinds_of_calls() -> None:
    unsafe = [scripts.unsafe("click", x=1, y=1), scripts.unsafe("go_back"), CLICK]
    answer = reply(*unsafe)
    first, second, third = calls(answer)
    check = {
        "id": f"safety_{first['call_id']}",
        "code": "require_confirmation",
        "message": "This seems to accept an agreement.",
    }
    assert first["pending_safety_checks"] == [check]
    assert json.loads(answer["metadata"]["pending_safety_checks"]) == {
        second["call_id"]: [check | {"id": f"safety_{second['call_id']}"}]
    }
    assert json.loads(second["arguments"]) == {}
    assert third["pending_safety_checks"] == []
    outputs = [output_of(call) for call in calls(answer)]
    acknowledged = f"acknowledged_safety_checks: safety_{second['call_id']}"
    for text, expected in ((acknowledged, "true"), ("acknowledged_safety_checks: []", None)):
        outputs[1]["output"][2:] = [{"type": "input_text", "text": text}]
        history = request()["input"] + answer["output"] + outputs
        told = [
            response["response"].get("safety_acknowledgement")
            for response in responses(sent(request(input=history))["contents"])
        ]
        assert told == ["true", expected, None]


def test_half_a_character_in_a_safety_decision_can_be_sent_on() -> None:
    decision = {"decision": "require_confirmation", "explanation": "Half: \ud83d"}
    answer = whole(reply(scripts.call("go_back", safety_decision=decision)))  # as the server does
    (checks,) = json.loads(answer["metadata"]["pending_safety_checks"]).values()
    assert checks[0]["message"].encode() == "Half: \ufffd".encode()


def test_a_regular_decision_needs_no_confirmation() -> None:
    answer = reply(scripts.unsafe("click", decision="regular", x=1, y=1))
    assert calls(answer)[0]["pending_safety_checks"] == []


def test_user_messages_in_a_row_are_one_content() -> None:
    body = request()
    answer = reply(CLICK, **body)
    outputs = [output_of(call) for call in calls(answer)]
    note = {"role": "user", "content": [{"type": "input_text", "text": "Hurry."}]}
    items = [*body["input"], note, *answer["output"], *outputs, note, note]
    contents = sent({**body, "input": items})["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[0]["parts"] == [*PARTS, {"text": "Hurry."}]
    assert contents[2]["parts"][1:] == [{"text": "Hurry."}] * 2


def test_an_empty_turn_leaves_no_trace() -> None:
    body = request()
    turn = to_gemini(passed(body), SETTINGS)[1]
    for content in (None, {}, {"role": "model"}, {"role": "model", "parts": []}):
        candidate = {"finishReason": "STOP", **({} if content is None else {"content": content})}
        answer = validated(from_gemini({"candidates": [candidate]}, turn, SETTINGS, now=1))
        assert [item["type"] for item in answer["output"]] == ["reasoning"]
        contents = sent({**body, "input": body["input"] + answer["output"]})["contents"]
        assert contents == [{"role": "user", "parts": PARTS}]


def test_a_cut_off_call_is_answered_for_the_agent() -> None:
    body = request()
    answer = reply(CLICK, finish="MAX_TOKENS", **body)
    assert [call["status"] for call in calls(answer)] == ["incomplete"]
    contents = sent({**body, "input": body["input"] + answer["output"]})["contents"]
    assert responses(contents)[0]["response"] == {
        "url": "about:blank",
        "error": "The call was cut off, so it was not run.",
    }


def test_a_turn_whose_items_are_not_its_own_is_refused() -> None:
    body = request()
    answer = reply(CLICK, **body)
    reasoning, call = answer["output"]
    for items in ([reasoning], [reasoning, call, call]):
        with pytest.raises(InvalidRequest, match=r"input\[1\]: the turn has 1 calls"):
            sent({**body, "input": body["input"] + items})
    twice = [*answer["output"], output_of(call)] * 2
    with pytest.raises(InvalidRequest, match="there twice"):
        sent({**body, "input": body["input"] + twice})


def foreign(settings: Settings) -> list[Json]:
    """A turn that another model made, and what Gemini is told of it."""
    click = {"type": "click", "x": 640, "y": 180, "button": "left"}
    double = {"type": "double_click", "x": 640, "y": 180}
    common = {"status": "completed", "pending_safety_checks": []}
    items = [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAA"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I click."}]},
        {"type": "computer_call", "id": "a", "call_id": "a", "action": click, **common},
        {"type": "computer_call", "id": "b", "call_id": "b", "action": double, **common},
        {"type": "function_call", "call_id": "c", "name": "switch_tab", "arguments": '{"index":1}'},
        {"type": "function_call", "call_id": "d", "name": "wait", "arguments": '{"ms":5000}'},
    ]
    outputs = [output_of(item) for item in items[2:]]
    tools = [COMPUTER, SWITCH_TAB]
    body = passed(request(tools=tools, input=[*request()["input"], *items, *outputs]))
    contents = to_gemini(body, settings)[0]["contents"]
    assert [r["name"] for r in responses(contents)] == [
        part["functionCall"]["name"] for part in contents[1]["parts"][1:]
    ]
    return contents[1]["parts"]


def test_history_from_elsewhere() -> None:
    signed = {"thoughtSignature": "skip_thought_signature_validator"}
    tab = scripts.call("switch_tab", index=1)
    assert foreign(SETTINGS) == [
        {"text": "I click."},
        {**CLICK, **signed},
        scripts.call("double_click", x=500, y=250),
        tab,
        scripts.call("wait", seconds=5),
    ]
    assert foreign(LEGACY) == [
        {"text": "I click."},
        scripts.call("click_at", x=500, y=250),
        scripts.call("double_click", x=640, y=180),
        tab,
        scripts.call("wait_5_seconds"),
    ]


def test_call_ids_stay_unique_when_turns_are_dropped() -> None:
    body = request()
    history = list(body["input"])
    kept: list[Json] = []
    for _ in range(5):
        answer = reply(CLICK, CLICK, **{**body, "input": history})
        outputs = [output_of(call) for call in calls(answer)]
        kept = [*kept, *answer["output"], *outputs][-5 * 2 :]
        history = body["input"] + kept
    ids = [item["call_id"] for item in kept if item["type"] == "computer_call"]
    assert ids == ["call_3_0", "call_3_1", "call_4_0", "call_4_1"]


def test_an_id_that_gemini_repeats_is_replaced() -> None:
    twice = {"functionCall": {"id": "same", "name": "click", "args": {"x": 1, "y": 1}}}
    answer = reply(twice, twice)
    assert [call["call_id"] for call in calls(answer)] == ["same", "call_0_1"]
