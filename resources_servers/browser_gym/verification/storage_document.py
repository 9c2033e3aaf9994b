"""The document that assertions look at: an origin's localStorage with its JSON texts parsed."""

import json
import math
from collections.abc import Mapping
from typing import Any


def parse_document(storage: Mapping[str, str]) -> dict[str, Any]:
    """Turns {storage key: text} into {storage key: value}.

    A text that is, as a whole, a JSON object, list, number, bool or null becomes that value: the
    stored text `12` is the number 12, and `true` the bool. Everything else stays the stored text:
    `buy milk`, `1,2` and also a JSON string such as `"dark"`, which keeps its quotes. Texts inside
    a parsed value are not parsed again; the query function `from_json` does that where wanted.
    """
    return {key: _parse_value(text) for key, text in storage.items()}


def parse_json(text: str) -> Any:
    """Parses a JSON text as a browser would.

    Python also takes `NaN` and `Infinity`, which JSON has not; here they are not JSON, nor is a
    number too large to hold, such as `1e999`.

    Raises:
        ValueError: It is not JSON, or nested too deeply to parse.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _parse_value(text: str) -> Any:
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
