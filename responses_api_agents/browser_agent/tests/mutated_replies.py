"""Replies of open-weight models, damaged at random, and whether what they come to was said in them.

A parser must never make up an action: whatever number, text, key or address is in one must stand
in the reply, or be what the family's documents say of a field that is missing.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote_plus

import orjson

from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.keys import UnknownKeyError, normalize_key
from responses_api_agents.browser_agent.policies import policies
from responses_api_agents.browser_agent.policies.base import DEFAULT_NOTCHES, NOTCH_PX, Parsed
from responses_api_agents.browser_agent.policies.frames import Grid, View
from responses_api_agents.browser_agent.tests.policy_examples import EXAMPLES, HEIGHT, WIDTH

MARKS = [
    "<tool_call>", "</tool_call>", "<function=computer_use>", "<parameter=action>",
    "</parameter>", '{"name": "computer_use", "arguments": {', '"action": "left_click"',
    '"coordinate": [1, 1e400]', "Action: ", "\nAction: click(", "point='<point>", "</point>')",
    "<seed:tool_call>", "```python\n", "```", "pyautogui.click(", "x=", "9" * 400,
    "computer.terminate(", "status='success'", "Memory:", "left_click(start_box='",
    "<|begin_of_box|>", '{"action": {"name": "click", "x": -1', "[[[[", "}}", "'''", '"', "\\",
    "\ud800", "\x00", "eval(", "__import__('os')", "NaN", "</think>", "(" * 50,
]  # fmt: skip
"""Pieces of formats, and what no format has."""
_PIECES = [
    *MARKS,
    *"\"'9-\\0,([{]})",
    "null",
    "true",
    "1e9",
    "{}",
    "[]",
    "-",
    ".5",
    " ",
    "\n",
    "\\n",
]
FUNCTION_FAMILIES = ("functions", "functions_per_mille")
_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("click", {"x": 10, "y": 20, "button": "right", "count": 2, "modifiers": ["Shift"]}),
    ("move", {"x": 999, "y": 719.5}),
    ("type", {"text": 'say "hi"\n', "x": 5, "y": 5, "press_enter": True, "clear_first": False}),
    ("scroll", {"x": 10, "y": 20, "dx": 0, "dy": 300}),
    ("drag", {"path": [{"x": 1, "y": 2}, {"x": 30, "y": 40}]}),
    ("key", {"chords": [["Control", "a"], ["Delete"]]}),
    ("wait", {"ms": 500}),
    ("navigate", {"url": "http://site.test/a?b=c"}),
    ("go_back", {}),
    ("switch_tab", {"index": 1}),
]
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[^\s\"'+,;:<>=()\[\]{}]+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([0-7]{1,3})|\\(.)", re.DOTALL)
_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"},
    **{"\n": "", "'": "'", '"': '"', "\\": "\\", "/": "/"},
}
# What a wait takes if the reply does not say: see `policies/README.md`.
_DEFAULT_WAITS_MS = (1000, 2000, 3000, 5000, 20_000)
_WHEEL = (NOTCH_PX, 1)


def mutated(rng: random.Random, texts: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Yield replies without end, each one of `texts` with up to six places damaged.

    Args:
        rng: decides.
        texts: valid replies of a family.
        others: of any family; parts of them get in.
    """
    while True:
        text = rng.choice(texts)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            start = rng.randint(0, len(text))
            end = min(len(text), start + rng.choice((0, 0, 1, 3, 15)))
            piece = rng.choice((rng.choice(_PIECES), chr(rng.randint(0, 0x2FFF)), ""))
            if rng.random() < 0.1:
                other = rng.choice(others)
                cut = rng.randint(0, len(other))
                piece = other[cut : cut + rng.randint(0, 60)]
            text = text[:start] + piece + text[end:]
        yield text


def mutated_replies(policy: str, seed: int) -> Iterator[str]:
    """Yield damaged replies of a family."""
    every = [text for examples in EXAMPLES.values() for _, text, _ in examples]
    own = [text for _, text, _ in EXAMPLES.get(policy, [])]
    if policy in FUNCTION_FAMILIES:
        own = [f"{name} {json.dumps(arguments)}" for name, arguments in _CALLS]
    return mutated(random.Random(f"{policy} {seed}"), own, every)


