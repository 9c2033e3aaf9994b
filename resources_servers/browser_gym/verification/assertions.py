"""The assertion language: checks on what a session left behind and on the final answer.

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
| `"answer_equals": "12"` | the whole answer is this text; case, spacing and marks around it do not matter |
| `"answer_exact": "aB-1"` | it is this text to the letter, but for white space around it |
| `"answer_normalised": "Well-known"` | it has the same words; see `answer_text.bare` |
| `"answer_number": 12.5` | it holds one number, this one, up to `tolerance` or `relative_tolerance`; with `unit`, one with this unit; see `answer_number` |
| `"answer_regex": "[A-Z]{3}-\\d+"` | the whole answer, but for white space around it, matches; RE2's syntax |
| `"final_url": "https://a.test/cart"` | the active tab is at this address; see `urls.same_address` |
| `"url_contains": "/cart?id=3"` | its address has this part, as it is or unescaped |
| `"dom_contains": "Order placed"` | its visible text has these words |
| `"dom_contains": {"selector": ".row", "text": "Ada"}` | an element matches, shown or not; with `text`, its text or value has these words |

A place that was added or removed is named itself, not what is inside it: when `crm:log` is new, it
is `/crm:log` that changed, and `/crm:log/0` would not cover it. Lists are compared by index.
"""  # noqa: E501 - a table row cannot be broken

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from resources_servers.browser_gym.verification import answer_checks, page_checks, storage_checks
from resources_servers.browser_gym.verification.checks import Check, State, required_text
from resources_servers.browser_gym.verification.errors import InvalidTask

MAX_SHOWN_CHARS = 1000
"""How long a result's `expected` and `actual` may be, as JSON text; longer ones are cut."""


class CheckKind(NamedTuple):
    """A family of checks.

    Attributes:
        fields: The sets of fields that make one of its checks.
        parse: Reads one, given the assertion and its name for messages.
        words: What there is, for messages.
    """

    fields: tuple[frozenset[str], ...]
    parse: Callable[[dict[str, Any], str], Check]
    words: str


STORAGE = CheckKind(
    storage_checks.FIELDS,
    storage_checks.parse,
    "query with equals, unchanged or equals_initial; only_changed",
)
ANSWER = CheckKind(
    answer_checks.FIELDS,
    answer_checks.parse,
    "answer_contains; answer_equals; answer_exact; answer_normalised; answer_regex; answer_number "
    "with tolerance or relative_tolerance and with unit, where wanted",
)
PAGE = CheckKind(
    page_checks.FIELDS,
    page_checks.parse,
    "final_url; url_contains; dom_contains with a text, or with an object of selector and text",
)


@dataclass(frozen=True)
class Assertion:
    """One assertion of a task."""

    title: str
    category: str | None
    check: Check


def evaluate(assertions: list[Assertion], state: State) -> list[dict[str, Any]]:
    """Judges a task's assertions.

    Args:
        assertions: From `parse_assertions`.
        state: What the session left behind.

    Returns:
        For each assertion, in order: `title`, `category` if it has one, `result` ("pass" or
        "fail"), `expected` and `actual`. They are safe to write as JSON and of bounded size.

    Raises:
        VerifierError: What was kept does not allow a check, such as a query that cannot be
            evaluated over the initial document: the task's or the app's fault, not the model's.
    """
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


def parse_assertions(items: Any, kinds: Iterable[CheckKind] = (STORAGE, ANSWER)) -> list[Assertion]:
    """Reads a task's assertions, each with a check of one of some kinds.

    Raises:
        InvalidTask: Naming the assertion (by title, or index) and the field, and what to do.
    """
    if not isinstance(items, list) or not items:
        raise InvalidTask("assertions: give a list with at least one assertion")
    kinds = tuple(kinds)
    assertions = [_parse_assertion(index, item, kinds) for index, item in enumerate(items)]
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


def _int_of_64_bits(text: str) -> int | str:
    number = int(text)
    return number if -(2**63) <= number < 2**63 else text


_COMMON = {"title", "category"}


def _parse_assertion(index: int, item: Any, kinds: tuple[CheckKind, ...]) -> Assertion:
    name = f"assertions[{index}]"
    if not isinstance(item, dict):
        raise InvalidTask(f"{name}: give a JSON object, not {type(item).__name__}")
    title = required_text(item.get("title"), f"{name}.title")
    name = f"assertions[{index}] ({title!r})"
    category = item.get("category")
    if category is not None:
        category = required_text(category, f"{name}.category")
    keys = item.keys() - _COMMON
    kind = next((kind for kind in kinds if keys in kind.fields), None)
    if kind is None:
        words = "; ".join(kind.words for kind in kinds)
        raise InvalidTask(f"{name}: has {sorted(keys)}; give exactly one check: {words}")
    return Assertion(title, category, kind.parse(item, name))
