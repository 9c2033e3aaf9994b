"""Tables of a Pydantic model's fields: type, bounds, default, and what its docstring says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

Schema = Mapping[str, Any]

_TYPES = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}


def field_table(
    model: type[BaseModel],
    *,
    leave_out: Collection[str] = (),
    meanings: Mapping[str, str] | None = None,
) -> str:
    """Return a model's fields as a table in Markdown; "" if it has none.

    Args:
        model: whose fields.
        leave_out: names of fields.
        meanings: what fields mean, by name; otherwise what the docstrings of the model and its
            bases say of them.
    """
    schema = model.model_json_schema()
    known = {**attributes_of(model), **(meanings or {})}
    required = set(schema.get("required", ()))
    rows: list[tuple[str, ...]] = []
    own_first = sorted(model.model_fields, key=lambda name: name not in model.__annotations__)
    for name in own_first:
        field = model.model_fields[name]
        if name in leave_out:
            continue
        key = field.alias or name
        told = schema["properties"].get(key) or schema["properties"][name]
        default = "required" if key in required else _shown(told.get("default"))
        if field.default_factory:
            default = "empty"
        rows.append((f"`{key}`", type_of(told, schema), default, known.get(name, "")))
    if not rows:
        return ""
    if any(row[3] for row in rows):
        return table(("field", "type", "default", "meaning"), rows)
    return table(("field", "type", "default"), [row[:3] for row in rows])


def table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def attributes_of(model: type) -> dict[str, str]:
    """Return what the docstrings of a class and its bases say of attributes, by name."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        found |= section(base.__dict__.get("__doc__") or "", "Attributes")
    return found


def section(docstring: str, name: str) -> dict[str, str]:
    """Return the entries of a section of a Google-style docstring."""
    text = inspect.cleandoc(docstring).partition(f"\n{name}:\n")[2]
    body = re.split(r"\n(?=\S)", text, maxsplit=1)[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", body, re.MULTILINE)
    return {entry: " ".join(words.split()) for entry, words in entries}


def summary(docstring: str | None) -> str:
    """Return a docstring without its sections (`Attributes:`, `Args:`, …)."""
    text = inspect.cleandoc(docstring or "")
    return re.split(r"\n(?:Attributes|Args|Returns|Raises|Yields):\n", text, maxsplit=1)[0].strip()


def type_of(told: Schema, root: Schema) -> str:
    """Return a JSON schema's type in words, with its bounds."""
    if "$ref" in told:
        name = told["$ref"].rsplit("/", 1)[-1]
        target = root["$defs"][name]
        return type_of(target, root) if "enum" in target else f"`{name}`"
    if "enum" in told:
        return ", ".join(f"`{value}`" for value in told["enum"])
    if "const" in told:
        return f"`{told['const']}`"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in told:
            kinds = list(dict.fromkeys(type_of(kind, root) for kind in told[several]))
            return ("; or " if any("," in kind for kind in kinds) else " or ").join(kinds)
    kind = told.get("type")
    if kind == "array":
        items = told.get("items") or {}
        return f"list of {type_of(items, root) if items else 'anything'}{_bounds(told, 'Items')}"
    if kind == "object" and isinstance(told.get("additionalProperties"), Mapping):
        return f"object of {type_of(told['additionalProperties'], root)}"
    if kind == "string":
        return f"text{_bounds(told, 'Length')}"
    return _TYPES.get(str(kind), "anything") + _range(told)


def _range(told: Schema) -> str:
    lowest, highest = told.get("minimum"), told.get("maximum")
    if lowest is not None and highest is not None:
        return f", {lowest:,} to {highest:,}"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    return "".join(f", {word} {told[key]:,}" for key, word in words.items() if key in told)


def _bounds(told: Schema, what: str) -> str:
    unit = {"Items": "", "Length": " characters"}[what]
    lowest, highest = told.get(f"min{what}"), told.get(f"max{what}")
    if highest is not None:
        return f", {lowest or 0:,} to {highest:,}{unit}"
    if lowest == 1:
        return ", not empty"
    return f", at least {lowest:,}{unit}" if lowest else ""


def _shown(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return f"`{value}`"
        case [] | {}:
            return "empty"
        case dict():
            return ", ".join(f"`{key}: {inner}`" for key, inner in value.items())
    return ", ".join(f"`{inner}`" for inner in value)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " "))
