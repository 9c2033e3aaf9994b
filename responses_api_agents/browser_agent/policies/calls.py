"""One call of a model, whatever format it came in, and its fields one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import orjson

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall

_POINT_MARKS = re.compile(r"</?point>|<\|box_(?:start|end)\|>|[()\[\]]")
_SEPARATORS = re.compile(r"[\s,]+")
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,20})?")


class NativeCall:
    """A call: its name, and its fields, each of which is taken once.

    Fields of formats that only know text may say what JSON would: `"[3, 4]"` for a list.
    """

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        """Hold a call; a field that is null counts as missing."""
        self.name = name
        self._fields = {key: value for key, value in fields.items() if value is not None}

    def has(self, field: str) -> bool:
        """Whether a field is given, and not taken yet."""
        return field in self._fields

    def take(self, field: str, default: Any = ...) -> Any:
        """Return a field of any type.

        Raises:
            UnusableCall: it is missing, and there is no default.
        """
        if field not in self._fields and isinstance(default, EllipsisType):
            raise UnusableCall(f"{self.name}: {field!r} is missing")
        return self._fields.pop(field, default)

    def take_all(self) -> dict[str, Any]:
        """Return all fields that are left."""
        fields, self._fields = self._fields, {}
        return fields

    def text(self, field: str, default: str | EllipsisType = ...) -> str:
        """Return a text.

        Raises:
            UnusableCall: it is missing or none.
        """
        value = self.take(field, default)
        if not isinstance(value, str):
            raise self._wrong(field, "a text", value)
        return value

    def number(self, field: str, default: float | EllipsisType = ...) -> float:
        """Return a number.

        Raises:
            UnusableCall: it is missing or none.
        """
        value = _decoded(self.take(field, default))
        if not _is_number(value):
            raise self._wrong(field, "a number", value)
        return value

    def whole(self, field: str, default: int) -> int:
        """Return a whole number.

        Raises:
            UnusableCall: it is none.
        """
        value = self.number(field, default)
        if value != int(value):
            raise self._wrong(field, "a whole number", value)
        return int(value)

    def flag(self, field: str, default: bool) -> bool:
        """Return true or false.

        Raises:
            UnusableCall: it is neither.
        """
        value = self.take(field, default)
        value = _decoded(value.lower() if isinstance(value, str) else value)
        if not isinstance(value, bool):
            raise self._wrong(field, "true or false", value)
        return value

    def texts(self, field: str) -> list[str]:
        """Return a list of texts; one alone may stand for a list.

        Raises:
            UnusableCall: it is missing or none.
        """
        value = self.take(field)
        decoded = _decoded(value)
        value = decoded if isinstance(decoded, list) else [value]
        if not value or not all(isinstance(entry, str) for entry in value):
            raise self._wrong(field, "a list of texts", value)
        return value

    def pair(self, field: str) -> tuple[float, float]:
        """Return the two numbers of a list.

        Raises:
            UnusableCall: it is missing or none.
        """
        value = _decoded(self.take(field))
        if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
            raise self._wrong(field, "a pair of numbers", value)
        return value[0], value[1]

    def marked_point(self, *fields: str) -> tuple[float, float]:
        """Return a point given as text, with or without marks; of a box its centre.

        Args:
            fields: the names it may have.

        Raises:
            UnusableCall: it is missing or none.
        """
        field = next((name for name in fields if self.has(name)), fields[0])
        value = self.take(field)
        text = str(value) if isinstance(value, list) else value
        if not isinstance(text, str):
            raise self._wrong(field, "a point", value)
        words = [word for word in _SEPARATORS.split(_POINT_MARKS.sub(" ", text)) if word]
        if len(words) not in (2, 4) or not all(map(_NUMBER.fullmatch, words)):
            raise self._wrong(field, "a point", value)
        left, top, *_ = numbers = [float(word) for word in words]
        right, bottom = numbers[-2:]
        if len(numbers) == 4 and not (0 <= left <= right and 0 <= top <= bottom):
            raise self._wrong(field, "a box from its top left to its bottom right", value)
        return (left + right) / 2, (top + bottom) / 2

    def name_positions(self, names: Sequence[str]) -> None:
        """Give the fields that are named by their position their names.

        Raises:
            UnusableCall: a field is given both ways.
        """
        for position, name in enumerate(names):
            if str(position) not in self._fields:
                continue
            if name in self._fields:
                raise UnusableCall(f"{self.name}: {name!r} is given twice")
            self._fields[name] = self._fields.pop(str(position))

    def check_all_taken(self, ignored: Sequence[str]) -> None:
        """Check that no field is left, for it would have meant something.

        Raises:
            UnusableCall: one is.
        """
        for field in self._fields:
            if field not in ignored:
                raise UnusableCall(f"{self.name}: there is no field {field!r:.100}")

    def _wrong(self, field: str, wanted: str, value: Any) -> UnusableCall:
        return UnusableCall(f"{self.name}: {field!r} must be {wanted}, not {value!r:.100}")


def _decoded(value: Any) -> Any:
    """Return what a text says in JSON, or the text."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e9 and math.isfinite(value)
