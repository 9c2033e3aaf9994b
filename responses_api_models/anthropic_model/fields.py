"""Reading the fields of a native call, with texts that name what is wrong."""

from typing import Any

from responses_api_models.anthropic_model.errors import Untranslatable
from responses_api_models.anthropic_model.images import Frame

# No pixel, notch or second is larger. Beyond some size numbers overflow in calculations and JSON.
LARGEST = 1e9


def check_fields(fields: dict[str, Any], required: set[str], optional: set[str]) -> None:
    """Check a call's field names; a null counts as absent.

    Raises:
        Untranslatable: One is missing or unknown.
    """
    given = {name for name, value in fields.items() if value is not None}
    if missing := sorted(required - given):
        raise Untranslatable(f"{missing[0]!r} is missing")
    if unknown := sorted(given - required - optional):
        raise Untranslatable(f"there is no field {unknown[0]!r} here")


def number(fields: dict[str, Any], name: str) -> float:
    """Return a finite number of at least 0.

    Raises:
        Untranslatable: It is none.
    """
    value = fields[name]
    if not _is_number(value) or value < 0:
        raise Untranslatable(f"{name!r} must be a number of at least 0, not {value!r:.100}")
    return value


def whole(fields: dict[str, Any], name: str) -> int:
    """Return a whole number of at least 0.

    Raises:
        Untranslatable: It is none.
    """
    value = number(fields, name)
    if value != int(value):
        raise Untranslatable(f"{name!r} must be a whole number, not {value!r}")
    return int(value)


def text(fields: dict[str, Any], name: str) -> str:
    """Return a text.

    Raises:
        Untranslatable: It is none.
    """
    value = fields[name]
    if not isinstance(value, str):
        raise Untranslatable(f"{name!r} must be a text, not {value!r:.100}")
    return value


def milliseconds(fields: dict[str, Any]) -> int:
    """Return `duration`, which is in seconds, in milliseconds.

    Raises:
        Untranslatable: It is no such number.
    """
    return round(number(fields, "duration") * 1000)


def seconds(duration_ms: float) -> float:
    """Return milliseconds in seconds, as an integer where they are whole."""
    value = duration_ms / 1000
    return int(value) if value == int(value) else value


def pair(value: Any, name: str, frame: Frame) -> dict[str, float]:
    """Return the point of `[x, y]` in CSS px.

    Raises:
        Untranslatable: It is no pair of numbers.
    """
    if not (isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))):
        raise Untranslatable(f"{name!r} must be [x, y], not {value!r:.100}")
    x, y = frame.to_css(*value)
    return {"x": x, "y": y}


def region(fields: dict[str, Any], frame: Frame) -> dict[str, float]:
    """Return the `region` `[x0, y0, x1, y1]` in CSS px.

    Raises:
        Untranslatable: It is no list of four numbers.
    """
    value = fields["region"]
    if not (isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))):
        raise Untranslatable(f"'region' must be [x0, y0, x1, y1], not {value!r:.100}")
    (x0, y0), (x1, y1) = frame.to_css(*value[:2]), frame.to_css(*value[2:])
    return {"x0": x0, "y0": y0, "x1": x1, "y1": y1}


def sent_region(value: dict[str, float], frame: Frame) -> list[int]:
    """Return a region in px of a sent screenshot."""
    return [*frame.to_sent(value["x0"], value["y0"]), *frame.to_sent(value["x1"], value["y1"])]


def _is_number(value: Any) -> bool:
    """Say whether a value is a number; one beyond all sense, such as 1e308, is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
