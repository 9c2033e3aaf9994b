"""What never reaches Gemini: broken histories, images and numbers, and empty texts."""

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

from responses_api_models.gemini_model.settings import InvalidRequest
from responses_api_models.gemini_model.tests.helpers import (
    CLICK,
    COMPUTER,
    PIXEL,
    SETTINGS,
    SWITCH_TAB,
    URL,
    error,
    model,
    output_of,
    passed,
    reply,
    request,
    responses,
    sent,
)
from responses_api_models.gemini_model.translate_request import to_gemini
from tests.simulators import gemini_scripts as scripts
from tests.simulators.gemini_api import GeminiSimulator

Json = dict[str, Any]

USER = request()["input"][0]
SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]}
FUNCTION_CALL = {"type": "function_call", "call_id": "c", "name": "go_back", "arguments": "{}"}
CALL_OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
COMPUTER_CALL = {
    "type": "computer_call",
    "id": "c",
    "call_id": "c",
    "status": "completed",
    "pending_safety_checks": [],
    "action": {"type": "click", "x": 640, "y": 180, "button": "left"},
}
SHOT = output_of(COMPUTER_CALL)


def called(arguments: str) -> Json:
    return FUNCTION_CALL | {"arguments": arguments}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"input": [USER, called("[" * 100_000), CALL_OUTPUT]}, r"input\[1\]\.arguments: not JSON"),
        ({"input": [USER, SAID, called('{"a": [NaN]}')]}, r"input\[2\]\.arguments\.a\[0\]: nan"),
        ({"input": [USER, called('{"a": -1e999}')]}, r"input\[1\]\.arguments\.a: -inf"),
        ({"input": [USER, called("[1]")]}, r"input\[1\]\.arguments: not a JSON object"),
        ({"temperature": float("nan")}, "temperature: nan"),
        (
            {"tools": [{**SWITCH_TAB, "parameters": {"maximum": float("inf")}}]},
            r"tools\[0\]\.parameters\.maximum: inf",
        ),
        ({"tools": [COMPUTER | {"display_height": 0}]}, r"tools\[0\]\.display_height"),
        ({"input": [USER, COMPUTER_CALL | {"action": None}]}, r"input\[1\]\.action: .* an action"),
        (
            {"input": [USER, COMPUTER_CALL, SHOT | {"output": {"text": 5}}]},
            r"input\[2\]\.output\.text: 5",
        ),
        (
            {"input": [USER, COMPUTER_CALL, SHOT | {"output": {"current_url": ["a"]}}]},
            r"input\[2\]\.output\.current_url",
        ),
    ],
)
def test_a_value_that_gemini_has_no_place_for_is_named(changes: Json, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        to_gemini({**request(), **changes}, SETTINGS)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("data:image/png;base64,", "not valid base64"),
        (PIXEL[:-2], "not valid base64"),
        (PIXEL.replace("=", "\n"), "not valid base64"),
        (PIXEL.replace("U", "ü"), "not valid base64"),
        (PIXEL.replace("image/png", "image/gif"), "takes no image/gif; give one of image/png"),
        (PIXEL.replace("image/png", "text/html"), "takes no text/html"),
        (PIXEL.replace("image/png", "image/jpeg"), "the data is no image/jpeg"),
        ("data:image/png;base64,aGVsbG8=", "the data is no image/png"),
    ],
)
def test_an_unusable_image_is_named(url: str, named: str) -> None:
    shown = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    with pytest.raises(InvalidRequest, match=r"input\[0\]\.content\[0\]\.image_url: .*" + named):
        to_gemini(request(input=[shown]), SETTINGS)
    shot = SHOT | {"output": {"type": "computer_screenshot", "image_url": url}}
    with pytest.raises(InvalidRequest, match=r"input\[2\]\.output\.image_url: .*" + named):
        to_gemini(request(input=[USER, COMPUTER_CALL, shot]), SETTINGS)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_an_image_goes_as_it_is(kind: str) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, kind)
    data = base64.b64encode(stream.getvalue()).decode()
    url = f"data:image/{kind};base64,{data}"
    shown = {"type": "input_image", "image_url": url, "detail": "auto"}
    parts = sent(request(input=[{"role": "user", "content": [shown]}]))["contents"][0]["parts"]
    assert parts == [{"inlineData": {"mimeType": f"image/{kind}", "data": data}}]


