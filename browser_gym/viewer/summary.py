"""What the list of rollouts shows of one row."""

from __future__ import annotations

from typing import Any

from browser_gym.rollouts import Rollout
from browser_gym.viewer.texts import joined_text, number, record, records, shown
from resources_servers.browser_gym.groups import is_masked

Json = dict[str, Any]
_WORDS_CHARS = 1000


def summary_of(rollout: Rollout) -> Json:
    """Return a row's line in the list.

    `words` is what a search looks at beside the task's name: what was asked and answered, and why
    the rollout failed.
    """
    row = rollout.row
    answer = row.get("final_answer")
    reason = row.get("failure_reason")
    texts = [prompt_of(row), answer, reason, row.get("final_url")]
    words = [shown(text, _WORDS_CHARS) for text in texts if isinstance(text, str) and text]
    return {
        "line": rollout.line,
        "task": shown(rollout.task_id, _WORDS_CHARS),
        "group": _group(rollout),
        "repeat": number(row.get("_ng_rollout_index")),
        "agent": shown(record(row.get("agent_ref")).get("name") or "", _WORDS_CHARS),
        "model": shown(record(row.get("response")).get("model") or "", _WORDS_CHARS),
        "category": category_of(row),
        "reward": number(row.get("reward")),
        "masked": is_masked(row),
        "failure": shown(row.get("failure_kind") or "", _WORDS_CHARS),
        "end": shown(row.get("termination_reason") or "", _WORDS_CHARS),
        "steps": len(records(row.get("turns"))) or number(row.get("num_turns")),
        "seconds": number(row.get("total_seconds")),
        "cost": number(row.get("cost_usd")),
        "words": "\n".join(words),
    }


def _group(rollout: Rollout) -> str:
    """Return what a row shares with those it can be compared with."""
    index = rollout.row.get("_ng_task_index")
    if index is None:
        index = rollout.task_id or f"line {rollout.line}"
    return shown(index, _WORDS_CHARS)


def category_of(row: Json) -> str:
    """Return the category of a row's task, empty if it has none."""
    category = row.get("category") or record(row.get("verifier_metadata")).get("category")
    return shown(category or "", _WORDS_CHARS)


def prompt_of(row: Json) -> str:
    """Return what the user asked for."""
    asked = record(row.get("responses_create_params")).get("input")
    if isinstance(asked, str):
        return asked
    messages = [one for one in records(asked) if one.get("role") == "user"]
    return "\n".join(joined_text(message.get("content")) for message in messages)
