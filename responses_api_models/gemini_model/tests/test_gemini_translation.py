"""The translation alone: requests, histories, outcomes."""

import json
import time
from typing import Any

import pytest
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming

from responses_api_models.gemini_model.settings import InvalidRequest, Settings
from responses_api_models.gemini_model.tests.helpers import (
    COMPUTER,
    CURRENT_MODEL,
    LEGACY_MODEL,
    PIXEL,
    PIXEL_DATA,
    SWITCH_TAB,
    URL,
    calls,
    config,
    output_of,
    request,
)
from responses_api_models.gemini_model.translate_reply import UnusableReply, from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from tests.simulators import gemini_scripts as scripts

Json = dict[str, Any]

SETTINGS = config().settings()
LEGACY = config(gemini_model=LEGACY_MODEL).settings()
GEMINI_3 = config(gemini_model="gemini-3-flash-preview").settings()
PARTS = [{"text": "Do it."}, {"inlineData": {"mimeType": "image/png", "data": PIXEL_DATA}}]
CLICK = scripts.call("click", x=500, y=250)


def passed(body: Json) -> Json:
    """What is left of a request after NeMo Gym's validation."""
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
    return params.model_dump(mode="json", exclude_unset=True)


def sent(body: Json, settings: Settings = SETTINGS) -> Json:
    return to_gemini(passed(body), settings)[0]


def reply(
    *parts: Json, finish: str | None = "STOP", settings: Settings = SETTINGS, **body: Any
) -> Json:
    """Translate a reply to a request, and check that NeMo Gym takes it."""
    turn = to_gemini(passed(request(**body)), settings)[1]
    content = {"parts": list(parts), "role": "model"}
    candidate = {"content": content} | ({"finishReason": finish} if finish else {})
    return validated(from_gemini({"candidates": [candidate]}, turn, settings, now=1))


def validated(answer: Json) -> Json:
    return NeMoGymResponse.model_validate(answer).model_dump(mode="json", exclude_unset=True)


def after(
    *parts: Json, settings: Settings = SETTINGS, tools: list[Json] | None = None, **output: Any
) -> list[Json]:
    """The contents sent after a turn whose calls were all answered."""
    body = request(tools=tools or [COMPUTER])
    answer = reply(*parts, settings=settings, **body)
    outputs = [output_of(call, **output) for call in calls(answer)]
    return sent({**body, "input": body["input"] + answer["output"] + outputs}, settings)["contents"]


def responses(contents: list[Json]) -> list[Json]:
    return [part["functionResponse"] for part in contents[-1]["parts"]]


# Requests -----------------------------------------------------------------------------------------


def test_a_whole_request() -> None:
    body = request(
        instructions="Be quick.",
        tools=[COMPUTER, SWITCH_TAB],
        tool_choice="required",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=1000,
        reasoning={"effort": "low"},
        parallel_tool_calls=True,
        model="other",
        metadata={"a": "b"},
    )
    body["input"].insert(0, {"role": "developer", "content": "Be kind."})
    assert sent(body) == {
        "contents": [{"role": "user", "parts": PARTS}],
        "systemInstruction": {"parts": [{"text": "Be quick."}, {"text": "Be kind."}]},
        "tools": [
            {
                "computerUse": {
                    "environment": "ENVIRONMENT_BROWSER",
                    "excludedPredefinedFunctions": ["key_down", "key_up"],
                }
            },
            {
                "functionDeclarations": [
                    {
                        "name": "switch_tab",
                        "description": SWITCH_TAB["description"],
                        "parametersJsonSchema": SWITCH_TAB["parameters"],
                    }
                ]
            },
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 1000,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        },
    }


def test_the_smallest_request() -> None:
    settings = config(include_thoughts=False).settings()
    assert sent({"input": "Hi."}, settings) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]
    }


def test_options_of_the_computer_tool() -> None:
    settings = config(
        excluded_functions=["key_down", "open_web_browser", "hotkey"],
        detect_prompt_injection=True,
        disabled_safety_policies=["ACCOUNT_CREATION"],
    ).settings()
    own = {**SWITCH_TAB, "name": "navigate"}
    tool = sent(request(tools=[COMPUTER, own]), settings)["tools"][0]["computerUse"]
    # Only what the model's set has; a function tool takes the place of its namesake.
    assert tool["excludedPredefinedFunctions"] == ["hotkey", "key_down", "navigate"]
    assert tool["enablePromptInjectionDetection"] is True
    assert tool["disabledSafetyPolicies"] == ["ACCOUNT_CREATION"]
    assert sent(request(), LEGACY)["tools"] == [
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (
            {"type": "function", "name": "switch_tab"},
            {"mode": "ANY", "allowedFunctionNames": ["switch_tab"]},
        ),
    ],
)
def test_tool_choice(choice: Any, expected: Json | None) -> None:
    tools = [COMPUTER, SWITCH_TAB]
    told = sent(request(tools=tools, tool_choice=choice)).get("toolConfig")
    assert told == (expected and {"functionCallingConfig": expected})


