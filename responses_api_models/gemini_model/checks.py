"""Checks of what goes into a request, for values that JSON or Gemini has no place for."""

import json
import math
from typing import Any

from responses_api_models.gemini_model.settings import InvalidRequest


def check_finite(value: Any, path: str) -> None:
    """Check that a value holds no NaN and no infinity: Python reads and writes both, JSON has none.

    Args:
        value: A parsed JSON value.
        path: Where it is in the request, for errors.

    Raises:
        InvalidRequest: It holds one. The text names where.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{path}: {value} is no number in JSON")
    if isinstance(value, dict):
        for name, entry in value.items():
            check_finite(entry, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            check_finite(entry, f"{path}[{index}]")


def parse_json(text: str, path: str) -> Any:
    """Return the value of a JSON text inside a request.

    Raises:
        InvalidRequest: It is not JSON, too deep, or holds a number beyond all bounds.
    """
    try:
        value = json.loads(text)
        check_finite(value, path)
    except InvalidRequest:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path}: not JSON: {error}") from error
    return value
