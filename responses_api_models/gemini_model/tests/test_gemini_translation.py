"""The translation of requests and replies."""

import json
import time
from typing import Any

import pytest
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from responses_api_models.gemini_model.settings import InvalidRequest, Settings
from responses_api_models.gemini_model.tests.helpers import (
    CLICK,
    COMPUTER,
    CURRENT_MODEL,
    GEMINI_3,
    LEGACY,
    PARTS,
    PIXEL,
    SETTINGS,
    SWITCH_TAB,
    calls,
    config,
    output_of,
    passed,
    reply,
    request,
    sent,
    validated,
)
from responses_api_models.gemini_model.translate_reply import UnusableReply, from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from tests.simulators import gemini_scripts as scripts

Json = dict[str, Any]


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
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
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
        {"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "x", "later": float("inf")}]}}]},
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
    picture = PIXEL.rstrip("=") + "A" * 200_002  # a screenshot of a busy page has about 150 kB
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
