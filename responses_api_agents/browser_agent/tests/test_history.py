"""What is sent of a conversation: no orphans, a stable prefix, the task always."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from responses_api_agents.browser_agent.adapters.base import Item
from responses_api_agents.browser_agent.adapters.history import OMITTED, History, HistoryPolicy

SHOT = "data:image/png;base64,AAAA"
FIRST = {"type": "input_image", "image_url": SHOT}
OWN_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,task"}
TASK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "Do it."}, OWN_IMAGE, FIRST]},
]

policies = st.builds(
    HistoryPolicy,
    policy=st.sampled_from(["all", "last_n", "hysteresis"]),
    keep=st.integers(1, 4),
    batch=st.integers(1, 4),
    max_turns_kept=st.none() | st.integers(5, 8),
)
limits = st.integers(2, 12).map(lambda shots: shots * len(SHOT) + len(str(OWN_IMAGE["image_url"])))
# A turn: its calls as (kind, with a picture), and whether a pause, a nudge or reasoning is in it.
calls = st.tuples(st.sampled_from(["computer", "function", "text_function"]), st.booleans())
turns = st.lists(
    st.tuples(st.lists(calls, min_size=1, max_size=3), st.booleans(), st.booleans(), st.booleans()),
    max_size=25,
)


def output(kind: str, call_id: str, picture: bool) -> Item:
    if kind == "computer":
        shot = {"type": "computer_screenshot", "image_url": SHOT if picture else "", "text": "ok"}
        return {"type": "computer_call_output", "call_id": call_id, "output": shot}
    if kind == "text_function":
        return {"type": "function_call_output", "call_id": call_id, "output": "ok"}
    parts = [{"type": "input_text", "text": "ok"}]
    parts += [{"type": "input_image", "image_url": SHOT}] * picture
    return {"type": "function_call_output", "call_id": call_id, "output": parts}


def message(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def add_turn(history: History, number: int, turn: Any) -> None:
    made, thinks, pauses, nudged = turn
    if thinks:
        history.add_reply([{"type": "reasoning", "id": f"r{number}"}] if pauses else [])
    items: list[Item] = [{"type": "reasoning", "id": f"s{number}"}] if thinks else []
    for index, (kind, _) in enumerate(made):
        name = "computer_call" if kind == "computer" else "function_call"
        items.append({"type": name, "call_id": f"c{number}.{index}"})
    history.add_reply(items)
    history.add_answers([output(k, f"c{number}.{i}", p) for i, (k, p) in enumerate(made)])
    if nudged:
        history.add_answers([message("go on")])


def pictures(items: list[Item]) -> int:
    return str(items).count(SHOT)


def check_whole(items: list[Item]) -> None:
    """Check that each call has its output behind it, each output its call, reasoning its turn."""
    open_calls: set[str] = set()
    seen: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ("computer_call", "function_call"):
            open_calls.add(item["call_id"])
            seen.append(item["call_id"])
        elif kind.endswith("_output"):
            open_calls.remove(item["call_id"])
        elif kind == "reasoning":
            turn = item["id"][1:]
            follows = [i for i in items[index:] if i.get("call_id", "").startswith(f"c{turn}.")]
            assert follows, f"reasoning of turn {turn} stands alone"
    assert open_calls == set()
    assert len(seen) == len(set(seen))


@given(policies, turns)
def test_no_call_output_or_reasoning_is_left_alone(policy: HistoryPolicy, given_turns: Any) -> None:
    history = History(policy, TASK, FIRST)
    for number, turn in enumerate(given_turns):
        add_turn(history, number, turn)
        items = history.items()
        check_whole(items)
        assert items == history.items()
        assert items[0] == TASK[0]
        assert items[1]["content"][:2] == TASK[1]["content"][:2]
        kept = {i["call_id"].split(".")[0] for i in items if i.get("type", "").endswith("_call")}
        assert kept == {f"c{n}" for n in range(number + 1 - len(kept), number + 1)}
        if policy.max_turns_kept:
            assert 1 <= len(kept) <= policy.max_turns_kept
        else:
            assert len(kept) == number + 1


@given(policies, turns)
def test_as_many_screenshots_as_the_policy_says(policy: HistoryPolicy, given_turns: Any) -> None:
    policy = policy.model_copy(update={"max_turns_kept": None})
    history = History(policy, TASK, FIRST)
    made = 1
    for number, turn in enumerate(given_turns):
        add_turn(history, number, turn)
        made += sum(picture and kind != "text_function" for kind, picture in turn[0])
        most = {
            "all": made,
            "last_n": policy.keep,
            "hysteresis": policy.keep + policy.batch,
        }[policy.policy]
        least = made if policy.policy == "all" else min(made, policy.keep)
        assert least <= pictures(history.items()) <= most
        assert str(history.items()).count(OMITTED) == made - pictures(history.items())


@given(policies, turns)
def test_a_request_continues_the_one_before_but_for_prunings(
    policy: HistoryPolicy, given_turns: Any
) -> None:
    history = History(policy, TASK, FIRST)
    before, prunings, shots = history.items(), 0, 0
    for number, turn in enumerate(given_turns):
        add_turn(history, number, turn)
        items = history.items()
        prunings += items[: len(before)] != before
        shots += sum(picture and kind != "text_function" for kind, picture in turn[0])
        before = items
    if policy.policy == "all" and not policy.max_turns_kept:
        assert prunings == 0
    if policy.policy == "hysteresis":
        by_turns = len(given_turns) // (policy.batch + 1) if policy.max_turns_kept else 0
        assert prunings <= shots // (policy.batch + 1) + 1 + by_turns


@given(policies, limits, turns)
def test_images_stay_below_the_limit_of_bytes(
    policy: HistoryPolicy, limit: int, given_turns: Any
) -> None:
    limited = policy.model_copy(update={"max_image_bytes": limit})
    history, unlimited = History(limited, TASK, FIRST), History(policy, TASK, FIRST)
    gone = 0
    for number, turn in enumerate(given_turns):
        for each in (history, unlimited):
            add_turn(each, number, turn)
        items = history.items()
        check_whole(items)
        images = pictures(items) * len(SHOT) + len(str(OWN_IMAGE["image_url"]))
        assert images <= limit
        assert bool(pictures(items)) >= bool(pictures(unlimited.items()))
        assert gone <= (gone := str(items).count(OMITTED)) or policy.max_turns_kept


def test_screenshots_beyond_the_limit_of_bytes_go_down_to_half_of_it() -> None:
    policy = HistoryPolicy(max_image_bytes=5 * len(SHOT) + len(str(OWN_IMAGE["image_url"])))
    history = History(policy, TASK, FIRST)
    sent = []
    for number in range(8):
        add_turn(history, number, ([("computer", True)], True, False, False))
        sent.append(pictures(history.items()))
    assert sent == [2, 3, 4, 5, 2, 3, 4, 5]


def test_screenshots_go_in_batches_and_their_outputs_stay() -> None:
    history = History(HistoryPolicy(policy="hysteresis", keep=2, batch=2), TASK, FIRST)
    sent = []
    for number in range(6):
        add_turn(history, number, ([("computer", True)], True, False, False))
        sent.append(pictures(history.items()))
    assert sent == [2, 3, 4, 2, 3, 4]
    pruned = next(i for i in history.items() if i.get("type") == "computer_call_output")
    assert pruned["output"] == {
        "type": "computer_screenshot",
        "image_url": "",
        "text": f"ok\n{OMITTED}",
    }


def test_a_paused_reply_and_what_it_goes_on_with_are_one_turn() -> None:
    history = History(HistoryPolicy(policy="last_n", keep=1, max_turns_kept=1), TASK, FIRST)
    history.add_reply([{"type": "reasoning", "id": "a"}])
    history.add_reply([{"type": "function_call", "call_id": "c0.0"}])
    history.add_answers([output("text_function", "c0.0", False)])
    assert [i.get("type") for i in history.items()[2:]] == [
        "reasoning",
        "function_call",
        "function_call_output",
    ]


def test_no_turn_would_be_left() -> None:
    with pytest.raises(ValidationError, match="more than batch"):
        HistoryPolicy(policy="hysteresis", batch=5, max_turns_kept=5)
