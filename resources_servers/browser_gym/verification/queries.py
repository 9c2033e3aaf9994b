"""JMESPath queries over a storage document, checked when the task is read, not when it is graded.

The language is JMESPath (https://jmespath.org/specification.html) with one more function,
`from_json(text)`: the value of a JSON text held inside a string, or null if it is not JSON.
"""

from typing import Any, cast

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError

from resources_servers.browser_gym.verification.storage_document import parse_json


class _Functions(functions.Functions):
    @functions.signature({"types": ["string"]})
    def _func_from_json(self, text: str) -> Any:
        try:
            return parse_json(text)
        except ValueError:
            return None


MAX_ERROR_CHARS = 300

_OPTIONS = jmespath.Options(custom_functions=_Functions())
_TABLE: dict[str, Any] = _Functions.FUNCTION_TABLE


class QueryError(Exception):
    """A query cannot be evaluated over this document, such as the length of a missing list."""


class Query:
    """A compiled query.

    Raises:
        ValueError: It is not JMESPath, or calls a function that does not exist or with too few or
            too many arguments.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._compiled = jmespath.compile(text)
        except JMESPathError as error:
            raise ValueError(f"not a JMESPath query: {' '.join(str(error).split())}") from error
        _check_node(cast(dict[str, Any], self._compiled.parsed))

    def search(self, document: Any) -> Any:
        """Returns the value the query finds, None where there is nothing.

        Raises:
            QueryError: A function got a value of a type it does not take.
        """
        try:
            return self._compiled.search(document, options=_OPTIONS)
        # JMESPath's own errors are ValueErrors; numbers and depth of a page's making give the rest.
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            # The error may quote the whole document.
            text = str(error)
            text = text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}…"
            raise QueryError(f"{type(error).__name__}: {text}") from error


def _check_node(node: dict[str, Any], parent: str = "") -> None:
    """Finds at once what JMESPath would find only when the part concerned is reached."""
    kind = node["type"]
    if kind == "expref" and parent != "function_expression":
        raise ValueError("'&' may only stand before a function's argument")
    if kind == "function_expression":
        _check_call(node["value"], len(node["children"]))
    for child in node["children"]:
        if isinstance(child, dict):
            _check_node(child, kind)


def _check_call(name: str, given: int) -> None:
    if name not in _TABLE:
        raise ValueError(f"no function {name}(); there are: {', '.join(sorted(_TABLE))}")
    parameters = _TABLE[name]["signature"]
    variadic = bool(parameters) and parameters[-1].get("variadic", False)
    if given < len(parameters) or (given > len(parameters) and not variadic):
        least = "at least " if variadic else ""
        raise ValueError(f"{name}() takes {least}{len(parameters)} argument(s), not {given}")