def test_empty_texts_are_not_sent() -> None:
    blank = {"type": "input_text", "text": ""}
    items = [
        {"role": "system", "content": ""},
        {"role": "user", "content": [blank, {"type": "input_text", "text": " "}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": ""}]},
        FUNCTION_CALL,
        {**CALL_OUTPUT, "output": [blank, blank]},
        {"role": "user", "content": ""},
    ]
    told = sent(request(input=items, instructions=""))
    assert "systemInstruction" not in told
    first, call, answer = told["contents"]
    assert first["parts"] == [{"text": " "}]
    assert [list(part) for part in call["parts"]] == [["functionCall", "thoughtSignature"]]
    assert [list(part) for part in answer["parts"]] == [["functionResponse"]]
    with pytest.raises(InvalidRequest, match="no user message"):
        to_gemini(request(input=[{"role": "user", "content": ""}]), SETTINGS)


# Histories ----------------------------------------------------------------------------------------


def packed(content: Any, provider: str = "gemini") -> str:
    return json.dumps({"provider": provider, "content": content})


BROKEN_TURNS = {
    "cut off": packed({"role": "model", "parts": [CLICK]})[:-5],
    "too deep": '{"provider": "gemini", "content": ' + "[" * 100_000,
    "no content": '{"provider": "gemini"}',
    "content of another kind": packed([{"type": "text", "text": "x"}]),
    "role of the user": packed({"role": "user", "parts": [{"text": "x"}]}),
    "parts that are no list": packed({"role": "model", "parts": {"text": "x"}}),
    "a part that is no object": packed({"role": "model", "parts": ["x"]}),
    "a call that is no object": packed({"role": "model", "parts": [{"functionCall": "click"}]}),
    "a number beyond all bounds": packed({"parts": [{"text": "x", "score": float("inf")}]}),
}


async def test_a_turn_of_ours_that_is_broken_is_refused() -> None:
    simulator = GeminiSimulator(scripts.script())
    turn = {"type": "reasoning", "id": "rs_0", "summary": []}
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            for name, content in BROKEN_TURNS.items():
                items = [USER, {**turn, "encrypted_content": content}, SAID, USER]
                refusal = await error(client, request(input=items), 400)
                assert refusal["message"].startswith("input[1].encrypted_content"), name
    assert simulator.requests == []


@pytest.mark.parametrize("content", ["gAAAA", "", None, "[1]", packed([], "anthropic"), "{"])
def test_a_turn_of_another_model_is_translated(content: str | None) -> None:
    turn = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": content}
    told = sent(request(input=[USER, turn, SAID, USER]))["contents"]
    assert told[1] == {"role": "model", "parts": [{"text": "So."}]}


def test_a_conversation_starts_with_the_user() -> None:
    own = reply(scripts.text("Hello."))["output"]
    for turn in (own, [SAID]):
        with pytest.raises(InvalidRequest, match=r"input\[0\]: .* starts with a user message"):
            to_gemini(passed(request(input=[*turn, USER])), SETTINGS)


def test_turns_of_the_model_in_a_row_are_one_content() -> None:
    own = reply(scripts.text("Hello."))["output"]
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    items = [USER, SAID, thought, SAID, *own, *own, USER]
    first, said, last = sent(request(input=items))["contents"]
    assert said == {
        "parts": [{"text": t} for t in ("So.", "So.", "Hello.", "Hello.")],
        "role": "model",
    }
    assert first == last


def test_a_batch_of_another_model_becomes_calls() -> None:
    """OpenAI's general tool gives several actions and takes one output for all."""
    actions = [COMPUTER_CALL["action"], {"type": "type", "text": "hi"}, {"type": "screenshot"}]
    batch = {name: value for name, value in COMPUTER_CALL.items() if name != "action"}
    batch |= {"actions": actions}
    told = sent(request(input=[USER, batch, SHOT]))["contents"]
    assert [part["functionCall"] for part in told[1]["parts"]] == [
        CLICK["functionCall"],
        {"name": "type", "args": {"text": "hi", "press_enter": False}},
        {"name": "take_screenshot", "args": {}},
    ]
    first, second, last = responses(told)
    for answer in (first, second):
        assert "parts" not in answer
        assert "url" in answer["response"]
    assert last["response"]["url"] == URL
    assert len(last["parts"]) == 1


def test_a_second_output_of_a_call_is_refused() -> None:
    answered = [USER, FUNCTION_CALL, CALL_OUTPUT]
    for late, named in (
        ([CALL_OUTPUT], r"input\[3\]\.call_id: 'c' has an output already"),
        ([SAID, CALL_OUTPUT], r"input\[4\]\.call_id: 'c' is no call of the turn before"),
        ([USER, CALL_OUTPUT], r"input\[4\]\.call_id: 'c' is no call of the turn before"),
    ):
        with pytest.raises(InvalidRequest, match=named):
            sent(request(input=[*answered, *late]))