def test_the_computer_tool_can_be_chosen_where_it_is_the_only_one() -> None:
    choice = {"type": "computer_use_preview"}
    told = sent(request(tool_choice=choice))["toolConfig"]["functionCallingConfig"]
    assert told == {"mode": "ANY"}
    with pytest.raises(InvalidRequest, match="tool_choice"):
        sent(request(tools=[COMPUTER, SWITCH_TAB], tool_choice=choice))


@pytest.mark.parametrize(
    ("settings", "effort", "thinking"),
    [
        (SETTINGS, "minimal", {"thinkingLevel": "MINIMAL"}),
        (SETTINGS, "medium", {"thinkingLevel": "MEDIUM"}),
        (SETTINGS, "xhigh", {"thinkingLevel": "XHIGH"}),
        (GEMINI_3, "high", {"thinkingLevel": "HIGH"}),
        (LEGACY, "low", {"thinkingBudget": 1024}),
        (LEGACY, "high", {"thinkingBudget": 24576}),
    ],
)
def test_thinking_by_effort(settings: Settings, effort: str, thinking: Json) -> None:
    told = sent(request(reasoning={"effort": effort}), settings)["generationConfig"]
    assert told["thinkingConfig"] == {"includeThoughts": True, **thinking}


def test_no_thinking_has_no_thoughts() -> None:
    told = sent(request(reasoning={"effort": "none"}), LEGACY)["generationConfig"]
    assert told["thinkingConfig"] == {"thinkingBudget": 0}


USER = request()["input"][0]
CALL_OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
FUNCTION_CALL = {"type": "function_call", "call_id": "c", "name": "go_back", "arguments": "{}"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"reasoning": {"effort": "none"}}, r"reasoning\.effort.*'none'.*minimal, low"),
        ({"tools": [{"type": "computer"}]}, r"tools\[0\]\.type.*'computer'"),
        ({"tools": [COMPUTER, COMPUTER]}, r"tools\[1\]"),
        ({"tools": [COMPUTER | {"environment": "mac"}]}, r"tools\[0\]\.environment"),
        ({"tool_choice": {"type": "function", "name": "x"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, r"text\.format"),
        ({"input": []}, "no user message"),
        ({"input": [{"role": "system", "content": "x"}]}, "no user message"),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_image", "image_url": "https://a.example/b.png"}
                        ],
                    }
                ]
            },
            r"input\[0\]\.content\[0\]\.image_url: .* data URL",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input_file"),
        ({"input": [USER, CALL_OUTPUT]}, r"input\[1\]\.call_id: 'c'"),
        ({"input": [USER, FUNCTION_CALL]}, "'c' has no output"),
        ({"input": [USER, FUNCTION_CALL, CALL_OUTPUT, CALL_OUTPUT]}, r"input\[3\].*already"),
        ({"input": [FUNCTION_CALL, CALL_OUTPUT]}, "starts with a user message"),
        (
            {"input": [USER, FUNCTION_CALL | {"arguments": "{"}, CALL_OUTPUT]},
            "arguments: not JSON",
        ),
    ],
)
def test_what_cannot_be_translated_is_named(changes: Json, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        to_gemini({**request(), **changes}, SETTINGS)


# Histories ----------------------------------------------------------------------------------------


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
    outputs[1]["output"].append({"type": "input_text", "text": acknowledged})
    history = request()["input"] + answer["output"] + outputs
    told = [
        response["response"].get("safety_acknowledgement")
        for response in responses(sent(request(input=history))["contents"])
    ]
    assert told == ["true", "true", None]


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


# Replies ------------------------------------------------------------------------------------------


def test_items_in_geminis_order() -> None:
    answer = reply(
        scripts.thought("First."),
        scripts.text("I look, "),
        scripts.text("then go back."),
        scripts.call("take_screenshot"),
        scripts.thought("Second."),
        scripts.text("Back."),
        scripts.call("go_back"),
    )
    reasoning, *rest = answer["output"]
    assert [part["text"] for part in reasoning["summary"]] == ["First.", "Second."]
    assert json.loads(reasoning["encrypted_content"])["provider"] == "gemini"
    assert [item["type"] for item in rest] == [
        "message",
        "computer_call",
        "message",
        "function_call",
    ]
    assert rest[0]["content"][0]["text"] == "I look, then go back."
    assert rest[1]["action"] == {"type": "screenshot"}
    assert rest[1]["native"] == {"name": "take_screenshot", "args": {}}
    assert len({item["id"] for item in answer["output"]}) == 5
    assert answer["metadata"] == {"stop_reason": "STOP"}
    assert answer["status"] == "completed"


INCOMPLETE = {
    "MAX_TOKENS": "max_output_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "CONTINUATION": "max_output_tokens",
    "MALFORMED_FUNCTION_CALL": None,
    "UNEXPECTED_TOOL_CALL": None,
    "TOO_MANY_TOOL_CALLS": None,
    "MALFORMED_RESPONSE": None,
    "MISSING_THOUGHT_SIGNATURE": None,
    "OTHER": None,
    "A_REASON_OF_NEXT_YEAR": None,
}


@pytest.mark.parametrize("reason", INCOMPLETE)
def test_every_finish_reason_is_told(reason: str) -> None:
    answer = reply(scripts.text("I will"), CLICK, finish=reason)
    assert answer["metadata"]["stop_reason"] == reason
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": INCOMPLETE[reason]}
    whole = "completed" if reason == "UNEXPECTED_TOOL_CALL" else "incomplete"
    assert [item["status"] for item in answer["output"][1:]] == [whole, whole]


def test_a_reply_without_a_finish_reason() -> None:
    answer = reply(scripts.text("I will"), finish=None)
    assert answer["metadata"]["stop_reason"] == "FINISH_REASON_UNSPECIFIED"
    assert answer["status"] == "incomplete"


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "JAILBREAK"])
def test_a_blocked_prompt(reason: str) -> None:
    turn = to_gemini(passed(request()), SETTINGS)[1]
    feedback = {"blockReason": reason, "blockReasonMessage": "No."}
    answer = validated(from_gemini({"promptFeedback": feedback}, turn, SETTINGS, now=1))
    assert answer["metadata"] == {
        "stop_reason": f"PROMPT_BLOCKED:{reason}",
        "stop_message": "No.",
    }
    assert answer["incomplete_details"] == {"reason": "content_filter"}


