"""The Gemini model server against the strict simulator, over real HTTP."""

from typing import Any

import pytest

from responses_api_models.gemini_model.tests.helpers import (
    COMPUTER,
    MODELS,
    SWITCH_TAB,
    ask,
    calls,
    model,
    output_of,
    request,
)
from tests.simulators import gemini_scripts as scripts
from tests.simulators.gemini_api import GeminiSimulator

Json = dict[str, Any]

POINT = {"x": 500, "y": 250}
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
