"""Episodes over real HTTP: agent, model server, simulated OpenAI, environment, Chromium."""

import asyncio
import hashlib
import json
from typing import Any

import httpx
import pytest

from responses_api_agents.browser_agent.tests.conftest import Start
from tests.simulators import openai_scripts as scripts
from tests.simulators.openai_scripts import (
    SAFETY_CHECK,
    SimReply,
    click,
    computer_call,
    function_call,
    message,
    preview_call,
    reasoning,
    script,
    usage,
)
from tests.waiting import eventually

SECOND = click(60, 40)  # the link to the second page
NEW_TAB = click(60, 100)
CONFIRM = click(60, 160)
SCREENSHOT = {"type": "screenshot"}


async def test_batched_actions_to_a_reward(start: Start, site: str) -> None:
    stack = await start(script([computer_call(click(600, 600), SECOND)], [message("All done.")]))
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["mask_sample"], row["termination_reason"]) == (1, False, "finished")
    assert (row["final_answer"], row["num_turns"]) == ("All done.", 2)
    call = row["turns"][0]["calls"][0]
    assert [r["status"] for r in call["results"]] == ["ok", "ok"]
    assert row["turns"][0]["url"] == f"{site}/second.html"
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["computer_call", "computer_call_output", "message"]


async def test_wrong_result_is_an_honest_zero(start: Start, site: str) -> None:
    stack = await start(script([message("I am sure it is done.")]))
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["mask_sample"], row["failure_kind"]) == (0, False, None)
    assert row["verification_result"]["assertions"][0]["result"] == "fail"


async def test_first_request_shows_the_page_and_keeps_the_rows_input(
    start: Start, site: str
) -> None:
    stack = await start(script([message("ok")]))
    params = {
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 500,
        "tools": [
            {"type": "function", "name": "own", "parameters": {"type": "object"}, "strict": False}
        ],
    }
    await stack.run(f"{site}/links.html", responses_create_params=params)
    body = stack.simulator.requests[0].body
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.5, 0.9, 500)
    assert body["input"][0]["content"] == "Be brief."
    text, image = body["input"][1]["content"]
    assert text["text"] == "Look."
    assert image["type"] == "input_image"
    assert image["image_url"].startswith("data:image/jpeg;base64,")
    assert image["detail"] == "original"
    # Nothing of the conversation is to go without the row's asking for it.
    assert not {"truncation", "context_management"} & body.keys()
    names = [tool.get("name", tool["type"]) for tool in body["tools"]]
    assert names[:2] == ["computer", "own"]
    assert {"navigate", "go_back", "switch_tab"} <= set(names)


async def test_message_beside_a_call_does_not_end_the_run(start: Start, site: str) -> None:
    stack = await start(script([message("I click the link."), computer_call(SECOND)]))
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["num_turns"]) == (1, 2)
    assert row["turns"][0]["message"] == "I click the link."


async def test_several_calls_and_a_function_in_one_reply(start: Start, site: str) -> None:
    reply = [
        computer_call(NEW_TAB),
        function_call("switch_tab", index=0),
        computer_call(SECOND),
    ]
    stack = await start(script(reply))
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 1
    outputs = stack.simulator.requests[1].body["input"]
    assert [item["type"] for item in outputs][:3] == [
        "computer_call_output",
        "function_call_output",
        "computer_call_output",
    ]
    assert "open tabs:" in outputs[1]["output"][0]["text"]
    assert "A new tab opened" in outputs[3]["content"][0]["text"]
    tabs = row["turns"][0]["calls"][0]["tabs"]
    assert [(tab["index"], tab["active"]) for tab in tabs] == [(0, False), (1, True)]


async def test_call_behind_a_failed_one_is_answered_but_not_run(start: Start, site: str) -> None:
    stack = await start(script([computer_call(click(5000, 5000)), computer_call(SECOND)]))
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 0
    text = stack.simulator.requests[1].body["input"][-1]["content"][0]["text"]
    assert "outside the 1280x720 viewport" in text
    assert "Not executed: an earlier action of this turn failed." in text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (computer_call({"type": "teleport", "x": 1}), "no action of type 'teleport'"),
        (computer_call({"type": "keypress", "keys": ["HYPER"]}), "unknown key 'HYPER'"),
        (function_call("fly"), "there is no tool named 'fly'"),
        (function_call("switch_tab"), "exactly one of index and tab_id"),
        (
            {"type": "function_call", "name": "navigate", "arguments": "{nope"},
            "arguments are not JSON",
        ),
        (computer_call(*[SCREENSHOT] * 101), "a call can have 100 actions"),
    ],
)
async def test_what_the_model_does_wrong_is_told_to_it(
    start: Start, site: str, call: dict[str, Any], words: str
) -> None:
    stack = await start(script([call], [computer_call(SECOND)]))
    row = await stack.run(f"{site}/links.html")
    assert words in json.dumps(stack.simulator.requests[1].body["input"])
    assert (row["reward"], row["mask_sample"], row["num_turns"]) == (1, False, 3)


