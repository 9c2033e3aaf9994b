"""Makes malformed requests from the resources server's own OpenAPI document, and judges answers.

Beside them runs a session that none of them may disturb, although they name it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from resources_servers.browser_gym.task_row import VerifierMetadata

# What NeMo Gym reads by rules of its own: a number in quotes passes there, for one.
_FOREIGN = ("response", "responses_create_params", "verify_responses")
# How often a route is asked, and with what share of the odd requests: aggregating takes long, and a
# seed that is taken opens a browser.
_WEIGHTS = {"/step": 4, "/seed_session": 3, "/verify": 2}
_ODD = {"/seed_session": 0.01, "/aggregate_metrics": 0.02}
_BIG = 10**400
_JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, _BIG, 0.5, -0.0, 1e308, -1e-308),
    *("", " ", "x", "null", "1", "0.5", "true", "\x00", "\r\n", "é", "\U0001f600", "\ufeff"),
    *("x" * 5000, "../../etc/passwd", "javascript:alert(1)", "http://[", "http://a:99999/"),
    *("%00", "{{7*7}}", "'; --", "__proto__", "Infinity", "2026-13-45T99:99", "\u202eabc"),
    *([], {}, [[]], [None], [{}], {"": ""}, {"__proto__": {}}, {"type": "click"}, [1] * 300),
)
_RAW: tuple[bytes, ...] = (
    *(
        b"",
        b"{",
        b"[",
        b'"',
        b"nul",
        b"\x00",
        b"\xff\xfe{}",
        b"{}{}",
        b"{'a':1}",
    ),
    *(b'{"a":NaN}', b'{"a":1e999}', b'{"a":"\\ud800"}', b'{"a":01}', b'{"a":1,}', b'{"a":"\x01"}'),
    *(b"[" * 200 + b"]" * 200, b'{"a":' * 5000, b"9" * 5000, b"--x\r\n\r\n", b"a=1&b=2"),
)


def _is_number(_: Any, value: Any) -> bool:
    """Whether a value is read as a number: models write `"300"`, which is taken for 300."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float)


def _is_boolean(_: Any, value: Any) -> bool:
    """Whether a value is read as true or false: `"yes"` and 1 are."""
    return isinstance(value, str | int | float) and str(value).lower() in _BOOLEANS


def _bound(keyword: str) -> Any:
    """Return the check of a bound that also takes a number in quotes."""
    check: Any = Draft202012Validator.VALIDATORS[keyword]

    def check_number(validator: Any, limit: float, value: Any, schema: Any) -> Any:
        quoted = isinstance(value, str) and _is_number(None, value)
        return check(validator, limit, float(value) if quoted else value, schema)

    return check_number


