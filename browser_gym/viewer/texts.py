"""Values of rows as text to show."""

from __future__ import annotations

import json
from typing import Any

SHOWN_CHARS = 20_000
_LINE_CHARS = 80


def shown(value: Any, most: int = SHOWN_CHARS) -> str:
    """Return a text as it is and other JSON as JSON, cut at `most` characters."""
    text = value if isinstance(value, str) else _as_json(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LINE_CHARS:
        return text
    return json.dumps(value, ensure_ascii=False, indent=1)


def joined_text(content: Any) -> str:
    """Return the texts of a Responses item's content, which may be a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def record(value: Any) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects of a list, none for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number as it is, and None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < float("inf") else None
