"""Exact tokens on the row: one segment, or segments under a window; test_faults has drift."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_api_agents.browser_agent.tests.fake_environment import FakeEnvironment
from responses_api_agents.browser_agent.tests.fake_vllm import FakeVllm
from responses_api_agents.browser_agent.tests.stack import running_agent
from responses_api_agents.browser_agent.token_trace import (
    TOKEN_FIELDS,
    TokenTrace,
    image_urls,
    without_tokens,
)
from tests.simulators.http_server import serve

Json = dict[str, Any]
Run = Callable[..., Any]
CLICK = "<tool_call>\n" + json.dumps(
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 500]}}
)
CLICK += "\n</tool_call>"
DONE = CLICK.replace('"left_click", "coordinate": [500, 500]', '"answer", "text": "2"')


def clicks(count: int) -> Callable[[int], Json]:
    return lambda replies: {"content": CLICK if replies < count else DONE}


async def run_clicks(server: FakeVllm, folder: Path, steps: int, **config: Any) -> Json:
    settings = {"adapter": "policy", "policy": "qwen3_vl", "model": "policy", "loop_limit": None}
    body = {
        "responses_create_params": {"input": [{"role": "user", "content": "Click."}]},
        "verifier_metadata": {"task_id": "T", "points": [[50, 50]] * steps},
    }
    with ExitStack() as stack:
        environment = stack.enter_context(FakeEnvironment().serve())
        url = stack.enter_context(serve(server.app))
        async with running_agent(environment, url, folder, **settings | config) as agent:
            return (await agent.post("/run", json=body)).json()


def steps_of(row: Json) -> list[list[Json]]:
    return [segment["steps"] for segment in row["segments"]]


def tokens_of(steps: list[Json]) -> list[int]:
    """The segment as one sequence."""
    return [
        token
        for step in steps
        for token in step["new_prompt_token_ids"] + step["generation_token_ids"]
    ]


def on_items(row: Json) -> list[Json]:
    output = row["response"]["output"]
    return [{n: item[n] for n in TOKEN_FIELDS} for item in output if TOKEN_FIELDS[1] in item]


def is_contiguous(tokens: list[Json]) -> bool:
    seen: list[int] = []
    for fields in tokens:
        if fields["prompt_token_ids"][: len(seen)] != seen:
            return False
        seen = fields["prompt_token_ids"] + fields["generation_token_ids"]
    return True


async def test_a_conversation_that_grows_is_one_segment(tmp_path: Path) -> None:
    server = FakeVllm(clicks(4))
    row = await run_clicks(server, tmp_path, 4)
    assert (row["reward"], row["mask_sample"]) == (1, False)
    (steps,) = steps_of(row)
    last = server.tokens[-1]
    assert tokens_of(steps) == last["prompt_token_ids"] + last["generation_token_ids"]
    assert [step["turn"] for step in steps] == [0, 1, 2, 3, 4]
    shown = [row["first_observation"], *row["turns"][:-1]]
    assert [step["new_images"] for step in steps] == [[turn["screenshot"]] for turn in shown]
    assert [step["generation_log_probs"] for step in steps] == [
        fields["generation_log_probs"] for fields in server.tokens
    ]
    assert on_items(row) == server.tokens
    asked = row["responses_create_params"]
    assert image_urls(asked["input"]) == [row["first_observation"]["screenshot"]]
    assert "<tool_call>" in asked["instructions"]
    assert not any(name in json.dumps(row["turns"]) for name in TOKEN_FIELDS)


@pytest.mark.parametrize(
    ("history", "lengths"),
    [
        ({"policy": "last_n", "keep": 1}, [1, 1, 1, 1, 1, 1]),
        ({"policy": "last_n", "keep": 2}, [2, 1, 1, 1, 1]),
        ({"policy": "hysteresis", "keep": 1, "batch": 2}, [3, 3]),
        ({"max_turns_kept": 2}, [3, 1, 1, 1]),
    ],
)
async def test_what_is_left_out_begins_a_segment(
    history: Json, lengths: list[int], tmp_path: Path
) -> None:
    """Each has the images that its prompts had, and only the first has its tokens on items."""
    server = FakeVllm(clicks(5))
    row = await run_clicks(server, tmp_path, 5, history=history)
    assert (row["reward"], row["mask_sample"], row["failure_kind"]) == (1, False, None)
    holds_what_was_seen(row, server, lengths)


FUNCTIONS = {"adapter": "generic", "computer_tool": "functions", "policy": None}


async def test_calls_of_functions_have_exact_tokens_too(tmp_path: Path) -> None:
    """Also where a reply is left out: an empty one is not sent back, and the model asked again."""
    function = {"name": "click", "arguments": '{"x": 640, "y": 360}'}

    def script(replies: int) -> Json:
        call = {"id": f"c{replies}", "type": "function", "function": function}
        calling = {"content": None, "tool_calls": [call]}
        return {1: {"content": ""}, 4: {"content": "Done."}}.get(replies, calling)

    server = FakeVllm(script)
    row = await run_clicks(server, tmp_path, 3, **FUNCTIONS)
    assert (row["mask_sample"], row["failure_kind"], row["num_turns"]) == (False, None, 5)
    assert server.echoed == [0, 1, 1, 1, 1]
    holds_what_was_seen(row, server, [2, 3])
    server = FakeVllm(script)
    history = {"policy": "last_n", "keep": 1}
    row = await run_clicks(server, tmp_path, 3, **FUNCTIONS, history=history)
    assert (row["mask_sample"], row["failure_kind"]) == (False, None)
    assert server.echoed == [0, 0, 0, 0, 0]
    holds_what_was_seen(row, server, [1, 1, 1, 1, 1])


def holds_what_was_seen(row: Json, server: FakeVllm, lengths: list[int]) -> None:
    """Check a row of which all replies have tokens, and the first segment on its items."""
    segments = steps_of(row)
    assert [len(steps) for steps in segments] == lengths
    turn = 0
    for steps in segments:
        for step in steps:
            assert step["turn"] == turn
            turn += 1
        last = server.tokens[turn - 1]
        assert tokens_of(steps) == last["prompt_token_ids"] + last["generation_token_ids"]
        images = [image for step in steps for image in step["new_images"]]
        pictures = json.dumps(server.chats[turn - 1]).count('"image_url": {')
        assert len(images) == pictures
    assert on_items(row) == server.tokens[: lengths[0]]


async def test_rows_are_small_without_a_prompt_on_each_item(tmp_path: Path) -> None:
    """50 steps; with 1,300 new tokens to a prompt and 200 to a reply they stay below 3 MB."""
    row = await run_clicks(FakeVllm(clicks(49)), tmp_path, 49, token_ids="segments")
    (steps,) = steps_of(row)
    assert (row["reward"], len(steps)) == (1, 50)
    assert on_items(row) == []
    for step in steps:
        step["new_prompt_token_ids"] = [151655] * 1300
        step["generation_token_ids"] = [151655] * 200
        step["generation_log_probs"] = [-1 / 3] * 200
    assert len(json.dumps(row)) < 3_000_000


ids = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ids, ids, st.booleans(), st.booleans()), max_size=8))
def test_segments_hold_what_was_seen(
    replies: list[tuple[list[int], list[int], bool, bool]],
) -> None:
    """Whatever comes: segments are contiguous, and none holds anything behind a drift."""
    trace, seen, expected, drifted = TokenTrace(), [], [], False
    for turn, (added, generated, anew, exact) in enumerate(replies):
        prompt = added if anew or not seen else seen + added
        if not exact and seen and not anew:
            prompt = [9, *seen, *added]
        item = dict(zip(TOKEN_FIELDS, (prompt, generated, [-1.0] * len(generated)), strict=True))
        echo = {} if anew or not seen else {TOKEN_FIELDS[0]: seen}
        trace.add(turn, {"input": [echo]}, {"output": [{"type": "message"}, item]}, str)
        drifted = drifted or prompt[0] == 9
        if drifted:
            continue
        if not echo:
            expected.append([])
        seen = prompt + generated
        expected[-1] = seen
    assert bool(trace.drift) == drifted
    assert [tokens_of(segment["steps"]) for segment in trace.as_json()] == expected


def test_a_reply_without_tokens_is_part_of_the_next_prompt() -> None:
    trace = TokenTrace()
    first = dict(zip(TOKEN_FIELDS, ([1, 2], [3], [-0.5]), strict=True))
    third = dict(zip(TOKEN_FIELDS, ([1, 2, 3, 4, 5], [6], [-0.5]), strict=True))
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}
    assert trace.add(0, {"input": [picture]}, {"output": [first]}, str)
    assert not trace.add(1, {"input": [picture, first, picture]}, {"output": [{}]}, str)
    assert trace.add(2, {"input": [picture, first, picture, picture]}, {"output": [third]}, str)
    (segment,) = trace.as_json()
    assert [step["turn"] for step in segment["steps"]] == [0, 2]
    assert [step["new_images"] for step in segment["steps"]] == [["a"], ["a", "a"]]
    assert without_tokens({"id": 1, **first}) == {"id": 1}


def told(prompt: list[int], generated: list[int], log_probs: list[float]) -> Json:
    return dict(zip(TOKEN_FIELDS, (prompt, generated, log_probs), strict=True))


def test_a_first_reply_of_no_tokens_is_part_of_the_next_prompt() -> None:
    trace = TokenTrace()
    nothing = told([1, 2], [], [])
    assert not trace.add(0, {"input": []}, {"output": [nothing]}, str)
    second = told([1, 2, 3], [4], [-0.5])
    assert trace.add(1, {"input": [nothing]}, {"output": [second]}, str)
    assert [tokens_of(segment["steps"]) for segment in trace.as_json()] == [[1, 2, 3, 4]]
    assert trace.drift is None


@pytest.mark.parametrize(
    "reply",
    [
        told([1], [2, 3], [-0.5]),
        {TOKEN_FIELDS[1]: [2], TOKEN_FIELDS[2]: [-0.5]},
        {TOKEN_FIELDS[0]: [1], TOKEN_FIELDS[1]: [2]},
    ],
)
def test_tokens_that_lack_something_are_named(reply: Json) -> None:
    trace = TokenTrace()
    assert not trace.add(3, {"input": []}, {"output": [reply]}, str)
    assert trace.drift
    assert trace.drift.startswith("the reply of turn 3 has")
    assert trace.as_json() == []


async def test_only_the_last_item_of_a_reply_has_tokens(tmp_path: Path) -> None:
    """A server may put them on each: on the row they would be two turns of one reply."""
    server = FakeVllm(clicks(1), tokens_on_each_item=True)
    row = await run_clicks(server, tmp_path, 1)
    assert (row["reward"], row["mask_sample"]) == (1, False)
    assert on_items(row) == server.tokens
    holds_what_was_seen(row, server, [2])