_BOOLEANS = (
    *("true", "t", "yes", "y", "on", "1", "1.0"),
    *("false", "f", "no", "n", "off", "0", "0.0"),
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_Schema = extend(
    Draft202012Validator,
    {keyword: _bound(keyword) for keyword in _BOUNDS},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"number": _is_number, "integer": _is_number, "boolean": _is_boolean}
    ),
)
METADATA: dict[str, Any] = {
    "task_id": "T",
    "start_url": "about:blank",
    "viewport": {"width": 800, "height": 600},
    "verifier": "local_storage",
    "category": "c",
    "assertions": [{"title": "t", "query": "a", "equals": 1}, {"title": "u", "only_changed": []}],
    "browser": {
        "local_storage": {"http://127.0.0.1:1": {"a": "b"}},
        "session_storage": {"http://127.0.0.1:1": {"a": "b"}},
        "cookies": [{"name": "a", "value": "b", "url": "http://127.0.0.1:1", "sameSite": "Lax"}],
        "headers": {"X-A": "b"},
        "http_credentials": {"username": "a", "password": "b"},
        "locale": "de-DE",
        "timezone": "Europe/Berlin",
        "geolocation": {"latitude": 1, "longitude": 2},
        "permissions": ["geolocation"],
        "color_scheme": "dark",
        "reduced_motion": True,
        "clock": "step",
        "time": "2026-03-01T09:00:00Z",
        "random_seed": 1,
        "allowed_origins": ["http://127.0.0.1:2"],
        "allowed_hosts": ["*.example.org"],
        "ignore_tls_errors": False,
        "files": {"a.txt": {"text": "x"}},
    },
}
GRADED: dict[str, Any] = {
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
    "reward": 1,
    "mask_sample": False,
    "failure_kind": None,
    "termination_reason": "finished",
    "category": "c",
    "partial_credit": 0.5,
    "response": {"usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
}
ACTIONS: list[dict[str, Any]] = [
    {"type": "click", "x": 1, "y": 2, "button": "left", "count": 2, "modifiers": ["Shift"]},
    {"type": "move", "x": 1, "y": 2},
    {"type": "mouse_down", "x": 1, "y": 2, "button": "left"},
    {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "button": "left"},
    {"type": "scroll", "x": 1, "y": 2, "dx": 3, "dy": 4},
    {"type": "type", "text": "a", "x": 1, "y": 2, "clear_first": True, "press_enter": False},
    {"type": "key", "chords": [["Control", "a"]], "repeat": 2},
    {"type": "hold_key", "keys": ["a"], "duration_ms": 10},
    {"type": "wait", "ms": 1},
    {"type": "navigate", "url": "about:blank"},
    {"type": "new_tab", "url": "about:blank"},
    {"type": "switch_tab", "index": 0},
    {"type": "close_tab", "tab_id": "tab-1"},
    {"type": "zoom", "region": {"x0": 0, "y0": 0, "x1": 20, "y1": 20}},
    {"type": "find", "query": "a"},
    {"type": "set_value", "x": 1, "y": 2, "value": "a"},
    *({"type": t} for t in ("go_back", "go_forward", "reload", "list_tabs", "screenshot")),
    *({"type": t} for t in ("page_text", "list_elements", "cursor_position")),
]


@dataclass(frozen=True)
class Case:
    """One request.

    Attributes:
        malformed: whether the OpenAPI document (or the definition of a row) forbids its body.
        what: was done to a body that it allows.
    """

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    malformed: bool
    what: str


@dataclass
class Tally:
    """What came of the cases so far.

    Attributes:
        malformed: how many of them were malformed.
        steps: that the session beside took.
        faults: one line for each answer that is not as it should be.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    steps: int = 0
    faults: list[str] = field(default_factory=list)

    def judge(self, case: Case, answer: httpx.Response) -> None:
        """Count an answer."""
        self.statuses[f"{case.path} {answer.status_code}"] += 1
        self.malformed += case.malformed
        if problem := _problem(case, answer):
            request = f"{case.method} {case.path} {case.what} {case.body[:300]!r}"
            self.faults.append(f"{problem}: {request} -> {answer.status_code} {answer.text[:300]}")


class Fuzzer:
    """An endless, repeatable stream of requests."""

    def __init__(self, openapi: dict[str, Any], seed: int, env_id: str, response: Any) -> None:
        """Make requests for the POST routes of a document.

        Args:
            openapi: the server's document.
            seed: the same one gives the same requests.
            env_id: of a session that no malformed request may disturb.
            response: a model's response that `/verify` takes.
        """
        self._random = random.Random(seed)
        self._env_id = env_id
        self._row = _Schema(VerifierMetadata.model_json_schema())
        self._schemas: dict[str, Any] = {}
        for path, operations in openapi["paths"].items():
            if "requestBody" in operations.get("post", {}):
                schema = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
                self._schemas[path] = _Schema(schema | {"components": openapi["components"]})
        row = {"responses_create_params": {"input": []}, "verifier_metadata": METADATA}
        self._bases: dict[str, list[Any]] = {path: [{"env_id": env_id}] for path in self._schemas}
        self._bases["/seed_session"] = [
            {"start_url": "about:blank", "viewport_width": 800, "viewport_height": 600},
            {"verifier_metadata": METADATA},
            row,
        ]
        self._bases["/step"] = [
            {"env_id": env_id, "actions": ACTIONS[:3], "operation_id": "fuzz"},
            *({"env_id": env_id, "action": action} for action in ACTIONS),
        ]
        self._bases["/verify"] = [
            row | {"env_id": env_id, "final_answer": "a", "response": response},
        ]
        self._bases["/dump_local_storage"] = [{"env_id": env_id, "include": ["cookies"]}]
        self._bases["/aggregate_metrics"] = [
            {"verify_responses": [GRADED, GRADED | {"_ng_rollout_index": 1}]}
        ]

    def __iter__(self) -> Iterator[Case]:
        """Yield requests without end: malformed ones, and a few that are only odd."""
        while True:
            case = self._next()
            if case.malformed or self._random.random() < _ODD.get(case.path, 0.1):
                yield case

    def _next(self) -> Case:
        paths = list(self._schemas)
        path = self._random.choices(paths, [_WEIGHTS.get(p, 1) for p in paths])[0]
        headers = {"content-type": "application/json"}
        body = copy.deepcopy(self._random.choice(self._bases[path]))
        kind = self._random.random()
        if kind < 0.04:
            return Case("POST", path, self._random.choice(_RAW), headers, True, "raw")
        if kind < 0.08:
            raw = json.dumps(body).encode()
            raw = raw[: self._random.randrange(1, len(raw))]
            return Case("POST", path, raw, headers, True, "cut")
        if kind < 0.1:
            method = self._random.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
            return Case(method, path, json.dumps(body).encode(), headers, True, "method")
        done = [self._change(body) for _ in range(self._random.choice([1, 1, 1, 2, 3]))]
        if self._random.random() < 0.02:
            body, done = self._random.choice(_JUNK), ["body"]
        malformed = self._is_malformed(path, body)
        if isinstance(body, dict) and not malformed and body.get("env_id") == self._env_id:
            body["env_id"] = "nobody"  # it may act
        if isinstance(body, dict) and not malformed and path == "/close_session":
            body["session_id"] = "nobody"
        return Case("POST", path, json.dumps(body).encode(), headers, malformed, " ".join(done))

    def _change(self, body: Any) -> str:
        """Change a body at one place; return what was done."""
        spots = list(_spots(body))
        if not spots:
            return "nothing"
        owner, key = self._random.choice(spots)
        kind = self._random.random()
        if kind < 0.6:
            owner[key] = copy.deepcopy(self._random.choice(_JUNK))
            return f"{key}={str(owner[key])[:40]!r}"
        if kind < 0.75:
            del owner[key]
            return f"no {key}"
        if kind < 0.85:
            owner[key] = [owner[key]] * self._random.choice([1, 2, 200])
            return f"list of {key}"
        if kind < 0.95 and isinstance(owner, dict):
            owner[self._random.choice(["extra", "Type", "", "x" * 300])] = 1
            return "extra key"
        if isinstance(owner, dict):
            name = self._random.choice([str(key).upper(), f"{key} ", f"{key}\x00"])
            owner[name] = owner.pop(key)
            return f"{key} as {name!r}"
        return "nothing"

    def _is_malformed(self, path: str, body: Any) -> bool:
        errors = self._schemas[path].iter_errors(body)
        if any(not (error.path and error.path[0] in _FOREIGN) for error in errors):
            return True
        metadata = body.get("verifier_metadata") if isinstance(body, dict) else None
        return path == "/seed_session" and metadata is not None and not self._row.is_valid(metadata)


_MAX_UNSURE = 20


async def fuzz(
    http: httpx.AsyncClient, site: str, response: Any, *, count: int, seed: int
) -> Tally:
    """Send requests until `count` malformed ones are answered.

    Args:
        http: a client of the resources server.
        site: base URL of the test pages.
        response: a model's response that `/verify` takes.
        count: of malformed requests.
        seed: the same one gives the same requests.
    """
    openapi = (await http.get("/openapi.json")).json()
    opened = await http.post("/seed_session", json={"start_url": f"{site}/counter.html"})
    env_id = opened.raise_for_status().json()["env_id"]
    tally = Tally()
    cases = iter(Fuzzer(openapi, seed, env_id, response))
    done, unsure = False, 0

    async def send() -> None:
        while tally.malformed < count:
            case = next(cases)
            http.cookies.clear()  # one would name a session where the body names none
            answer = await http.request(
                case.method, case.path, content=case.body, headers=case.headers
            )
            tally.judge(case, answer)
            if case.path == "/seed_session" and answer.status_code == 200:
                await http.post("/close", json={"env_id": answer.json()["env_id"]})

    async def step_along() -> None:
        nonlocal unsure
        click = {"type": "click", "x": 100, "y": 50}
        # One step at least, also if all requests are answered before the page gets its turn.
        while not done or (not tally.steps and unsure < _MAX_UNSURE):
            answer = await http.post("/step", json={"env_id": env_id, "action": click})
            if answer.status_code != 200:
                tally.faults.append(f"the session beside was disturbed: {answer.text[:300]}")
                return
            # On a machine with too much to do, a page is refused as busy now and then, or does not
            # respond in time: then it may have been clicked or not.
            tally.steps += answer.json()["error"] is None
            unsure += answer.json()["error"] is not None

    beside = asyncio.create_task(step_along())
    try:
        await asyncio.gather(*(send() for _ in range(4)))
    finally:
        done = True
        await beside
    stored = (await http.post("/dump_local_storage", json={"env_id": env_id})).json()
    clicks = int(json.loads(stored["local_storage_dump"]).get("count", "0"))
    if not tally.steps <= clicks <= tally.steps + unsure:
        tally.faults.append(f"the session beside saw {clicks} clicks, not {tally.steps}")
    closed = await http.post("/close", json={"env_id": env_id})
    if not closed.json()["success"]:
        tally.faults.append(f"the session beside was closed: {closed.text}")
    return tally


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a JSON value: its owner and its key there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _spots(value[key])


def _problem(case: Case, answer: httpx.Response) -> str | None:
    """Return what is wrong with an answer, if anything is."""
    status = answer.status_code
    if status == 500 or (case.malformed and status >= 500):
        return "a fault of the server"
    if case.malformed and not 400 <= status < 500:
        return "a malformed request was taken"
    if status < 400:
        return None
    try:
        told = answer.json()
    except ValueError:
        return "no JSON"
    if not isinstance(told, dict):
        return "no object"
    detail = told.get("detail", told.get("failure_reason"))
    if isinstance(detail, list):
        if all(error.get("loc") and error.get("msg") for error in detail) and detail:
            return None
        return "no field"
    return None if isinstance(detail, str) and detail else "no message"