async def test_dead_address_is_told_and_the_page_before_is_one_step_back(
    start: Start, site: str
) -> None:
    policy = script(
        [function_call("navigate", url="http://127.0.0.1:9/")],
        [function_call("go_back"), computer_call(SECOND)],
    )
    stack = await start(policy)
    row = await stack.run(f"{site}/links.html")
    assert "could not be opened" in json.dumps(stack.simulator.requests[1].body["input"])
    assert row["reward"] == 1


async def test_fractional_coordinates_reach_the_page(start: Start, site: str) -> None:
    stack = await start(script([computer_call(click(60.25, 40.5))]))
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 1
    assert row["turns"][0]["calls"][0]["actions"][0]["x"] == 60.25


async def test_dialog_text_reaches_the_model(start: Start, site: str) -> None:
    stack = await start(script([computer_call(CONFIRM)]))
    await stack.run(f"{site}/links.html")
    text = stack.simulator.requests[1].body["input"][-1]["content"][0]["text"]
    assert text == "The page showed a confirm dialog, which was accepted: Delete it?"


@pytest.mark.parametrize("state", ["previous_response_id", "stateless"])
async def test_reasoning_and_state(start: Start, site: str, state: str) -> None:
    policy = script(
        [reasoning("First the link."), computer_call(SCREENSHOT)],
        [reasoning("Now."), computer_call(SECOND)],
        [reasoning("Done."), message("Finished.")],
    )
    stack = await start(policy, state=state)
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["turns"][0]["reasoning"]) == (1, "First the link.")
    last = stack.simulator.requests[-1].body
    if state == "stateless":
        assert last["store"] is False
        assert "previous_response_id" not in last
        assert [item["type"] for item in last["input"][1:4]] == [
            "reasoning",
            "computer_call",
            "computer_call_output",
        ]
    else:
        assert last["previous_response_id"]
        assert [item["type"] for item in last["input"]] == ["computer_call_output"]


async def test_run_that_must_not_be_stored_is_stateless(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)]))
    params = {"input": "Do it.", "store": False}
    row = await stack.run(f"{site}/links.html", responses_create_params=params)
    assert row["reward"] == 1
    assert "previous_response_id" not in stack.simulator.requests[1].body


async def test_forced_tool_is_forced_once(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)]))
    params = {"input": "Do it.", "tool_choice": "required"}
    row = await stack.run(f"{site}/links.html", responses_create_params=params)
    assert row["termination_reason"] == "finished"
    sent = [request.body.get("tool_choice") for request in stack.simulator.requests]
    assert sent == ["required", None]


async def test_preview_tool(start: Start, site: str) -> None:
    policy = script([preview_call(SECOND)], [message("ok")])
    stack = await start(policy, model="computer-use-preview")
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 1
    body = stack.simulator.requests[0].body
    assert body["truncation"] == "auto"
    assert body["tools"][0] == {
        "type": "computer_use_preview",
        "display_width": 1280,
        "display_height": 720,
        "environment": "browser",
    }


async def test_safety_checks_are_acknowledged_and_recorded(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND, pending=[SAFETY_CHECK])]))
    row = await stack.run(f"{site}/links.html")
    assert row["reward"] == 1
    call = row["turns"][0]["calls"][0]
    assert (call["safety_checks"][0]["id"], call["safety_policy"]) == ("sc_1", "acknowledge")


async def test_safety_checks_can_stop_the_run(start: Start, site: str) -> None:
    stack = await start(
        script([computer_call(SECOND, pending=[SAFETY_CHECK])]), safety_policy="stop"
    )
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["termination_reason"], row["mask_sample"]) == (
        0,
        "safety_stop",
        False,
    )
    assert len(stack.simulator.requests) == 1


async def test_usage_is_summed_with_cached_and_reasoning_tokens(start: Start, site: str) -> None:
    policy = script(
        SimReply([computer_call(SCREENSHOT)], usage=usage(1000, 50, cached=512, reasoning=20)),
        SimReply([message("ok")], usage=usage(2000, 70, cached=1024, reasoning=30)),
    )
    row = await (await start(policy)).run(f"{site}/links.html")
    total = row["response"]["usage"]
    assert (total["input_tokens"], total["output_tokens"], total["total_tokens"]) == (
        3000,
        120,
        3120,
    )
    assert total["input_tokens_details"]["cached_tokens"] == 1536
    assert total["output_tokens_details"]["reasoning_tokens"] == 50


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (scripts.refused(), "refusal"),
        (scripts.empty(), "empty_reply"),
        (scripts.incomplete(), "truncated_reply"),
        (
            script([computer_call(SECOND), {**computer_call(SECOND), "status": "incomplete"}]),
            "truncated_reply",
        ),
    ],
)
async def test_replies_that_end_the_run_are_valid_outcomes(
    start: Start, site: str, policy: scripts.Policy, reason: str
) -> None:
    row = await (await start(policy)).run(f"{site}/links.html")
    assert (row["termination_reason"], row["reward"], row["mask_sample"]) == (reason, 0, False)


