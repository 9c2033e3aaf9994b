"""NeMo Gym's own example rollouts, of many models and agents, go on with any of the providers.

They lie in the installed package. Nearly all are of models that none of the translators knows, so
Anthropic and Gemini are told them in their own words; OpenAI's come back to OpenAI as they were.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nemo_gym
import pytest

from tests.recorded.replay import (
    USER,
    anthropic_request,
    check_anthropic,
    check_gemini,
    check_openai,
    function_tools,
    gemini_request,
    openai_request,
    without_nulls,
)

Json = dict[str, Any]

PACKAGES = Path(nemo_gym.__file__).parents[1]
# A few files hold megabytes of one and the same kind.
LARGEST_FILE = 600_000


@dataclass(frozen=True)
class Rollout:
    """A conversation in which every call is answered, and the user has the last word."""

    source: str
    model: str
    items: list[Json]

    @property
    def tools(self) -> list[Json]:
        """The functions that are called in it, as tools."""
        calls = [item for item in self.items if item.get("type") == "function_call"]
        return function_tools([call["name"] for call in calls])

    @property
    def is_openais(self) -> bool:
        """Whether the model is one of OpenAI's Responses API."""
        return "gpt-" in self.model and "oss" not in self.model


def read_rollouts() -> Iterator[Rollout]:
    """Yield each conversation once, those that go on being left out."""
    seen: set[str] = set()
    for path in sorted(PACKAGES.glob("*/*/data/*example_rollouts*.jsonl")):
        if path.stat().st_size > LARGEST_FILE:
            continue
        for number, line in enumerate(path.read_text("utf-8").split("\n")):
            row = json.loads(line) if line.startswith("{") else {}
            items = _items(row)
            source = f"{path.relative_to(PACKAGES)}:{number}"
            text = json.dumps(items)
            if items and text not in seen and _is_whole(items):
                seen.add(text)
                yield Rollout(source, str(row["response"].get("model")), [*items, USER])


def _items(row: Json) -> list[Json]:
    asked = (row.get("responses_create_params") or {}).get("input") or []
    said = (row.get("response") or {}).get("output") or []
    asked = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    items = [*asked, *said] if said else []
    return items if all(isinstance(item, dict) for item in items) else []


def _is_whole(items: list[Json]) -> bool:
    """Say whether a user begins, and each call has one output, in the turn after it."""
    roles = [item.get("role") for item in items if item.get("role") not in ("system", "developer")]
    waiting: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            waiting.add(item["call_id"])
        elif kind == "function_call_output":
            waiting.discard(item["call_id"])
        elif waiting:
            return False
    return not waiting and roles[:1] == ["user"]


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    return list(read_rollouts())


def faults(rollouts: list[Rollout], check: Callable[[Rollout], None]) -> list[str]:
    found = []
    for rollout in rollouts:
        try:
            check(rollout)
        except Exception as error:  # each of them is reported
            found.append(f"{rollout.source}: {error!r:.500}")
    return found


def told(items: list[Json]) -> list[str]:
    """Return names of the calls in a conversation, in order."""
    return [item["name"] for item in items if item.get("type") == "function_call"]


def test_what_the_rollouts_hold(rollouts: list[Rollout]) -> None:
    calls = [len(told(rollout.items)) for rollout in rollouts]
    print(f"\n{len(rollouts)} conversations, {sum(calls)} calls")  # noqa: T201
    assert sum(count > 0 for count in calls) > 100
    assert sum(rollout.is_openais for rollout in rollouts) > 100


def test_anthropic_takes_them(rollouts: list[Rollout]) -> None:
    def check(rollout: Rollout) -> None:
        request = anthropic_request(rollout.items, rollout.tools)
        check_anthropic(request.body, frozenset(request.betas), [])
        blocks = [b for m in request.body["messages"] for b in m["content"]]
        assert [b["name"] for b in blocks if b["type"] == "tool_use"] == told(rollout.items)

    assert faults(rollouts, check) == []


def test_gemini_takes_them(rollouts: list[Rollout]) -> None:
    def check(rollout: Rollout) -> None:
        body = gemini_request(rollout.items, rollout.tools)
        check_gemini(body, [])
        parts = [part for content in body["contents"] for part in content["parts"]]
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        assert calls == told(rollout.items)

    assert faults(rollouts, check) == []


def test_openais_own_come_back_as_they_were(rollouts: list[Rollout]) -> None:
    def check(rollout: Rollout) -> None:
        body = openai_request(rollout.items, rollout.tools)
        assert without_nulls(body["input"]) == without_nulls(rollout.items)
        check_openai(body, rollout.items)

    assert faults([rollout for rollout in rollouts if rollout.is_openais], check) == []
