"""Proposes a task's assertions from what a person changed. Pure functions."""

from __future__ import annotations

import json
from typing import Any

from browser_gym.storage import value_at
from resources_servers.browser_gym.verification.json_diff import Path, diff_paths, to_pointer
from resources_servers.browser_gym.verification.storage_document import parse_document

Json = dict[str, Any]
TO_CHECK = "To check: "
"""How the title of each proposed assertion begins."""
MAX_EQUALS = 20
_MAX_VALUE_CHARS = 1_000


def proposed(was: dict[str, str], now: dict[str, str], answer: str) -> list[Json]:
    """Return assertions that hold for what was done.

    Args:
        was: localStorage at the start.
        now: and at the end.
        answer: to the task, empty if it has none.
    """
    before, after = parse_document(was), parse_document(now)
    paths = list(diff_paths(before, after))
    assertions: list[Json] = []
    for path in paths[:MAX_EQUALS]:
        value = value_at(after, path)
        if len(json.dumps(value)) <= _MAX_VALUE_CHARS:
            title = f"{TO_CHECK}{to_pointer(path)} is as it was left"
            query = query_of(path, after if value is not None else before)
            assertions.append({"title": title, "query": query, "equals": value})
    pointers = [to_pointer(path) for path in paths]
    title = f"{TO_CHECK}{'nothing else changed' if paths else 'nothing changed'}"
    assertions.append({"title": title, "only_changed": pointers})
    if answer:
        assertions.append({"title": f"{TO_CHECK}the answer", "answer_contains": [answer]})
    return assertions


def query_of(path: Path, document: Any) -> str:
    """Return the JMESPath of a place.

    Args:
        path: of the place.
        document: that has the place, to tell keys from indexes.
    """
    query = ""
    for depth, segment in enumerate(path):
        if isinstance(value_at(document, path[:depth]), list):
            query += f"[{segment}]"
        else:
            query += ("." if query else "") + json.dumps(segment, ensure_ascii=False)
    return query
