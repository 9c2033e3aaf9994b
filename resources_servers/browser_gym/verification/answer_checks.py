"""Checks on the model's final answer."""

import math
from dataclasses import dataclass
from typing import Any

import re2

from resources_servers.browser_gym.verification import answer_number, answer_text
from resources_servers.browser_gym.verification.checks import Check, Outcome, State, required_text
from resources_servers.browser_gym.verification.errors import InvalidTask

FIELDS = (
    frozenset({"answer_contains"}),
    frozenset({"answer_equals"}),
    frozenset({"answer_exact"}),
    frozenset({"answer_normalised"}),
    frozenset({"answer_regex"}),
    frozenset({"answer_number"}),
    frozenset({"answer_number", "tolerance"}),
    frozenset({"answer_number", "relative_tolerance"}),
    frozenset({"answer_number", "unit"}),
    frozenset({"answer_number", "tolerance", "unit"}),
    frozenset({"answer_number", "relative_tolerance", "unit"}),
)
MAX_PATTERN_CHARS = 2_000


@dataclass(frozen=True)
class _Contains:
    texts: tuple[str, ...]

    def judge(self, state: State) -> Outcome:
        passed = all(answer_text.contains(state.answer, text) for text in self.texts)
        return Outcome(passed, list(self.texts), state.answer)


@dataclass(frozen=True)
class _Equals:
    text: str

    def judge(self, state: State) -> Outcome:
        return Outcome(answer_text.equals(state.answer, self.text), self.text, state.answer)


@dataclass(frozen=True)
class _Exact:
    text: str

    def judge(self, state: State) -> Outcome:
        return Outcome(state.answer.strip() == self.text.strip(), self.text, state.answer)


@dataclass(frozen=True)
class _Normalised:
    text: str

    def judge(self, state: State) -> Outcome:
        passed = answer_text.bare(state.answer) == answer_text.bare(self.text)
        return Outcome(passed, self.text, state.answer)


@dataclass(frozen=True)
class _Matches:
    """RE2 takes time linear in the answer's length, so no pattern can hold up the server."""

    pattern: Any

    def judge(self, state: State) -> Outcome:
        text = state.answer.encode("utf-8", "replace").decode("utf-8").strip()
        passed = self.pattern.fullmatch(text) is not None
        return Outcome(passed, {"regex": self.pattern.pattern}, state.answer)


@dataclass(frozen=True)
class _Number:
    value: float
    tolerance: float
    units: tuple[str, ...]

    def judge(self, state: State) -> Outcome:
        numbers = answer_number.numbers_in(state.answer, self.units)
        one = len(set(numbers)) == 1
        passed = one and abs(numbers[0] - self.value) <= self.tolerance
        expected: dict[str, Any] = {"number": self.value, "tolerance": self.tolerance}
        if self.units:
            expected["unit"] = list(self.units)
        return Outcome(passed, expected, {"numbers": numbers, "answer": state.answer})


def parse(item: dict[str, Any], name: str) -> Check:
    """Reads a check whose fields are in `FIELDS`; raises `InvalidTask` naming the field."""
    if "answer_number" in item:
        return _parse_number(item, name)
    if "answer_contains" in item:
        field = f"{name}.answer_contains"
        texts = item["answer_contains"]
        if not isinstance(texts, list) or not texts:
            raise InvalidTask(f"{field}: give a list with at least one text")
        return _Contains(tuple(required_text(text, field) for text in texts))
    [key] = [key for key in item if key.startswith("answer_")]
    field = f"{name}.{key}"
    text = required_text(item[key], field)
    if key == "answer_regex":
        return _Matches(_pattern(text, field))
    if key == "answer_exact":
        return _Exact(text)
    if key == "answer_normalised":
        if not answer_text.bare(text):
            raise InvalidTask(f"{field}: give a text with a letter or digit in it")
        return _Normalised(text)
    if not answer_text.strip_punctuation(text):
        raise InvalidTask(f"{field}: give a text with a letter or digit in it")
    return _Equals(text)


def _pattern(text: str, field: str) -> Any:
    if len(text) > MAX_PATTERN_CHARS:
        raise InvalidTask(f"{field}: give at most {MAX_PATTERN_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise InvalidTask(
            f"{field}: not a regular expression of RE2, which has no look-around and no "
            f"back-references: {reason}"
        ) from error


def _parse_number(item: dict[str, Any], name: str) -> Check:
    value = _number(item["answer_number"], f"{name}.answer_number")
    # What decimal fractions lose in binary is no difference.
    tolerance = abs(value) * 1e-9
    if "tolerance" in item:
        tolerance = max(tolerance, _tolerance(item["tolerance"], f"{name}.tolerance"))
    if "relative_tolerance" in item:
        share = _tolerance(item["relative_tolerance"], f"{name}.relative_tolerance")
        tolerance = max(tolerance, abs(value) * share)
    units = item.get("unit", [])
    units = [units] if isinstance(units, str) else units
    if "unit" in item and not (isinstance(units, list) and units):
        raise InvalidTask(f'{name}.unit: give a text, or a list of texts such as ["km", "kms"]')
    return _Number(value, tolerance, tuple(required_text(unit, f"{name}.unit") for unit in units))


def _number(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise InvalidTask(f"{field}: give a number, without quotes")
    return float(value)


def _tolerance(value: Any, field: str) -> float:
    number = _number(value, field)
    if number < 0:
        raise InvalidTask(f"{field}: give a number that is not negative")
    return number


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False
