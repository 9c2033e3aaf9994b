"""The adapter for translated models, with scripted replies."""

import dataclasses
import json
from typing import Any

import pytest
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from responses_api_agents.browser_agent.adapters.base import CallOutcome, Item, Reply, Screen
from responses_api_agents.browser_agent.adapters.generic import GenericAdapter
from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
from responses_api_models.scripted_model.reply import build_reply
from responses_api_models.scripted_model.script import parse_scripts

SCREEN = Screen("AAAA", "image/jpeg", 1280, 720, "http://site/")
AFTER = Screen("BBBB", "image/jpeg", 1280, 720, "http://site/2")
OWN = {"type": "function", "name": "lookup", "parameters": {"type": "object"}, "strict": False}


def started(params: dict[str, Any] | None = None, **settings: Any) -> GenericAdapter:
    adapter = GenericAdapter(
        **{
            "model": "m",
            "instructions": "You drive a browser.",
            "browser_functions": True,
            "history": HistoryPolicy(),
            **settings,
        }
    )
    adapter.start({"input": "Do it.", **(params or {})}, SCREEN)
    return adapter


def reasoning(text: str = "hm") -> Item:
    return {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": json.dumps({"provider": "p", "content": [text]}),
    }


def click(call_id: str = "c1", **extra: Any) -> Item:
    action = {"type": "click", "button": "left", "x": 3, "y": 4}
    return {
        "type": "computer_call",
        "id": call_id,
        "call_id": call_id,
        "status": "completed",
        "pending_safety_checks": [],
        "action": action,
        **extra,
    }


def function(name: str, call_id: str = "f1", **arguments: Any) -> Item:
    text = json.dumps(arguments)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def message(text: str) -> Item:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def response(*items: Item, stop_reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    return {"id": "r", "output": list(items), "metadata": {"stop_reason": stop_reason}, **fields}


def read(*items: Item, **fields: Any) -> Reply:
    return started().read(response(*items, **fields))


def test_first_request() -> None:
    adapter = GenericAdapter(
        model="m",
        instructions="You drive a browser.",
        browser_functions=["list_tabs"],
        history=HistoryPolicy(),
    )
    request = adapter.start({"input": "Do it.", "tools": [OWN], "temperature": 0.5}, SCREEN)
    assert request["tools"][0] == {
        "type": "computer_use_preview",
        "display_width": 1280,
        "display_height": 720,
        "environment": "browser",
    }
    assert [tool.get("name") for tool in request["tools"]] == [None, "lookup", "list_tabs"]
    assert (request["temperature"], request["instructions"]) == (0.5, "You drive a browser.")
    assert [part["type"] for part in request["input"][0]["content"]] == [
        "input_text",
        "input_image",
    ]
    NeMoGymResponseCreateParamsNonStreaming.model_validate(request)


def test_instructions_of_the_run_count() -> None:
    assert started({"instructions": "Mine."}).next()["instructions"] == "Mine."


def test_standard_and_canonical_calls() -> None:
    calls = read(
        reasoning("first"),
        message("I click."),
        click(native={"name": "left_click"}),
        function("click", x=1.5, y=2.5, count=3),
        function("zoom", region={"x0": 0, "y0": 0, "x1": 50, "y1": 50}),
        function("hold_key", keys=["a"], duration_ms=10),
        function("drag", path=[{"x": 1, "y": 2}, {"x": 3, "y": 4}], button=None),
        function("drag", path=[None, {"x": 3, "y": 4}], modifiers=["Shift"]),
    ).calls
    assert [call.actions[0]["type"] for call in calls] == [
        "click",
        "click",
        "zoom",
        "hold_key",
        "drag",
        "drag",
    ]
    assert calls[1].actions[0]["x"] == 1.5
    assert not any(call.error for call in calls)


def test_a_native_call_within_an_action_is_not_an_openai_action() -> None:
    action = {"type": "click", "button": "left", "x": 3, "y": 4, "native": {"action": "tap"}}
    call = read(click(action=action)).calls[0]
    assert (call.actions, call.error) == (
        [{"type": "click", "button": "left", "x": 3, "y": 4}],
        None,
    )


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (function("lookup", q="a"), "nothing here can run the tool 'lookup'"),
        (function("fly"), "no tool named 'fly'"),
        (function("click", x=1), "give both x and y"),
        (function("wait"), "wait: ms"),
        ({**function("wait"), "arguments": "{"}, "not JSON"),
        (function("scroll", error="scroll: by how much?", input={}), "scroll: by how much?"),
        (click(action={"type": "tap"}), "no action of type 'tap'"),
        (click(action=None), "no action of type None"),
    ],
)
def test_unusable_calls_are_named_to_the_model(item: Item, words: str) -> None:
    call = started({"tools": [OWN]}).read(response(item)).calls[0]
    assert words in str(call.error)
    assert call.actions == []


