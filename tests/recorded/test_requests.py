"""The simulators take the recorded requests that the real APIs took.

They are stricter on purpose, and do not know what this gym never asks for: those refusals are
listed here. Any other means that a simulator refuses what its API takes.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.apps.packages import DOWNLOAD_TIMEOUT_S
from tests.recorded.archives import Exchange
from tests.recorded.replay import (
    CLAUDE,
    GPT,
    check_anthropic,
    check_gemini,
    check_openai,
)
from tests.simulators import anthropic_rules, gemini_rules, openai_rules

Json = dict[str, Any]

# The first test downloads the recordings.
pytestmark = [pytest.mark.long, pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + 300)]

REFUSALS = (anthropic_rules.ApiError, gemini_rules.ApiError, openai_rules.ApiError)
NOT_SIMULATED = {
    # Other tools, blocks and fields; roles in any order.
    "anthropic": r"does not match any|Extra inputs are not permitted|roles must alternate",
    # Other tools, fields and media; field names in snake case; an empty text.
    "gemini": (
        r'Unknown name "(codeExecution|googleSearch|responseSchema|[a-z]+_[a-z_]+)"'
        r"|Unsupported MIME type: (application|audio)/|must not be empty"
    ),
    # Other tools, items and parts; a choice of several tools.
    "openai": r"Invalid value: '|Tool choice '{'type': 'allowed_tools'",
}


def check(provider: str, request: Json, reply: Json) -> None:
    """Have a provider's simulator check a recorded request.

    Raises:
        ApiError: It refuses it.
    """
    if provider == "anthropic":
        turns = [m["content"] for m in request["messages"] if m["role"] == "assistant"]
        issued = [block for turn in turns if isinstance(turn, list) for block in turn]
        check_anthropic({**request, "model": CLAUDE}, frozenset(), issued)
    elif provider == "gemini":
        issued = [content for content in request["contents"] if content.get("role") == "model"]
        check_gemini(request, issued, reply.get("modelVersion", "gemini-2.5-flash"))
    else:
        items = request["input"] if isinstance(request["input"], list) else []
        check_openai({**request, "model": GPT}, items)


def refusals(exchanges: Sequence[Exchange], provider: str) -> list[tuple[str, str]]:
    """Return source and refusal of each request that the API took; empty for one it accepts."""
    found = []
    for exchange in exchanges:
        # Bedrock has the model in the address.
        if exchange.provider != provider or exchange.status != 200:
            continue
        request = json.loads(exchange.request)
        if provider != "gemini" and "model" not in request:
            continue
        try:
            check(provider, request, json.loads(exchange.reply))
            found.append((exchange.source, ""))
        except REFUSALS as error:
            found.append((exchange.source, str(error)))
    return found


@pytest.mark.parametrize("provider", NOT_SIMULATED)
def test_what_the_api_took_is_taken(exchanges: list[Exchange], provider: str) -> None:
    told = refusals(exchanges, provider)
    known = re.compile(NOT_SIMULATED[provider])
    assert [entry for entry in told if entry[1] and not known.search(entry[1])] == []
    taken = [source for source, refusal in told if not refusal]
    assert len(taken) > len(told) / 2


def test_a_schema_that_openai_refused_is_refused(exchanges: list[Exchange]) -> None:
    code = "invalid_function_parameters"
    (refused,) = [e for e in exchanges if e.status == 400 and code in e.reply]
    with pytest.raises(openai_rules.ApiError) as raised:
        check("openai", json.loads(refused.request), {})
    error = json.loads(refused.reply)["error"]
    told = raised.value.body["error"]
    assert {told[name] == error[name] for name in ("type", "param", "code")} == {True}
