"""Places in what a web app keeps in localStorage."""

from __future__ import annotations

from typing import Any

from resources_servers.browser_gym.verification.json_diff import Path


def value_at(document: Any, path: Path) -> Any:
    """Return the value at a place of a JSON document, None if there is none."""
    for segment in path:
        if isinstance(document, dict):
            document = document.get(segment)
        elif isinstance(document, list):
            document = document[int(segment)] if int(segment) < len(document) else None
        else:
            return None
    return document