@pytest.mark.parametrize(
    ("reply", "stop", "paused"),
    [
        (response(message("Done.")), None, False),
        (response(click(), stop_reason="tool_use"), None, False),
        (response(message("No."), stop_reason="refusal"), "refusal", False),
        (
            response(
                {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
                stop_reason="end_turn",
            ),
            "refusal",
            False,
        ),
        (response(message("I wi"), stop_reason="max_tokens"), "truncated_reply", False),
        (response(message("I wi"), stop_reason="MAX_TOKENS"), "truncated_reply", False),
        (response(click(status="incomplete")), "truncated_reply", False),
        (
            response(message("I"), incomplete_details={"reason": "max_output_tokens"}),
            "truncated_reply",
            False,
        ),
        (
            response(
                click(status="incomplete"),
                stop_reason="MALFORMED_FUNCTION_CALL",
                status="incomplete",
            ),
            "empty_reply",
            False,
        ),
        (
            response(message("I"), stop_reason="OTHER", status="incomplete"),
            "truncated_reply",
            False,
        ),
        (response(stop_reason="NO_CANDIDATE", status="incomplete"), "empty_reply", False),
        (
            response(click(), stop_reason="UNEXPECTED_TOOL_CALL", status="incomplete"),
            None,
            False,
        ),
        (response(stop_reason="SAFETY"), "content_filter", False),
        (response(incomplete_details={"reason": "content_filter"}), "content_filter", False),
        (response(stop_reason="model_context_window_exceeded"), "context_window", False),
        (response(message("…"), stop_reason="MALFORMED_FUNCTION_CALL"), "empty_reply", False),
        (response(click(), stop_reason="MALFORMED_FUNCTION_CALL"), None, False),
        (response(), "empty_reply", False),
        (response(reasoning()), "empty_reply", False),
        (response(reasoning(), stop_reason="pause_turn"), None, True),
        (response(click(), stop_reason="pause_turn"), None, False),
        (response(reasoning(), stop_reason="compaction"), None, True),
        ({"id": "r", "output": [message("Done.")]}, None, False),
    ],
)
def test_why_a_reply_stopped(reply: dict[str, Any], stop: str | None, paused: bool) -> None:
    got = started().read(reply)
    assert (got.stop, got.paused) == (stop, paused)


def test_answers_stand_behind_the_untouched_turn() -> None:
    adapter = started()
    check = {"id": "s1", "code": None, "message": "Sure?"}
    items = [
        reasoning(),
        click("c1", pending_safety_checks=[check]),
        click("c2"),
        function("list_tabs", "f3"),
    ]
    reply = adapter.read(response(*items))
    answers = adapter.answer(
        reply,
        [
            CallOutcome(AFTER),
            CallOutcome(AFTER, ["Action failed: no"], failed=True),
            CallOutcome(AFTER, ["Not executed"], failed=True),
        ],
    )
    assert answers == [
        {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {
                "type": "computer_screenshot",
                "image_url": "",
                "current_url": "http://site/2",
                "text": "ok",
            },
            "acknowledged_safety_checks": [check],
        },
        {
            "type": "computer_call_output",
            "call_id": "c2",
            "output": {
                "type": "computer_screenshot",
                "image_url": AFTER.data_url,
                "current_url": "http://site/2",
                "text": "Action failed: no",
                "is_error": True,
            },
        },
        {
            "type": "function_call_output",
            "call_id": "f3",
            "output": [
                {"type": "input_text", "text": "error: Not executed"},
                {"type": "input_text", "text": "current_url: http://site/2"},
            ],
        },
    ]
    assert adapter.next()["input"][1:] == [*items, *answers]


def test_answers_survive_nemo_gyms_validation() -> None:
    adapter = started()
    reply = adapter.read(response(reasoning(), click(), function("list_tabs")))
    adapter.answer(reply, [CallOutcome(AFTER, ["A dialog"]), CallOutcome(AFTER, ["tabs"])])
    request = adapter.next()
    parsed = NeMoGymResponseCreateParamsNonStreaming.model_validate(request)
    kept = parsed.model_dump(mode="json", exclude_unset=True)["input"]
    assert kept[1:] == request["input"][1:]


def test_safety_checks_of_functions_and_open_tabs_are_texts() -> None:
    adapter = started()
    checks = [{"id": "s1", "code": "require_confirmation", "message": "Sure?"}]
    reply = response(function("new_tab"), function("key", "f2", chords=[["Enter"]]))
    reply["metadata"]["pending_safety_checks"] = json.dumps({"f2": checks})
    read = adapter.read(reply)
    assert [call.safety_checks for call in read.calls] == [[], checks]
    tabs = [{"index": 0, "tab_id": "t1", "url": "http://site/2", "title": "", "active": True}]
    screen = dataclasses.replace(AFTER, tabs=tabs)
    answers = adapter.answer(read, [CallOutcome(screen), CallOutcome(screen)])
    texts = [[part.get("text") for part in answer["output"]] for answer in answers]
    assert json.loads(texts[0][2]) == {"tabs": tabs}
    assert texts[1][2] == f"acknowledged_safety_checks: {json.dumps(checks)}"


def test_what_looks_is_shown_even_in_the_middle() -> None:
    adapter = started()
    region = {"x0": 0, "y0": 0, "x1": 50, "y1": 50}
    reply = adapter.read(response(function("zoom", "z", region=region), click("a"), click("b")))
    zoom, first, second = adapter.answer(reply, [CallOutcome(AFTER)] * 3)
    assert zoom["output"][-1]["type"] == "input_image"
    assert (first["output"]["image_url"], second["output"]["image_url"]) == ("", AFTER.data_url)
    assert "text" not in second["output"]


def test_an_empty_turn_is_forgotten_and_nudged() -> None:
    adapter = started()
    before = adapter.next()["input"]
    adapter.read(response(reasoning()))
    assert adapter.next()["input"] == before
    nudge = adapter.nudge()
    assert adapter.next()["input"] == before + nudge
    assert nudge[0]["role"] == "user"


def test_a_pause_goes_on_without_a_word() -> None:
    adapter = started()
    before = adapter.next()["input"]
    adapter.read(response(reasoning("a"), message("wait"), stop_reason="pause_turn"))
    assert adapter.next()["input"] == [*before, reasoning("a"), message("wait")]


def test_a_forced_tool_is_forced_once() -> None:
    adapter = started({"tool_choice": "required"})
    assert adapter.next()["tool_choice"] == "required"
    adapter.answer(adapter.read(response(click())), [CallOutcome(AFTER)])
    assert "tool_choice" not in adapter.next()


@pytest.mark.parametrize("where", ["usage", "metadata"])
def test_usage(where: str) -> None:
    details = {"cached_tokens": 60} | ({"cache_write_tokens": 30} if where == "usage" else {})
    reply = response(message("ok"))
    reply["metadata"] |= {"cache_write_tokens": "30"} if where == "metadata" else {}
    reply["usage"] = {
        "input_tokens": 100,
        "input_tokens_details": details,
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": None},
    }
    usage = started().read(reply).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (100, 60, 30)
    assert (usage.output_tokens, usage.reasoning_tokens) == (5, 0)
    reply["usage"]["input_tokens_details"] = {"cache_write_tokens": "unknown"}
    assert started().read(reply).usage.cache_write_tokens == 0


@pytest.mark.parametrize(
    "history",
    [
        HistoryPolicy(),
        HistoryPolicy(policy="last_n", keep=1, max_turns_kept=1),
        HistoryPolicy(policy="hysteresis", keep=1, batch=2, max_turns_kept=3),
    ],
)
def test_a_whole_conversation_however_pruned(history: HistoryPolicy) -> None:
    turns = [{"actions": [{"type": "wait"}], "message": f"turn {n}"} for n in range(9)]
    turns[4] = {"function": {"name": "list_tabs", "arguments": {}}}
    scripts = parse_scripts({"T": {"prompt": "Do it.", "turns": [*turns, {"answer": "Done."}]}})
    adapter = started(history=history)
    for number in range(9):
        request = adapter.next()
        NeMoGymResponseCreateParamsNonStreaming.model_validate(request)
        reply = adapter.read(build_reply(request, scripts, token=f"{number:x}", now=0))
        assert reply.stop is None
        adapter.answer(reply, [CallOutcome(AFTER)])
    last = adapter.read(build_reply(adapter.next(), scripts, token="ff", now=0))
    assert (last.message, last.calls) == ("Done.", [])
