"""Texts that can be written as UTF-8, of what models and their gateways say.

JSON can hold half of a surrogate pair as an escape, and Python reads it, but no answer of a server
can hold it.
"""

from typing import Any


def whole(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each half of a surrogate pair in its texts and keys."""
    if isinstance(value, str):
        if value.isascii():
            return value
        # Two halves that belong together become their character.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [whole(entry) for entry in value]
    if isinstance(value, dict):
        return {whole(name): whole(entry) for name, entry in value.items()}
    return value
