"""Any computer action, from OpenAI through NeMo Gym's types to OpenAI again, and to the browser."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming

from resources_servers.browser_gym.actions import parse_action
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    action_to_canonical,
)
from responses_api_models.openai_computer_model.translate import from_openai, to_openai
from tests.simulators import openai_scripts as scripts

Json = dict[str, Any]

LONG_WAY = 10_000
NUMBERS = st.integers(-LONG_WAY, LONG_WAY) | st.floats(-LONG_WAY, LONG_WAY)
POINT = {"x": NUMBERS, "y": NUMBERS}
POINTS = st.fixed_dictionaries(POINT) | st.lists(NUMBERS, min_size=2, max_size=2)
KEYS = st.lists(
    st.sampled_from(["CTRL", "SHIFT", "ALT", "META", "ENTER", "ArrowLeft", "a", "+", "ctrl+a"])
    | st.text(max_size=8),
    max_size=4,
)
BUTTONS = ["left", "right", "wheel", "back", "forward"]
# Null is not among the values: a request says "absent" instead.
VALUES = st.recursive(
    st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner),
    max_leaves=4,
)
# Names that no action has yet.
UNKNOWN = st.dictionaries(st.sampled_from(["duration", "element", "zoom"]), VALUES, max_size=2)

WITH_KEYS: dict[str, Json] = {
    "click": {"button": st.sampled_from(BUTTONS), **POINT},
    "double_click": POINT,
    "drag": {"path": st.lists(POINTS, max_size=4)},
    "move": POINT,
    "scroll": {**POINT, "scroll_x": NUMBERS, "scroll_y": NUMBERS},
}
WITHOUT: dict[str, Json] = {
    "keypress": {"keys": KEYS},
    "screenshot": {},
    "type": {"text": st.text()},
    "wait": {},
}


def actions_of(kind: str) -> st.SearchStrategy[Json]:
    fields = {"type": st.just(kind), **(WITH_KEYS | WITHOUT)[kind]}
    optional = {"keys": KEYS} if kind in WITH_KEYS else {}
    documented = st.fixed_dictionaries(fields, optional=optional)
    return st.tuples(documented, UNKNOWN).map(lambda parts: parts[1] | parts[0])


# Every kind in every example, so that none is left to chance.
BATCHES = st.tuples(*map(actions_of, sorted(WITH_KEYS | WITHOUT))).map(list)


def calls_of(batch: list[Json]) -> list[Json]:
    """Return the actions as `computer` sends them, and as `computer_use_preview` does."""
    calls = [scripts.computer_call(*batch), *map(scripts.preview_call, batch)]
    for index, call in enumerate(calls):
        call |= {"id": f"cu_{index}", "call_id": f"call_{index}", "status": "completed"}
    return calls


def through_nemo_gym(calls: list[Json]) -> tuple[list[Json], list[Json]]:
    """Return the items an agent gets, and what it replays as OpenAI gets it."""
    reply = {"id": "resp_1", "created_at": 1, "model": "gpt-5.4", "output": calls}
    received = NeMoGymResponse.model_validate(from_openai(reply)).model_dump(mode="json")["output"]
    asked = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {"input": copy.deepcopy(received), "tools": [{"type": "computer"}]}
    )
    request = to_openai(asked.model_dump(mode="json", exclude_unset=True), model="gpt-5.4")
    return received, request["input"]


@settings(deadline=None)
@given(BATCHES)
def test_openai_gets_its_own_items_back(batch: list[Json]) -> None:
    calls = calls_of(batch)
    before = copy.deepcopy(calls)
    _, replayed = through_nemo_gym(calls)
    assert replayed == before


@settings(deadline=None)
@given(BATCHES)
def test_every_action_is_the_browsers_or_refused(batch: list[Json]) -> None:
    received, _ = through_nemo_gym(calls_of(batch))
    for call in received:
        for action in call.get("actions") or [call["action"]]:
            try:
                canonical = action_to_canonical(action)
            except UnusableCall:
                continue
            parse_action(canonical)
