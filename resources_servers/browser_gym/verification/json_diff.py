"""Equality and deep difference of JSON values, and the JSON Pointers that name the places.

Python's own `==` is not JSON's: it holds `True == 1`. Here a bool never equals a number, `1` equals
`1.0`, and NaN equals itself. Nothing here recurses, so deeply nested values cannot exhaust the
stack.
"""

import re
from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
"""Segments of a place in a JSON value: object keys, and list indexes as decimal text."""


def diff_paths(before: Any, after: Any) -> Iterator[Path]:
    """Yields the deepest places where two JSON values differ.

    Objects are compared by key and lists by index. What is only on one side is reported at its own
    place, not per value inside it; so is a value that changed its type.
    """
    waiting: list[tuple[Path, Any, Any]] = [((), before, after)]
    while waiting:
        path, old, new = waiting.pop()
        if old is new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            shared = old.keys() & new.keys()
            yield from ((*path, key) for key in old if key not in shared)
            yield from ((*path, key) for key in new if key not in shared)
            waiting += [((*path, key), old[key], new[key]) for key in old if key in shared]
        elif isinstance(old, list) and isinstance(new, list):
            common = min(len(old), len(new))
            longest = max(len(old), len(new))
            yield from ((*path, str(index)) for index in range(common, longest))
            waiting += [((*path, str(index)), old[index], new[index]) for index in range(common)]
        elif not _same_scalar(old, new):
            yield path


def json_equal(left: Any, right: Any) -> bool:
    """Says whether two JSON values are equal, by the rules of this module."""
    return next(diff_paths(left, right), None) is None


def _same_scalar(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        # NaN is the one value that differs from itself.
        both_nan = left != left and right != right
        return left == right or both_nan
    return type(left) is type(right) and left == right


def to_pointer(path: Path) -> str:
    """Writes a path as a JSON Pointer (RFC 6901): `/` before each segment, `~` and `/` escaped."""
    return "".join("/" + segment.replace("~", "~0").replace("/", "~1") for segment in path)


def parse_pointer(pointer: str) -> Path:
    """Reads a JSON Pointer (RFC 6901).

    Raises:
        ValueError: It does not start with `/`, or holds a `~` that is not `~0` or `~1`.
    """
    if not pointer.startswith("/"):
        raise ValueError("a path starts with '/', for example '/my-key/0/title'")
    if re.search(r"~(?![01])", pointer):
        raise ValueError("write '~' inside a key as '~0' and '/' as '~1'")
    return tuple(
        segment.replace("~1", "/").replace("~0", "~") for segment in pointer[1:].split("/")
    )


def lies_within(path: Path, pattern: Path) -> bool:
    """Says whether a place is at or below a pattern, in which a `*` segment matches any one."""
    return len(path) >= len(pattern) and all(
        wanted in ("*", segment) for wanted, segment in zip(pattern, path, strict=False)
    )
