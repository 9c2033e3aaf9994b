"""What a rollout changed in its start origin's localStorage."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from browser_gym.viewer.texts import shown
from resources_servers.browser_gym.verification.contract import Evidence
from resources_servers.browser_gym.verification.errors import VerifierError
from resources_servers.browser_gym.verification.evidence_store import EvidenceStore
from resources_servers.browser_gym.verification.json_diff import Path as Place
from resources_servers.browser_gym.verification.json_diff import diff_paths, to_pointer
from resources_servers.browser_gym.verification.storage_document import parse_document

Json = dict[str, Any]
MOST_CHANGES = 200
ROOT = Path(__file__).parents[2]
"""What references to evidence are relative to."""
_store = EvidenceStore(Path(), ROOT)


def storage_of(row: Json) -> Json | None:
    """Return what a row tells of the storage, None if it tells nothing.

    With the evidence that was graded still there, `changes` holds each place that is another than
    at the start: a JSON Pointer `path`, and `before` and `after` in words, each only if there was a
    value; `more` counts those left out. Else `final` has the storage at the end, in words by key.

    Must not be called on an event loop.
    """
    evidence = _evidence(row)
    if evidence is not None:
        before = parse_document(evidence.initial_storage)
        after = parse_document(evidence.final_storage)
        places = sorted(diff_paths(before, after))
        changes = [_change(place, before, after) for place in places[:MOST_CHANGES]]
        return {
            "origin": evidence.start_origin,
            "changes": changes,
            "more": max(0, len(places) - MOST_CHANGES),
        }
    final = row.get("final_local_storage")
    if not isinstance(final, dict):
        return None
    return {"final": {key: shown(value) for key, value in final.items()}}


def _evidence(row: Json) -> Evidence | None:
    reference = row.get("deliverables_dir")
    if not isinstance(reference, str) or not reference:
        return None
    try:
        return asyncio.run(_store.load(reference))
    except VerifierError:  # moved away or deleted: the row says what it can
        return None


def _change(place: Place, before: Any, after: Any) -> Json:
    change: Json = {"path": to_pointer(place)}
    for name, document in (("before", before), ("after", after)):
        found, value = _at(place, document)
        if found:
            change[name] = shown(value)
    return change


def _at(place: Place, value: Any) -> tuple[bool, Any]:
    for segment in place:
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list) and int(segment) < len(value):
            value = value[int(segment)]
        else:
            return False, None
    return True, value