def test_no_candidates_at_all() -> None:
    turn = to_gemini(passed(request()), SETTINGS)[1]
    empty = {"usageMetadata": {"promptTokenCount": 7}}
    answer = validated(from_gemini(empty, turn, SETTINGS, now=1))
    assert answer["metadata"] == {"stop_reason": "NO_CANDIDATE"}
    assert answer["status"] == "incomplete"
    assert answer["usage"]["input_tokens"] == 7


@pytest.mark.parametrize(
    "broken",
    [
        [],
        "x",
        {},
        {"error": {}},
        {"candidates": [1]},
        {"candidates": {"a": 1}},
        {"candidates": [{"content": {"parts": [1]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": "click"}]}}]},
        {"candidates": [{"content": [1]}]},
    ],
)
def test_what_is_no_reply_is_named(broken: Any) -> None:
    turn = to_gemini(passed(request()), SETTINGS)[1]
    with pytest.raises(UnusableReply):
        from_gemini(broken, turn, SETTINGS, now=1)


def test_usage() -> None:
    turn = to_gemini(passed(request()), SETTINGS)[1]
    usage = scripts.usage(1000, 50, thoughts=30, cached=800) | {"toolUsePromptTokenCount": 5}
    answer = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}
    assert validated(from_gemini(answer, turn, SETTINGS, now=1))["usage"] == {
        "input_tokens": 1005,
        "input_tokens_details": {"cached_tokens": 800},
        "output_tokens": 80,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": 1080,
    }


def test_cpu_time_of_a_turn() -> None:
    """Ten screenshots of 1280×720 pixels; printed, as machines differ."""
    picture = PIXEL + "A" * 200_000  # a screenshot of a busy page has about 150 kB
    body = request()
    history = list(body["input"])
    for _ in range(10):
        answer = reply(scripts.thought("Hm."), CLICK, **{**body, "input": history})
        outputs = [output_of(call, image=picture) for call in calls(answer)]
        history = history + answer["output"] + outputs
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate({**body, "input": history})
    started = time.process_time()
    translated, turn = to_gemini(params.model_dump(mode="json", exclude_unset=True), SETTINGS)
    candidate = {"finishReason": "STOP", "content": {"role": "model", "parts": [CLICK]}}
    from_gemini({"candidates": [candidate]}, turn, SETTINGS, now=1)
    translation_s = time.process_time() - started
    json.dumps(translated).encode()
    writing_s = time.process_time() - started - translation_s
    print(f"\n{translation_s * 1000:.1f} ms, and {writing_s * 1000:.1f} ms for JSON")  # noqa: T201
    assert len(translated["contents"]) == 21


def test_models_are_as_the_tests_assume() -> None:
    assert SETTINGS.model == CURRENT_MODEL
    assert (SETTINGS.functions, GEMINI_3.functions, LEGACY.functions) == (
        "current",
        "legacy",
        "legacy",
    )
    assert config(function_set="legacy").settings().functions == "legacy"
