"""A rollout as the page shows it: everything a person looks for, and no token ids."""

from __future__ import annotations

from typing import Any

from browser_gym.rollouts import Rollout
from browser_gym.viewer.steps import Gallery, steps_of
from browser_gym.viewer.storage import storage_of
from browser_gym.viewer.summary import category_of, prompt_of, summary_of
from browser_gym.viewer.texts import number, record, records, shown

Json = dict[str, Any]


def trajectory_of(rollout: Rollout) -> tuple[Json, list[str]]:
    """Return what the page shows of a rollout, and the references of the images it names by number.

    Must not be called on an event loop, as it reads the evidence that was graded.
    """
    row = rollout.row
    gallery = Gallery()
    steps = steps_of(row, gallery)
    task = record(row.get("verifier_metadata"))
    trajectory = {
        "summary": summary_of(rollout),
        "prompt": shown(prompt_of(row)),
        "start_url": shown(task.get("start_url") or ""),
        "category": category_of(row),
        "verifier": shown(task.get("verifier") or ""),
        "steps": steps,
        "end": _end(row, steps, gallery),
        "answer": shown(row.get("final_answer") or ""),
        "final_url": shown(row.get("final_url") or ""),
        "failure_reason": shown(row.get("failure_reason") or ""),
        "partial_credit": number(row.get("partial_credit")),
        "assertions": [_assertion(one) for one in _assertions(row)],
        "storage": storage_of(row),
        "usage": _usage(record(record(row.get("response")).get("usage"))),
        "seconds": {
            name: number(row.get(f"{name}_seconds"))
            for name in ("total", "model", "browser", "verify")
        },
    }
    return trajectory, gallery.references


def _end(row: Json, steps: list[Json], gallery: Gallery) -> int | None:
    """Return the image of what was on the screen last."""
    if steps:
        return steps[-1]["pictures"][-1]["image"]
    return gallery.add(record(row.get("first_observation")).get("screenshot"))


def _assertions(row: Json) -> list[Json]:
    return records(record(row.get("verification_result")).get("assertions"))


def _assertion(assertion: Json) -> Json:
    told = {
        "title": shown(assertion.get("title") or ""),
        "category": shown(assertion.get("category") or ""),
        "result": shown(assertion.get("result") or ""),
    }
    known = ("expected", "actual")
    return told | {key: shown(assertion[key]) for key in known if key in assertion}


def _usage(usage: Json) -> Json:
    details = record(usage.get("input_tokens_details"))
    return {
        "input_tokens": number(usage.get("input_tokens")),
        "cached_tokens": number(details.get("cached_tokens")),
        "output_tokens": number(usage.get("output_tokens")),
        "reasoning_tokens": number(
            record(usage.get("output_tokens_details")).get("reasoning_tokens")
        ),
    }
