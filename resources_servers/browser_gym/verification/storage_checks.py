"""Checks on what a session left in the start origin's localStorage."""

from dataclasses import dataclass
from typing import Any

from resources_servers.browser_gym.verification.checks import Check, Outcome, State, required_text
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.json_diff import (
    Path,
    json_equal,
    lies_within,
    parse_pointer,
    to_pointer,
)
from resources_servers.browser_gym.verification.queries import Query, QueryError

MAX_SHOWN_PATHS = 20
"""How many of the places that should not have changed a result names."""

FIELDS = (
    frozenset({"query", "equals"}),
    frozenset({"query", "unchanged"}),
    frozenset({"query", "equals_initial"}),
    frozenset({"only_changed"}),
)


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


def parse(item: dict[str, Any], name: str) -> Check:
    """Reads a check whose fields are in `FIELDS`; raises `InvalidTask` naming the field."""
    if "equals" in item:
        return _Equals(_query(item, "query", name), item["equals"])
    if "unchanged" in item:
        if item["unchanged"] is not True:
            raise InvalidTask(f"{name}.unchanged: only true has a meaning; give true")
        query = _query(item, "query", name)
        return _EqualsInitial(query, query)
    if "equals_initial" in item:
        return _EqualsInitial(_query(item, "query", name), _query(item, "equals_initial", name))
    return _OnlyChanged(_pointers(item["only_changed"], f"{name}.only_changed"))


def _compare(query: Query, state: State, expected: Any) -> Outcome:
    """A query that fails over the final document fails its check: the model left it so."""
    try:
        actual = query.search(state.final)
    except QueryError as error:
        return Outcome(False, expected, f"the query cannot be evaluated: {error}")
    return Outcome(json_equal(actual, expected), expected, actual)


def _query(item: dict[str, Any], key: str, name: str) -> Query:
    text = required_text(item[key], f"{name}.{key}")
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
