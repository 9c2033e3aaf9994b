"""Raw bodies: whatever they hold, the answer is JSON, names the field, and is never a 500."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Client
from resources_servers.browser_gym.strict_json import MAX_DEPTH, find_problem

ROUTES = ("/step", "/seed_session", "/verify", "/close", "/dump_local_storage")

# What each route takes, with $ where a value of the test goes, and how its field is written.
FIELDS = [
    ("/step", '{"env_id": $, "action": {"type": "screenshot"}}', "env_id"),
    ("/step", '{"action": $}', "action"),
    ("/step", '{"actions": [$]}', "actions.0"),
    ("/step", '{"actions": $}', "actions"),
    ("/step", '{"action": {"type": $}}', "action"),
    ("/step", '{"action": {"type": "click", "x": $, "y": 1}}', "action.click.x"),
    ("/step", '{"action": {"type": "click", "x": 1, "y": 1, "button": $}}', "action.click.button"),
    ("/step", '{"action": {"type": "drag", "path": [{"x": 1, "y": $}]}}', "action.drag.path.0.y"),
    ("/step", '{"action": {"type": "wait", "ms": $}}', "action.wait.ms"),
    ("/step", '{"action": {"type": "type", "text": $}}', "action.type.text"),
    ("/step", '{"action": {"type": "key", "chords": [[$]]}}', "action.key.chords.0.0"),
    ("/step", '{"action": {"type": "screenshot"}, "operation_id": $}', "operation_id"),
    ("/seed_session", '{"start_url": $}', "start_url"),
    ("/seed_session", '{"start_url": "about:blank", "viewport_width": $}', "viewport_width"),
    ("/seed_session", '{"verifier_metadata": $}', "verifier_metadata"),
    ("/seed_session", '{"verifier_metadata": {"assertions": $}}', "verifier_metadata"),
    ("/verify", '{"verifier_metadata": {"a": $}, "response": $}', "response"),
    ("/verify", '{"verifier_metadata": {}, "env_id": $}', "env_id"),
    ("/verify", '{"verifier_metadata": {}, "responses_create_params": $}', "responses_create"),
    ("/close", '{"env_id": $}', "env_id"),
    ("/dump_local_storage", '{"include": $}', "include"),
    ("/dump_local_storage", '{"include": [$]}', "include.0"),
    ("/dump_local_storage", '{"env_id": $}', "env_id"),
]
# No field takes these.
VALUES = {
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "overflow": "1e999",
    "lone surrogate": '"\\ud800"',
    "surrogate in a key": '{"\\udfff": 1}',
    "thousands of digits": "9" * 4000,
    "too many digits to read": "9" * 5000,
    "deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "very deep": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "an object of nothing known": '{"nothing": [null]}',
}
# These no field takes either, but for the dictionaries, and those get no session from them.
BARE = ["null", "true", "5", '"text"', "[]", "[[]]", "NaN", '"\\ud800"', "9" * 400, "1e400", "{"]


async def refused(client: Client, route: str, body: bytes | str, **headers: str) -> dict[str, Any]:
    answer = await client.http.post(
        route, content=body, headers={"content-type": "application/json", **headers}
    )
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)
    return answer.json()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize(("route", "template", "field"), FIELDS)
async def test_what_no_field_takes_is_refused_by_name(
    client: Client, route: str, template: str, field: str, value: str
) -> None:
    answer = await refused(client, route, template.replace("$", value))
    if "detail" in answer:
        told = [".".join(map(str, error["loc"])) + " " + error["msg"] for error in answer["detail"]]
        unreadable = value == VALUES["too many digits to read"] or value == VALUES["very deep"]
        wanted = ("body",) if unreadable else (field.split(".")[0], field.split(".")[-1])
        assert any(part in text for text in told for part in wanted), told
    else:
        assert field.split(".")[-1] in answer["failure_reason"]


@pytest.mark.parametrize("route", ROUTES)
async def test_bodies_that_are_no_object_or_no_json(client: Client, route: str) -> None:
    for body in BARE:
        assert "detail" in await refused(client, route, body)
    for body in (b"\xff\xfe{}", b'{"a": "\xff"}', b"{'a': 1}", b"", b"[" * 100_000):
        assert "detail" in await refused(client, route, body)
    await refused(client, route, b"\xff\x00", **{"content-type": "application/octet-stream"})


async def test_numbers_at_the_ends_of_their_range(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/second.html"))["env_id"]
    for number in ("1e308", "-1e308", "9" * 300, "-0.0", "1e-400"):
        body = f'{{"env_id": "{env_id}", "action": {{"type": "move", "x": {number}, "y": 1}}}}'
        answer = await client.http.post(
            "/step", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200
        inside = number in ("-0.0", "1e-400")
        assert (answer.json()["error"] is None) is inside


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(JSON)
def test_clean_json_is_let_through(value: Any) -> None:
    assert find_problem(json.dumps(value).encode()) is None


@settings(max_examples=50)
@given(JSON, st.sampled_from(["NaN", "Infinity", '"\\udc00"', '{"\\ud83d": 0}', "1e999"]))
def test_what_is_not_clean_is_found_wherever_it_is(value: Any, broken: str) -> None:
    body = f'{{"clean": {json.dumps(value)}, "rest": [{{"at": {broken}}}]}}'
    problem = find_problem(body.encode())
    assert problem is not None
    assert problem[0] == ("rest", 0, "at")
