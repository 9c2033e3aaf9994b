"""The assertion language: checks on what a session left in localStorage and on the final answer.

An assertion is a JSON object with a `title` (unique in its task), optionally a `category`, and one
check. Queries are JMESPath over the document of `storage_document`: `{storage key: parsed value}`
of the start origin. A key that is not a plain word is quoted: `"crm:leads"[0].phone`.

| check | passes when |
|---|---|
| `"query": Q, "equals": V` | Q over the final document gives V |
| `"query": Q, "unchanged": true` | Q gives the same over the initial and the final document |
| `"query": Q, "equals_initial": P` | Q over the final document gives what P gives over the initial |
| `"only_changed": ["/crm:leads/3/phone", "/crm:log"]` | every place that differs between the initial and the final document is at or below one of these JSON Pointers; a `*` segment matches any one; `[]` means that nothing changed |
| `"answer_contains": ["Ada", "12"]` | each text is in the answer as words or numbers of their own |
| `"answer_equals": "12"` | the whole answer is this text |

A place that was added or removed is named itself, not what is inside it: when `crm:log` is new, it
is `/crm:log` that changed, and `/crm:log/0` would not cover it. Lists are compared by index.
"""  # noqa: E501 - a table row cannot be broken

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from resources_servers.browser_gym.verification import answer_text
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.json_diff import (
    Path,
    diff_paths,
    json_equal,
    lies_within,
    parse_pointer,
    to_pointer,
)
from resources_servers.browser_gym.verification.queries import Query, QueryError
from resources_servers.browser_gym.verification.storage_document import parse_document

MAX_SHOWN_CHARS = 1000
"""How long a result's `expected` and `actual` may be, as JSON text; longer ones are cut."""
MAX_SHOWN_PATHS = 20
"""How many of the places that should not have changed a result names."""


class State:
    """What assertions are judged on: both documents and the answer."""

    def __init__(self, initial: Mapping[str, str], final: Mapping[str, str], answer: str) -> None:
        self.initial = parse_document(initial)
        self.final = parse_document(final)
        self.answer = answer

    @cached_property
    def changed(self) -> list[Path]:
        """Every place that differs between the two documents, in order."""
        return sorted(diff_paths(self.initial, self.final))


@dataclass(frozen=True)
class Outcome:
    """A check's result, with what was wanted and what was there, both JSON values."""

    passed: bool
    expected: Any
    actual: Any


class Check(Protocol):
    """The part of an assertion that decides."""

    def judge(self, state: State) -> Outcome:
        """Judges the state; raises `VerifierError` if the initial document does not allow it."""
        ...


@dataclass(frozen=True)
class Assertion:
    """One assertion of a task."""

    title: str
    category: str | None
    check: Check


@dataclass(frozen=True)
class _Equals:
    query: Query
    value: Any

    def judge(self, state: State) -> Outcome:
        return _compare(self.query, state, self.value)


@dataclass(frozen=True)
class _EqualsInitial:
    query: Query
    initial_query: Query

    def judge(self, state: State) -> Outcome:
        try:
            expected = self.initial_query.search(state.initial)
        except QueryError as error:
            raise VerifierError(
                f"the query {self.initial_query.text!r} cannot be evaluated over the localStorage "
                f"that the session started with: {error}"
            ) from error
        return _compare(self.query, state, expected)


@dataclass(frozen=True)
class _OnlyChanged:
    allowed: tuple[Path, ...]

    def judge(self, state: State) -> Outcome:
        others = [
            to_pointer(path)
            for path in state.changed
            if not any(lies_within(path, pattern) for pattern in self.allowed)
        ]
        shown = others[:MAX_SHOWN_PATHS]
        if len(others) > MAX_SHOWN_PATHS:
            shown.append(f"and {len(others) - MAX_SHOWN_PATHS} more")
        expected = {"only_changed": [to_pointer(pattern) for pattern in self.allowed]}
        return Outcome(not others, expected, {"also_changed": shown})


@dataclass(frozen=True)
class _AnswerContains:
    texts: tuple[str, ...]

    def judge(self, state: State) -> Outcome:
        passed = all(answer_text.contains(state.answer, text) for text in self.texts)
        return Outcome(passed, list(self.texts), state.answer)


@dataclass(frozen=True)
class _AnswerEquals:
    text: str

    def judge(self, state: State) -> Outcome:
        return Outcome(answer_text.equals(state.answer, self.text), self.text, state.answer)


def evaluate(
    assertions: list[Assertion],
    initial: Mapping[str, str],
    final: Mapping[str, str],
    answer: str,
) -> list[dict[str, Any]]:
    """Judges a task's assertions.

    Args:
        assertions: From `parse_assertions`.
        initial: {storage key: text} of the start origin when the session started.
        final: The same at the end.
        answer: The model's final message, "" if there was none.

    Returns:
        For each assertion, in order: `title`, `category` if it has one, `result` ("pass" or
        "fail"), `expected` and `actual`. They are safe to write as JSON and of bounded size.

    Raises:
        VerifierError: A query cannot be evaluated over the initial document, which is the task's
            or the app's fault, not the model's.
    """
    state = State(initial, final, answer)
    results: list[dict[str, Any]] = []
    for assertion in assertions:
        outcome = assertion.check.judge(state)
        result: dict[str, Any] = {"title": assertion.title}
        if assertion.category is not None:
            result["category"] = assertion.category
        result["result"] = "pass" if outcome.passed else "fail"
        result["expected"] = shown_value(outcome.expected)
        result["actual"] = shown_value(outcome.actual)
        results.append(result)
    return results


