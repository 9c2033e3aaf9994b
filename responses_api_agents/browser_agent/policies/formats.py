"""The formats that calls come in. Only fixed grammars are read here; nothing is ever evaluated."""

from __future__ import annotations

import re
from typing import Any

import orjson

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.calls import NativeCall

_FUNCTION = re.compile(r"\s*([\w.]{1,100})>")
_NAME = re.compile(r"\s*([A-Za-z_][\w.]*)\s*")
_STRING = re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'" + r'|"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.\d{0,20})?(?![\w.])")
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_BETWEEN = re.compile(r"(?:[\s;]|#[^\n]*)*")
_ESCAPE = re.compile(
    r"\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))",
    re.DOTALL | re.ASCII,
)
# Python's; it keeps the backslash of any other.
_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"},
    **{"\n": "", "'": "'", '"': '"', "\\": "\\"},
}
_CONSTANTS = {"True": True, "False": False, "None": None}


def without_thinking(text: str) -> str:
    """Return a reply without the reasoning before it, if that is not taken out yet."""
    return text.rpartition("</think>")[2]


def blocks(text: str, opening: str, closing: str) -> tuple[str, list[str]]:
    """Return the text before the first block, and what is in each.

    The last one may lack its end: a reply does not hold the stop string that ended it.
    """
    said, *rest = text.split(opening)
    return said, [part.partition(closing)[0] for part in rest]


def json_object(text: str) -> dict[str, Any]:
    """Return a JSON object, which may stand in a fence.

    Raises:
        UnusableCall: it is none.
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        text = text[3:-3].removeprefix("json")
    try:
        # It refuses what the next request could not hold: NaN, half surrogate pairs, great depth.
        value = orjson.loads(text)
    except ValueError as error:
        raise UnusableCall(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UnusableCall("this is not a JSON object")
    return value


def json_call(text: str) -> NativeCall:
    """Return the call of `{"name": …, "arguments": {…}}`.

    Raises:
        UnusableCall: it is none.
    """
    value = json_object(text)
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UnusableCall("a call has a name, and its arguments are an object")
    return NativeCall(name, arguments)


def xml_calls(text: str) -> list[NativeCall]:
    """Return the calls of `<function=NAME><parameter=NAME>VALUE</parameter>…</function>`.

    All values are texts. A line break after the opening mark and before the closing one is none
    of the value's.

    Raises:
        UnusableCall: there is none, or one has no name.
    """
    _, functions = blocks(text, "<function=", "</function>")
    if not functions:
        raise UnusableCall("there is no <function=…> in the call")
    calls = []
    for function in functions:
        head, *parameters = function.split("<parameter=")
        match = _FUNCTION.match(head)
        if not match:
            raise UnusableCall("a call starts with <function=NAME>")
        _check_nothing_between(match[1], head[match.end() :])
        fields = {}
        for parameter in parameters:
            name, mark, value = parameter.partition(">")
            if not mark:
                raise UnusableCall(f"{match[1]}: a parameter starts with <parameter=NAME>")
            value, _, between = value.partition("</parameter>")
            _check_nothing_between(match[1], between)
            fields[name.strip()] = value.removeprefix("\n").removesuffix("\n")
        calls.append(NativeCall(match[1], fields))
    return calls


def _check_nothing_between(call: str, text: str) -> None:
    # A parameter with a mistake in its mark would be lost, and the call mean something else.
    if text.strip():
        raise UnusableCall(
            f"{call}: only <parameter=NAME>…</parameter> can be in it, not {text!r:.60}"
        )


def code_calls(code: str) -> list[NativeCall]:
    """Return the calls of lines such as `click(x=3, y=4, 'left')`.

    A value is a text, a number, True, False, None, or a list of these. Fields without a name are
    named by their position: `0`, `1`, …

    Raises:
        UnusableCall: there is anything else.
    """
    calls = []
    position = _end(_BETWEEN, code, 0)
    while position < len(code):
        call, position = _code_call(code, position)
        calls.append(call)
        position = _end(_BETWEEN, code, position)
    return calls


def first_code_call(code: str) -> NativeCall:
    """Return the call that a text starts with, whatever follows it.

    Raises:
        UnusableCall: it does not start with one.
    """
    return _code_call(code, 0)[0]


def _code_call(code: str, position: int) -> tuple[NativeCall, int]:
    match = _NAME.match(code, position)
    if not match or not code.startswith("(", match.end()):
        raise UnusableCall(f"only calls can be run, not {code[position : position + 60]!r}")
    name, fields = match[1], {}
    position = _end(_SPACE, code, match.end() + 1)
    while not code.startswith(")", position):
        field = str(len(fields))
        named = _NAME.match(code, position)
        if named and code.startswith("=", named.end()):
            field, position = named[1], _end(_SPACE, code, named.end() + 1)
        if field in fields:
            raise UnusableCall(f"{name}: {field!r} is given twice")
        fields[field], position = _value(name, code, position)
        position = _end(_SPACE, code, position)
        if code.startswith(",", position):
            position = _end(_SPACE, code, position + 1)
        elif not code.startswith(")", position):
            raise UnusableCall(f"{name}: the call is not closed, or holds more than plain values")
    return NativeCall(name, fields), position + 1


def _value(name: str, code: str, position: int) -> tuple[Any, int]:
    """Return the value that stands here, and where it ends."""
    if code.startswith(("[", "("), position):
        closing = "]" if code[position] == "[" else ")"
        entries = []
        position = _end(_SPACE, code, position + 1)
        while not code.startswith(closing, position):
            entry, position = _scalar(name, code, position)
            entries.append(entry)
            position = _end(_SPACE, code, position)
            if code.startswith(",", position):
                position = _end(_SPACE, code, position + 1)
            elif not code.startswith(closing, position):
                raise UnusableCall(f"{name}: a list is not closed, or holds more than plain values")
        return entries, position + 1
    return _scalar(name, code, position)


def _scalar(name: str, code: str, position: int) -> tuple[Any, int]:
    if match := _STRING.match(code, position):
        text = match[1] if match[1] is not None else match[2]
        return _ESCAPE.sub(_unescaped, text), match.end()
    if match := _NUMBER.match(code, position):
        return float(match[0]), match.end()
    match = _NAME.match(code, position)
    if match and match[1] in _CONSTANTS:
        return _CONSTANTS[match[1]], match.end(1)
    raise UnusableCall(f"{name}: {code[position : position + 60]!r} is no plain value")


def _unescaped(escape: re.Match[str]) -> str:
    *codes, octal, other = escape.groups()
    if other is not None:
        return _ESCAPES.get(other, escape[0])
    code = int(octal, 8) if octal else int(next(filter(None, codes)), 16)
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise UnusableCall(f"{escape[0]} is no character")
    return chr(code)


def _end(pattern: re.Pattern[str], code: str, position: int) -> int:
    match = pattern.match(code, position)
    return match.end() if match else position
