"""The Gemini model server against the strict simulator: whole conversations."""

import json
from typing import Any

import httpx
import pytest
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from responses_api_models.gemini_model.tests.helpers import (
    COMPUTER,
    MODELS,
    SWITCH_TAB,
    ask,
    calls,
    config,
    error,
    model,
    output_of,
    request,
)
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from tests.simulators import gemini_scripts as scripts
from tests.simulators.gemini_api import GeminiSimulator
from tests.simulators.gemini_solutions import solve
from tests.simulators.solutions import load_solutions

Json = dict[str, Any]

POINT: Json = {"x": 500, "y": 250}
CONVERSATIONS = {
    "click": lambda click: [[scripts.call(click, **POINT)], [scripts.call("go_back")]],
    "parallel calls": lambda click: [
        [
            scripts.call(click, **POINT),
            scripts.call("navigate", url="https://a.example"),
            scripts.call(click, **POINT),
        ]
    ],
    "thoughts and text": lambda click: [
        [scripts.thought("Find it."), scripts.text("I click."), scripts.call(click, **POINT)],
        [scripts.thought("It worked."), scripts.text("Done.")],
    ],
    "function tool": lambda click: [
        [scripts.call("switch_tab", index=1)],
        [scripts.call(click, **POINT), scripts.call("switch_tab", index=0)],
    ],
    "safety decision": lambda click: [[scripts.unsafe(click, **POINT)]],
    "unknown fields": lambda click: [
        [scripts.call(click, **POINT, intent="Press it.", mood=[1.5, {"a": None}])]
    ],
    "unknown function": lambda click: [[scripts.call("teleport", where="Mars")]],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("model_name", MODELS)
async def test_a_whole_conversation(name: str, model_name: str) -> None:
    click = "click" if model_name == MODELS[0] else "click_at"
    simulator = GeminiSimulator(scripts.script(*CONVERSATIONS[name](click)))
    body = request(tools=[COMPUTER, SWITCH_TAB])
    seen: list[str] = []
    with simulator.serve() as base_url:
        async with model(base_url, gemini_model=model_name) as client:
            for _ in range(4):
                reply = await ask(client, body)
                answers = [output_of(call) for call in calls(reply)]
                seen += [call["call_id"] for call in calls(reply)]
                if not answers:
                    break
                body["input"] = body["input"] + reply["output"] + answers
    assert reply["output"][-1]["content"][0]["text"] == "Done."
    assert [r.error for r in simulator.requests] == [None] * len(simulator.requests)
    assert len(simulator.requests) >= 2
    assert simulator.altered_contents() == []
    assert len(set(seen)) == len(seen) > 0


async def test_what_is_no_utf_8_is_a_reply_and_goes_back_as_it_came() -> None:
    half = [scripts.text("\ud83d"), scripts.call("type", text="a\ud83d")]
    simulator = GeminiSimulator(scripts.in_order(half))
    body = request()
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            reply = await ask(client, body)
            message, call = reply["output"][1:]
            body["input"] = body["input"] + reply["output"] + [output_of(call)]
            await ask(client, body)
    assert message["content"][0]["text"] == "\ufffd"
    assert call["action"]["text"] == "a\ufffd"
    assert simulator.altered_contents() == []


async def test_thoughts_become_a_summary() -> None:
    parts = [scripts.thought("Find it."), scripts.text("Done.")]
    for include, summary in ((True, ["Find it."]), (False, [])):
        with GeminiSimulator(scripts.script(parts)).serve() as base_url:
            async with model(base_url, include_thoughts=include) as client:
                reasoning = (await ask(client, request()))["output"][0]
        assert [part["text"] for part in reasoning["summary"]] == summary


async def test_an_unconfirmed_safety_decision_is_refused() -> None:
    simulator = GeminiSimulator(scripts.script([scripts.unsafe("click", **POINT)]))
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            body = request()
            reply = await ask(client, body)
            answers = [output_of(call, acknowledge=False) for call in calls(reply)]
            body["input"] = body["input"] + reply["output"] + answers
            refused = await error(client, body, 400)
    assert refused["code"] == "INVALID_ARGUMENT"
    assert "must be acknowledged" in refused["message"]


async def test_unusual_outcomes_are_replies_and_the_conversation_goes_on() -> None:
    outcomes = {
        "STOP": scripts.finished("STOP"),
        "MALFORMED_FUNCTION_CALL": scripts.finished("MALFORMED_FUNCTION_CALL"),
        "UNEXPECTED_TOOL_CALL": scripts.finished(
            "UNEXPECTED_TOOL_CALL", scripts.call("teleport", where="Mars")
        ),
        "MAX_TOKENS": scripts.finished("MAX_TOKENS", scripts.text("I will")),
        "SAFETY": scripts.finished("SAFETY", finishMessage="Unsafe."),
        "PROMPT_BLOCKED:OTHER": scripts.blocked_prompt("OTHER"),
        "NO_CANDIDATE": scripts.no_candidates(),
    }
    simulator = GeminiSimulator(scripts.in_order(*outcomes.values()))
    nudge = {"role": "user", "content": "Go on."}
    body = request()
    with simulator.serve() as base_url:
        async with model(base_url) as client:
            for stop_reason in outcomes:
                reply = await ask(client, body)
                assert reply["metadata"]["stop_reason"] == stop_reason
                answers = [output_of(call) for call in calls(reply)]
                body["input"] = body["input"] + reply["output"] + [*answers, nudge]
            assert (await ask(client, body))["output"][-1]["content"][0]["text"] == "Done."
    assert [r.error for r in simulator.requests] == [None] * 8
    assert simulator.altered_contents() == []


# The demo tasks -----------------------------------------------------------------------------------


def done_by(call: Json) -> Json:
    """Return what a call does, in the words of the solutions."""
    if call["type"] == "computer_call":
        return {name: value for name, value in call["action"].items() if value is not None}
    return {"type": call["name"], **json.loads(call["arguments"])}


def points(actions: list[Json]) -> list[tuple[int, int]]:
    """Return where actions are, in order; one place for those that stay where they are."""
    places = [
        (place["x"], place["y"])
        for action in actions
        for place in [action, *action.get("path", [])]
        if "x" in place
    ]
    return [place for index, place in enumerate(places) if place != places[index - 1] or not index]


def words(actions: list[Json]) -> list[Any]:
    """Return what actions type and press."""
    return [
        action.get("text") or action["keys"] for action in actions if {"text", "keys"} & {*action}
    ]


@pytest.mark.parametrize("task_id", load_solutions())
async def test_the_solutions_of_the_demo_tasks(task_id: str) -> None:
    """The whole conversation passes the simulator, and every action arrives where it should."""
    solution = load_solutions()[task_id]
    tools = [COMPUTER, SWITCH_TAB, {**SWITCH_TAB, "name": "close_tab"}]
    body = request(tools=tools, instructions="Solve the task.")
    body["input"][0]["content"][0]["text"] = f"Your task: {solution['prompt']}"
    body = NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
    simulator = GeminiSimulator(solve(load_solutions()))
    body = body.model_dump(mode="json", exclude_unset=True)
    settings = config().settings()
    app = httpx.ASGITransport(simulator.app)
    headers = {"x-goog-api-key": simulator.api_key}
    done: list[Json] = []
    async with httpx.AsyncClient(transport=app, base_url="http://sim", headers=headers) as client:
        for _ in solution["turns"]:
            sent, turn = to_gemini(body, settings)
            answer = await client.post("/v1beta/models/gemini-3.8-flash:generateContent", json=sent)
            assert answer.status_code == 200, answer.text
            reply = from_gemini(answer.json(), turn, settings, now=1)
            done += [done_by(call) for call in calls(reply)]
            outputs = [output_of(call) for call in calls(reply)]
            body = {**body, "input": body["input"] + reply["output"] + outputs}
    assert simulator.altered_contents() == []
    assert reply["output"][-1]["content"][0]["text"] == solution["turns"][-1]["answer"]
    wanted = [action for turn in solution["turns"] for action in turn.get("actions", [])]
    for place, aim in zip(points(done), points(wanted), strict=True):
        assert max(abs(a - b) for a, b in zip(place, aim, strict=True)) <= 1
    assert words(done) == words(wanted)
    scrolled = [sum(action.get("scroll_y", 0) for action in actions) for actions in (done, wanted)]
    assert scrolled[0] == scrolled[1]