def parse_assertions(items: Any) -> list[Assertion]:
    """Reads a task's assertions.

    Raises:
        InvalidTask: Naming the assertion (by title, or index) and the field, and what to do.
    """
    if not isinstance(items, list) or not items:
        raise InvalidTask("assertions: give a list with at least one assertion")
    assertions = [_parse_assertion(index, item) for index, item in enumerate(items)]
    titles: set[str] = set()
    for index, assertion in enumerate(assertions):
        if assertion.title in titles:
            raise InvalidTask(
                f"assertions[{index}].title: {assertion.title!r} is used twice; make it unique"
            )
        titles.add(assertion.title)
    return assertions


def shown_value(value: Any) -> Any:
    """Returns a copy of a value for a report: valid JSON in UTF-8 and at most MAX_SHOWN_CHARS.

    What is longer becomes the beginning of its JSON text. Integers beyond 64 bits and NaN become
    text and unpaired surrogates `?`, since JSON writers refuse them.
    """
    pieces: list[str] = []
    length = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_SHOWN_CHARS:
                break
    except RecursionError:
        length = MAX_SHOWN_CHARS + 1
    text = "".join(pieces).encode("utf-8", "replace").decode("utf-8")
    if length > MAX_SHOWN_CHARS:
        return f"{text[:MAX_SHOWN_CHARS]}… (cut)"
    return json.loads(text, parse_int=_int_of_64_bits, parse_constant=str)


def _compare(query: Query, state: State, expected: Any) -> Outcome:
    """A query that fails over the final document fails its check: the model left it so."""
    try:
        actual = query.search(state.final)
    except QueryError as error:
        return Outcome(False, expected, f"the query cannot be evaluated: {error}")
    return Outcome(json_equal(actual, expected), expected, actual)


def _int_of_64_bits(text: str) -> int | str:
    number = int(text)
    return number if -(2**63) <= number < 2**63 else text


_COMMON = {"title", "category"}
_CHECKS = (
    {"query", "equals"},
    {"query", "unchanged"},
    {"query", "equals_initial"},
    {"only_changed"},
    {"answer_contains"},
    {"answer_equals"},
)


def _parse_assertion(index: int, item: Any) -> Assertion:
    name = f"assertions[{index}]"
    if not isinstance(item, dict):
        raise InvalidTask(f"{name}: give a JSON object, not {type(item).__name__}")
    title = _text(item.get("title"), f"{name}.title")
    name = f"assertions[{index}] ({title!r})"
    category = item.get("category")
    if category is not None:
        category = _text(category, f"{name}.category")
    keys = item.keys() - _COMMON
    if keys not in _CHECKS:
        raise InvalidTask(
            f"{name}: has {sorted(keys)}; give exactly one check: query with equals, unchanged or "
            "equals_initial; only_changed; answer_contains; or answer_equals"
        )
    return Assertion(title, category, _parse_check(item, keys, name))


def _parse_check(item: dict[str, Any], keys: set[str], name: str) -> Check:
    if "equals" in keys:
        return _Equals(_query(item, "query", name), item["equals"])
    if "unchanged" in keys:
        if item["unchanged"] is not True:
            raise InvalidTask(f"{name}.unchanged: only true has a meaning; give true")
        query = _query(item, "query", name)
        return _EqualsInitial(query, query)
    if "equals_initial" in keys:
        return _EqualsInitial(_query(item, "query", name), _query(item, "equals_initial", name))
    if "only_changed" in keys:
        return _OnlyChanged(_pointers(item["only_changed"], f"{name}.only_changed"))
    if "answer_contains" in keys:
        texts = item["answer_contains"]
        if not isinstance(texts, list) or not texts:
            raise InvalidTask(f"{name}.answer_contains: give a list with at least one text")
        return _AnswerContains(tuple(_text(text, f"{name}.answer_contains") for text in texts))
    text = _text(item["answer_equals"], f"{name}.answer_equals")
    if not answer_text.strip_punctuation(text):
        raise InvalidTask(f"{name}.answer_equals: give a text with a letter or digit in it")
    return _AnswerEquals(text)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidTask(f"{field}: give a text that is not empty")
    return value


def _query(item: dict[str, Any], key: str, name: str) -> Query:
    text = _text(item[key], f"{name}.{key}")
    try:
        return Query(text)
    except ValueError as error:
        raise InvalidTask(f"{name}.{key}: {error}") from error


def _pointers(value: Any, field: str) -> tuple[Path, ...]:
    if not isinstance(value, list) or not all(isinstance(pointer, str) for pointer in value):
        raise InvalidTask(f"{field}: give a list of JSON Pointers, [] if nothing may change")
    try:
        return tuple(parse_pointer(pointer) for pointer in value)
    except ValueError as error:
        raise InvalidTask(f"{field}: {error}") from error