def outcome(policy: str, reply: str) -> Parsed:
    """Return what a damaged reply comes to."""
    family = policies()[policy]
    if policy not in FUNCTION_FAMILIES:
        return family.parse(reply, WIDTH, HEIGHT)
    name, _, arguments = reply.partition(" ")
    return family.parse_function(name, arguments, WIDTH, HEIGHT)


def check(parsed: Parsed) -> None:
    """Check that a reply comes to something the environment and the next request can take."""
    for action in parsed.actions:
        parse_action(action)
    orjson.dumps([parsed.actions, parsed.answer, parsed.error])
    assert parsed.actions or parsed.error or parsed.answer is not None
    assert parsed.answer is None or not parsed.error
    assert len(parsed.error or "") < 1000


def made_up(policy: str, text: str, parsed: Parsed) -> list[str]:
    """Return what an outcome of a reply has that the reply does not say."""
    reply = _Reply(policy, text)
    wrong = [] if parsed.answer is None or reply.says(parsed.answer) else [repr(parsed.answer)]
    for action in parsed.actions:
        wrong += [f"{action['type']}: {name} {action[name]!r}" for name in reply.unsaid(action)]
    return wrong


class _Reply:
    def __init__(self, policy: str, text: str) -> None:
        self._text = text
        self._plain = _ESCAPE.sub(_unescape, text)
        self._numbers = {float(number) for number in _NUMBER.findall(text + " " + self._plain)}
        # Blanks in the name of a key mean nothing.
        self._keys = _known_keys(self._plain) | _known_keys(re.sub(r"\s", "", self._plain))
        frame = policies()[policy].frame
        self._views = [frame.view(WIDTH, HEIGHT), Grid(1000).view(WIDTH, HEIGHT)]

    def says(self, text: str) -> bool:
        return text in self._text or text in self._plain or text.strip() in self._plain

    def unsaid(self, action: dict[str, Any]) -> list[str]:
        return [name for name in action if not self._said(action["type"], name, action[name])]

    def _said(self, kind: str, name: str, value: Any) -> bool:
        match name:
            case "x":
                return value is None or self._is_said_at(value, "width", "columns")
            case "y":
                return value is None or self._is_said_at(value, "height", "rows")
            case "path":
                points = [point for point in value if point is not None]
                return all(self._said(kind, axis, point[axis]) for point in points for axis in "xy")
            case "text":
                return self.says(value)
            case "url":
                searched = unquote_plus(value.partition("=")[2])
                return self.says(value) or (searched != "" and self.says(searched))
            case "dx" | "dy":
                return self._is_scroll(abs(value))
            case "ms":
                said = any(
                    abs(n * unit - value) <= 0.5 for n in self._numbers for unit in (1, 1000)
                )
                return said or value in _DEFAULT_WAITS_MS
            case "chords":
                return all(self._is_key(key) for chord in value for key in chord)
            case "modifiers":
                return all(self._is_key(key) for key in value)
        return True  # the kind of action, or one of a few words that come with it

    def _is_said_at(self, px: float, side: str, units: str) -> bool:
        def meant(view: View, number: float) -> float:
            length = getattr(view, side)
            return min(number * length / getattr(view, units), length - 1)

        if abs(px) in self._numbers or any(
            abs(meant(view, number) - px) < 1e-6 for view in self._views for number in self._numbers
        ):
            return True
        # The middle of a box.
        pairs = itertools.combinations(self._numbers, 2)
        return any(abs(meant(v, (a + b) / 2) - px) < 1e-6 for a, b in pairs for v in self._views)

    def _is_scroll(self, px: float) -> bool:
        units = [*_WHEEL, *(v.width / v.columns for v in self._views)]
        units += [v.height / v.rows for v in self._views]
        said = any(abs(n * unit - px) < 1e-6 for n in self._numbers for unit in units)
        return said or px in (0, DEFAULT_NOTCHES * NOTCH_PX)

    def _is_key(self, key: str) -> bool:
        return key in self._keys or self.says(key) or key.casefold() in self._plain.casefold()


def _known_keys(text: str) -> set[str]:
    """Return the keys that words of a text are names of."""
    known = set()
    for word in set(_WORD.findall(text)):
        try:
            known.add(normalize_key(word))
        except UnknownKeyError:
            continue
    return known


def _unescape(match: re.Match[str]) -> str:
    if match[4] is not None:
        return _ESCAPES.get(match[4], match[0])
    return chr(int(match[3], 8) if match[3] else int(match[1] or match[2], 16))
