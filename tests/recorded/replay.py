"""A recorded reply through a translator: what an agent gets, and what is sent back next turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming

from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.translate import (
    AnthropicRequest,
    build_response,
    to_anthropic,
)
from responses_api_models.gemini_model.functions import function_set_of
from responses_api_models.gemini_model.settings import Settings
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from responses_api_models.openai_computer_model.translate import from_openai, to_openai
from responses_api_models.whole_text import whole
from tests.simulators import (
    anthropic_messages,
    anthropic_rules,
    gemini_contents,
    gemini_rules,
    openai_items,
    openai_rules,
)

Json = dict[str, Any]

CLAUDE = "claude-sonnet-4-6"
GEMINI = "gemini-3.8-flash"
GPT = "gpt-5.4"
USER = {"role": "user", "content": "Go on."}


@dataclass(frozen=True)
class Replayed:
    """One turn and the request after it.

    Attributes:
        response: The Responses object that an agent gets.
        returned: The provider's own content, in the next request.
        body: The body of the next request.
        betas: For Anthropic, the beta names that go with it.
    """

    response: Json
    returned: list[Json]
    body: Json
    betas: frozenset[str] = frozenset()


def function_tools(names: Sequence[str]) -> list[Json]:
    """Return function tools of these names, each once."""
    schema = {"type": "object", "properties": {}}
    common = {"type": "function", "parameters": schema, "strict": False}
    return [{**common, "name": name} for name in sorted(set(names))]


def passed(items: Sequence[Json], tools: Sequence[Json]) -> Json:
    """Return a request as NeMo Gym passes it on."""
    body = {"input": list(items), "tools": list(tools)}
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
    return params.model_dump(mode="json", exclude_unset=True)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without nulls: OpenAI means "absent" by them."""
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    if isinstance(value, dict):
        return {name: without_nulls(entry) for name, entry in value.items() if entry is not None}
    return value


def _received(response: Json) -> Json:
    """Return a Responses object as an agent gets it, every optional field written out."""
    return NeMoGymResponse.model_validate(whole(response)).model_dump(mode="json")


def _continued(response: Json) -> list[Json]:
    """Return the conversation an agent goes on with: every call answered, and a word more."""
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
        for item in response["output"]
        if item["type"] == "function_call"
    ]
    return [USER, *response["output"], *outputs, USER]


# Anthropic ----------------------------------------------------------------------------------------


def anthropic_request(items: Sequence[Json], tools: Sequence[Json]) -> AnthropicRequest:
    """Translate a conversation for Anthropic."""
    return to_anthropic(passed(items, tools), RequestSettings(anthropic_model=CLAUDE))


def replay_anthropic(reply: Json) -> Replayed:
    """Replay a reply of the Messages API."""
    tools = function_tools([b["name"] for b in reply["content"] if b["type"] == "tool_use"])
    asked = anthropic_request([USER], tools)
    response = _received(build_response(reply, asked.offer, now=1))
    request = anthropic_request(_continued(response), tools)
    turns = [m["content"] for m in request.body["messages"] if m["role"] == "assistant"]
    return Replayed(response, [b for t in turns for b in t], request.body, frozenset(request.betas))


def check_anthropic(body: Json, betas: frozenset[str], issued: list[Json]) -> None:
    """Have the simulator check a request whose replies it is told to have issued.

    Raises:
        ApiError: It refuses the request.
    """
    ledger = anthropic_messages.Ledger(issued={"msg": issued}, prefixes={"msg": ""})
    ledger.seals = {seal: "msg" for b in issued if (seal := anthropic_messages.seal_of(b))}
    model = anthropic_rules.check_request(body, set(betas))
    anthropic_messages.check_messages(body, model, set(betas), ledger)


# Gemini -------------------------------------------------------------------------------------------


def gemini_request(items: Sequence[Json], tools: Sequence[Json], model: str = GEMINI) -> Json:
    """Translate a conversation for Gemini."""
    return to_gemini(passed(items, tools), Settings(model, function_set_of(model)))[0]


def replay_gemini(reply: Json) -> Replayed:
    """Replay a reply of generateContent."""
    model = reply.get("modelVersion", GEMINI)
    settings = Settings(model, function_set_of(model))
    parts = ((reply.get("candidates") or [{}])[0].get("content") or {}).get("parts") or []
    tools = function_tools([p["functionCall"]["name"] for p in parts if "functionCall" in p])
    turn = to_gemini(passed([USER], tools), settings)[1]
    response = _received(from_gemini(reply, turn, settings, now=1))
    body = gemini_request(_continued(response), tools, model)
    return Replayed(response, [c for c in body["contents"] if c["role"] == "model"], body)


def check_gemini(body: Json, issued: Sequence[Json], model: str = GEMINI) -> None:
    """Have the simulator check a request whose model contents it is told to have issued.

    Raises:
        ApiError: It refuses the request.
    """
    ledger = gemini_contents.Ledger()
    for content in issued:
        ledger.issue(content)
    predefined = gemini_rules.check_request(body, model)
    gemini_contents.check_contents(body, model, predefined, ledger)


# OpenAI -------------------------------------------------------------------------------------------


def openai_request(items: Sequence[Json], tools: Sequence[Json]) -> Json:
    """Translate a conversation for OpenAI."""
    return to_openai(passed(items, tools), model=GPT)


def replay_openai(reply: Json) -> Replayed:
    """Replay a reply of the Responses API."""
    names = [item["name"] for item in reply["output"] if item["type"] == "function_call"]
    response = _received(from_openai(reply))
    body = openai_request(_continued(response), function_tools(names))
    return Replayed(response, body["input"][1 : 1 + len(reply["output"])], body)


def check_openai(body: Json, items: Sequence[Json]) -> None:
    """Have the simulator check a request whose model items it is told to have issued and stored.

    Raises:
        ApiError: It refuses the request.
    """
    ledger = openai_items.Ledger()
    for item, after in zip(items, [*items[1:], {}], strict=True):
        if not item.get("id") or item.get("role", "assistant") != "assistant":
            continue
        ledger.issued[item["id"]] = item
        ledger.stored_ids.add(item["id"])
        if item.get("type") == "reasoning":
            ledger.encrypted[item["id"]] = item.get("encrypted_content") or ""
            if after.get("id"):
                ledger.led_to[item["id"]] = after["id"]
    openai_rules.check_request(body)
    openai_items.check_input(body, ledger)


def same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are the same text, order and kind of number included."""
    return json.dumps(one) == json.dumps(other)