async def test_max_steps(start: Start, site: str) -> None:
    stack = await start(lambda turn: [computer_call(click(600, 600 + turn.number))], max_steps=3)
    row = await stack.run(f"{site}/links.html")
    assert (row["termination_reason"], row["num_turns"]) == ("max_steps", 3)


async def test_loop_is_detected(start: Start, site: str) -> None:
    stack = await start(lambda _: [computer_call(click(600, 600))], loop_limit=4)
    row = await stack.run(f"{site}/links.html")
    assert (row["termination_reason"], row["num_turns"]) == ("loop", 4)


async def test_time_budget_cuts_a_slow_model(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)]), run_timeout_s=2)
    stack.simulator.fail_next(scripts.hang())
    row = await stack.run(f"{site}/links.html")
    assert (row["termination_reason"], row["mask_sample"]) == ("time_budget", False)


async def test_screenshots_are_stored_once_by_content(start: Start, site: str) -> None:
    stack = await start(script(*[[computer_call(SCREENSHOT)]] * 3, [message("ok")]))
    row = await stack.run(f"{site}/links.html")
    references = [turn["screenshot"] for turn in row["turns"][:3]]
    assert len({*references, row["first_observation"]["screenshot"]}) == 1
    name = references[0].removeprefix("artifacts/").removesuffix(".jpg")
    assert hashlib.sha256(stack.stored(references[0])).hexdigest() == name
    assert "base64" not in json.dumps(row)


async def test_screenshots_inline(start: Start, site: str) -> None:
    stack = await start(script([message("ok")]), screenshots="inline")
    row = await stack.run(f"{site}/links.html")
    assert row["first_observation"]["screenshot"].startswith("data:image/jpeg;base64,")


async def test_model_recovers_within_its_retries(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)]), model_server_config={"max_retries": 2})
    stack.simulator.fail_next(scripts.rate_limited(0), times=2)
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["mask_sample"]) == (1, False)


async def test_viewport_that_is_none_is_masked_and_named(start: Start, site: str) -> None:
    metadata = {"start_url": f"{site}/links.html", "viewport": "1280x720"}
    row = await (await start(script())).run("", verifier_metadata=metadata)
    assert (row["mask_sample"], row["failure_kind"]) == (True, "agent_request_failed")
    assert "verifier_metadata.viewport" in row["failure_reason"]


async def test_usage_without_details_counts(start: Start, site: str) -> None:
    bare = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    stack = await start(lambda _: SimReply([message("ok")], usage=bare))
    row = await stack.run(f"{site}/links.html")
    assert row["response"]["usage"]["total_tokens"] == 7
    assert row["response"]["usage"]["input_tokens_details"]["cached_tokens"] == 0


async def test_cancelled_rollout_closes_its_session(
    start: Start, site: str, environment: str
) -> None:
    stack = await start(script())
    stack.simulator.fail_next(scripts.hang())
    rollout = asyncio.create_task(stack.run(f"{site}/links.html"))
    async with httpx.AsyncClient(base_url=environment) as http:

        async def asked() -> bool:
            return bool(stack.simulator.requests)

        async def closed() -> bool:
            return (await http.get("/health")).json()["sessions"] == 0

        await eventually(asked)
        rollout.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rollout
        await eventually(closed)


async def test_responses_route_runs_without_grading(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)], [message("There it is.")]))
    body = {"input": "Open the second page.", "metadata": {"start_url": f"{site}/links.html"}}
    answer = await stack.http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    output = answer.json()["output"]
    assert output[-1]["content"][0]["text"] == "There it is."
    stack.check_requests()
    assert "metadata" not in stack.simulator.requests[0].body


async def test_verification_can_be_skipped(start: Start, site: str) -> None:
    stack = await start(script(), skip_verification=True, skip_verification_reward=0.5)
    row = await stack.run(f"{site}/links.html")
    assert (row["reward"], row["verification_skipped"]) == (0.5, True)


async def test_responses_route_needs_a_start_page(start: Start) -> None:
    answer = await (await start(script())).http.post("/v1/responses", json={"input": "Hello"})
    assert answer.status_code == 422
    assert "metadata.start_url" in answer.text


async def test_the_model_is_told_nothing_of_how_it_is_graded(start: Start, site: str) -> None:
    stack = await start(script([computer_call(SECOND)], [message("Done.")]))
    row = await stack.run(f"{site}/links.html")
    sent = repr(stack.simulator.requests)
    assert "Do the task." in sent
    assert row["verifier_metadata"]["assertions"]
    for assertion in row["verifier_metadata"]["assertions"]:
        assert assertion["title"] not in sent
    assert "verifier_metadata" not in sent
    assert "assertions" not in sent
