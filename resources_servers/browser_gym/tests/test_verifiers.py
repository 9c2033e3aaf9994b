import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from resources_servers.browser_gym.task_row import TaskRow
from resources_servers.browser_gym.tests.fake_gym import (
    ACTUAL,
    EXPECTED,
    FakeGym,
    answer,
    dropping_address,
    hang,
    refusing_address,
)
from resources_servers.browser_gym.verification import gym_api, gym_client
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.gym_api import (
    CategoryLookup,
    GymApiVerifier,
    categories_by_title,
)
from resources_servers.browser_gym.verification.gym_client import GymClient
from resources_servers.browser_gym.verification.verifiers import Verifiers

ORIGIN = "http://127.0.0.1:8777"
PASS = {"title": "saved", "category": "form", "result": "pass", "expected": 1, "actual": 1}
FAIL = {"title": "tidy", "category": "form", "result": "fail", "expected": 1, "actual": 2}
VERDICT = {"taskId": "T-1", "prompt": "p", "assertions": [PASS]}
NOW = {"Retry-After": "0"}


@pytest.fixture
async def verifiers() -> AsyncIterator[Verifiers]:
    made = Verifiers(verify_timeout_s=20)
    yield made
    await made.aclose()


def evidence(
    final: dict[str, str] | None = None,
    initial: dict[str, str] | None = None,
    answer: str = "",
) -> Evidence:
    other = {"http://other.test": {"secret": "1"}}
    return Evidence(
        ORIGIN, {ORIGIN: initial or {}, **other}, {ORIGIN: final or {}, **other}, answer
    )


async def ask(gym_url: str, verifiers: Verifiers, seen: Evidence | None = None) -> Verdict:
    row = {"task_id": "T-1", "gym_url": gym_url, "verifier": "gym_api"}
    return await verifiers.parse_verifier(row).verify(seen or evidence({"a": "1"}))


# Choosing a verifier


GYM_ROW = {"task_id": "T-1", "gym_url": "http://127.0.0.1:8777/"}
LOCAL_ROW = {"start_url": f"{ORIGIN}/crm/", "verifier": "local_storage"}
CHECK = {"title": "t", "query": "a", "equals": 1}


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (GYM_ROW, "gym_api"),
        ({**GYM_ROW, "verifier": "gym_api"}, "gym_api"),
        ({**GYM_ROW, "assertions": [CHECK]}, "gym_api"),
        ({**LOCAL_ROW, "assertions": [CHECK]}, "local_storage"),
        ({"verifier": "local_storage", "assertions": [CHECK]}, "local_storage"),
        ({**GYM_ROW, "verifier": "local_storage", "assertions": [CHECK]}, "local_storage"),
    ],
)
def test_a_row_gets_the_verifier_it_asks_for(row: dict[str, Any], name: str, verifiers: Verifiers):
    assert verifiers.parse_verifier(row).name == name


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "verifier: missing"),
        ({"start_url": ORIGIN}, "verifier: missing; give one of local_storage, gym_api"),
        ({"gym_url": ORIGIN}, "verifier: missing"),
        ({"start_url": ORIGIN, "task_id": "T-1"}, "verifier: missing"),
        ({**GYM_ROW, "verifier": "gymapi"}, "verifier: unknown 'gymapi'; one of local_storage"),
        ({**LOCAL_ROW}, r"verifier_metadata\.assertions: give a list"),
        ({**LOCAL_ROW, "assertions": []}, "at least one assertion"),
        ({**LOCAL_ROW, "assertions": [{"title": "t"}]}, r"assertions\[0\] \('t'\)"),
        ({"start_url": ORIGIN, "verifier": "gym_api", "task_id": "T"}, "gym_url: gym_api needs"),
        ({"gym_url": ORIGIN, "verifier": "gym_api"}, "task_id: gym_api needs"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused_at_once(
    row: dict[str, Any], message: str, verifiers: Verifiers
):
    with pytest.raises(InvalidTask, match=message):
        verifiers.parse_verifier(row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start_url": None, "gym_url": None}, r"verifier_metadata\.start_url: missing"),
        ({"start_url": "/crm"}, r"verifier_metadata\.start_url: give a full web address"),
        ({"start_url": "file:///etc/passwd"}, r"verifier_metadata\.start_url"),
        ({"start_url": "http://h:99999/"}, r"start_url: not a web address"),
        ({"gym_url": "localhost:80"}, r"verifier_metadata\.gym_url"),
        ({"task_id": 3}, r"verifier_metadata\.task_id: .*, not 3"),
        ({"task_id": ""}, r"verifier_metadata\.task_id"),
        ({"viewport": [1, 2]}, r"verifier_metadata\.viewport: give a JSON object, not \[1, 2\]"),
        ({"viewport": {"width": 800}}, r"verifier_metadata\.viewport\.height: Field required"),
        ({"viewport": {"width": 0, "height": 1}}, r"viewport\.width: .*, not 0"),
        ({"viewport": {"width": 99, "height": 720}}, r"viewport\.width: .*100, not 99"),
        ({"viewport": {"width": 800, "height": 4097}}, r"viewport\.height: .*4096, not 4097"),
        ({"viewport": {"width": True, "height": 1}}, r"viewport\.width: .*, not True"),
        ({"category": ["a"]}, r"verifier_metadata\.category"),
    ],
)
def test_a_malformed_row_names_its_field(change: dict[str, Any], message: str):
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "p"}]},
        "verifier_metadata": {**GYM_ROW, **change},
    }

    with pytest.raises(InvalidTask, match=message):
        TaskRow.parse(row)


@pytest.mark.parametrize("value", ["", [], None, ["text"], {"role": "user"}])
def test_a_row_without_a_task_text_is_refused(value: Any):
    row = {"responses_create_params": {"input": value}, "verifier_metadata": GYM_ROW}

    with pytest.raises(InvalidTask, match=r"responses_create_params\.input: give the task's text"):
        TaskRow.parse(row)


def test_a_row_starts_at_its_gym_and_keeps_fields_of_others():
    row = TaskRow.parse(
        {
            "responses_create_params": {"input": "p", "temperature": 1.0},
            "verifier_metadata": {**GYM_ROW, "note": "mine"},
            "agent_ref": {"name": "a"},
        }
    )

    assert row.verifier_metadata.start_url == GYM_ROW["gym_url"]
    assert row.verifier_metadata.model_extra == {"note": "mine"}
    assert row.model_extra == {"agent_ref": {"name": "a"}}


# The verdict


@pytest.mark.parametrize(
    ("results", "reward", "partial_credit"),
    [([], 0.0, 0.0), ([PASS], 1.0, 1.0), ([PASS, FAIL], 0.0, 0.5), ([FAIL], 0.0, 0.0)],
)
def test_only_a_full_pass_is_rewarded(
    results: list[dict[str, Any]], reward: float, partial_credit: float
):
    verdict = Verdict.of(results)

    assert verdict.to_json() == {
        "reward": reward,
        "partial_credit": partial_credit,
        "assertions": results,
    }


async def test_local_storage_grades_the_start_origin_and_the_answer(verifiers: Verifiers):
    verifier = verifiers.parse_verifier(
        {
            **LOCAL_ROW,
            "assertions": [
                {"title": "set", "query": "a", "equals": 2},
                {"title": "only that", "only_changed": ["/a"]},
                {"title": "other origins", "query": "secret", "equals": None},
                {"title": "told", "answer_contains": ["done"]},
            ],
        }
    )

    good = await verifier.verify(evidence({"a": "2"}, {"a": "1"}, "Done!"))
    bad = await verifier.verify(evidence({"a": "2", "b": "3"}, {"a": "1"}, "Done!"))

    assert good.reward == 1.0
    assert (bad.reward, bad.partial_credit) == (0.0, 0.75)
    assert bad.assertions[1]["actual"] == {"also_changed": ["/b"]}


# The gym's verdict


async def test_the_gym_gets_both_states_and_the_answer(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer({**VERDICT, "assertions": [PASS, FAIL]}))
    final, initial = {"a": "x\u2028\ud800", "ü": "🚀"}, {"a": "0"}

    verdict = await ask(f"{gym.url}/", verifiers, evidence(final, initial, "Fertig 🚀"))

    [(method, form)] = gym.requests[ACTUAL]
    assert method == "POST"
    assert form["taskId"] == "T-1"
    assert form["modelResponse"] == "Fertig 🚀"
    name, media_type, content = form["localStorageDump"]
    assert (name, media_type) == ("localStorageDump.json", "application/json")
    assert json.loads(content) == final
    name, media_type, content = form["initialState"]
    assert (name, media_type) == ("initialState.json", "application/json")
    assert json.loads(content) == initial
    assert verdict == Verdict(0.0, 0.5, [PASS, FAIL])
    assert gym.count(EXPECTED) == 0


async def test_what_is_empty_is_not_sent(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer(VERDICT))

    await ask(gym.url, verifiers, evidence())

    [(_, form)] = gym.requests[ACTUAL]
    assert form.keys() == {"taskId", "localStorageDump"}
    assert json.loads(form["localStorageDump"][2]) == {}


async def test_an_answer_that_is_not_valid_unicode_is_still_sent(
    gym: FakeGym, verifiers: Verifiers
):
    gym.set(ACTUAL, answer(VERDICT))

    await ask(gym.url, verifiers, evidence(answer="half \ud83d"))

    assert gym.requests[ACTUAL][0][1]["modelResponse"] == "half ?"


async def test_no_assertions_earn_nothing(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer({**VERDICT, "assertions": []}))

    assert await ask(gym.url, verifiers) == Verdict(0.0, 0.0, [])


async def test_huge_values_of_a_gym_are_cut(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer({"assertions": [{**PASS, "actual": "x" * 1_000_000}]}))

    verdict = await ask(gym.url, verifiers)

    assert len(verdict.assertions[0]["actual"]) < 2000


# Faults that pass


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_transient_status_is_tried_again(status: int, gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer("busy", status, NOW), answer(VERDICT))

    assert (await ask(gym.url, verifiers)).reward == 1.0
    assert gym.count(ACTUAL) == 2
    assert gym.requests[ACTUAL][0] == gym.requests[ACTUAL][1]


async def test_without_retry_after_it_is_tried_again_soon(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer("", 503), answer(VERDICT))

    assert (await ask(gym.url, verifiers)).reward == 1.0


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_honoured(form: str, gym: FakeGym, verifiers: Verifiers):
    async def come_back_later(request: Request) -> Response:
        # A date is in whole seconds, so up to one of the three is lost.
        then = datetime.fromtimestamp(int(time.time()) + 3, UTC)
        wait = "2" if form == "seconds" else format_datetime(then, usegmt=True)
        return answer("", 429, {"Retry-After": wait})

    gym.set(ACTUAL, come_back_later, answer(VERDICT))
    start = time.monotonic()

    await ask(gym.url, verifiers)

    assert time.monotonic() - start >= 1.9, "without it, the first pause is below one second"


async def test_a_long_retry_after_is_bounded(
    gym: FakeGym, verifiers: Verifiers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gym_client, "MAX_RETRY_AFTER_S", 0.05)
    gym.set(ACTUAL, answer("", 429, {"Retry-After": "86400"}), answer(VERDICT))

    assert (await ask(gym.url, verifiers)).reward == 1.0


async def test_retries_end(gym: FakeGym, verifiers: Verifiers):
    gym.set(ACTUAL, answer("closed for the day", 503, NOW))

    with pytest.raises(VerifierError, match="HTTP 503: 'closed for the day'") as raised:
        await ask(gym.url, verifiers)

    assert raised.value.fault.kind == "verifier_error"
    assert gym.count(ACTUAL) == 4


async def test_a_refused_connection_is_unreachable():
    client = GymClient(max_attempts=2)
    with (
        refusing_address() as url,
        pytest.raises(VerifierError, match="could not connect") as raised,
    ):
        await client.grade(url, "T-1", {}, {}, "")
    await client.aclose()

    assert raised.value.fault.kind == "transport_unreachable"
    assert url in str(raised.value)


async def test_a_dropped_connection_is_tried_again():
    client = GymClient(max_attempts=2)
    with (
        dropping_address() as (url, received),
        pytest.raises(VerifierError, match="the connection broke") as raised,
    ):
        await client.grade(url, "T-1", {}, {}, "")
    await client.aclose()

    assert raised.value.fault.kind == "transport_peer_drop"
    assert len(received) == 2


# Faults that stay: an error each, at the first answer


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer("no such task", 404), "HTTP 404: 'no such task'"),
        (answer("Traceback: boom", 500), "HTTP 500: 'Traceback: boom'"),
        (answer("", 500), r"HTTP 500: \(empty body\)"),
        (answer("", 405), "HTTP 405"),
        (answer("", 301, {"Location": "https://new.test/"}), "redirects to https://new.test/"),
        (answer("<html>Welcome</html>"), "not JSON .*<html>Welcome"),
        (answer(""), "not JSON"),
        (answer("[" * 100_000), "not JSON"),
        (answer('{"assertions": [], "assertions": []}'), "'assertions' occurs twice"),
        (answer([PASS]), "JSON that is not an object"),
        (answer({"verdict": "pass"}), "without an 'assertions' list"),
        (answer({"assertions": {"a": PASS}}), "without an 'assertions' list"),
        (answer({"assertions": [PASS, "pass"]}), r"assertions\[1\] lacks a title or a result"),
        (answer({"assertions": [{"title": "t", "result": "error"}]}), r"assertions\[0\] lacks"),
        (answer({"assertions": [{"title": "t", "result": True}]}), r"assertions\[0\] lacks"),
        (answer({"assertions": [{"result": "pass"}]}), r"assertions\[0\] lacks a title"),
    ],
)
async def test_a_fault_is_an_error_and_not_tried_again(
    reply: Response, message: str, gym: FakeGym, verifiers: Verifiers
):
    gym.set(ACTUAL, reply)

    with pytest.raises(VerifierError, match=message) as raised:
        await ask(gym.url, verifiers)

    assert raised.value.fault.kind == "verifier_error"
    assert len(str(raised.value)) < 600
    assert gym.count(ACTUAL) == 1


async def test_a_gym_that_hangs_is_left_after_the_time_bound(gym: FakeGym):
    verifiers = Verifiers(verify_timeout_s=0.3)
    gym.set(ACTUAL, hang)

    with pytest.raises(VerifierError, match=r"no answer within 0\.3 s") as raised:
        await ask(gym.url, verifiers)
    await verifiers.aclose()

    assert raised.value.fault.kind == "transport_timeout"


async def test_cancelling_a_verdict_is_not_swallowed(gym: FakeGym, verifiers: Verifiers):
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def tell_and_hang(request: Request) -> Response:
        loop.call_soon_threadsafe(asked.set)
        return await hang(request)

    gym.set(ACTUAL, tell_and_hang)
    task = asyncio.create_task(ask(gym.url, verifiers))
    await asked.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


# Categories


UNSORTED = {"title": "saved", "result": "pass"}
TASKS = {
    "T-1": {"assertions": [{"title": "saved", "category": "form"}, {"title": "odd"}]},
    "T-2": {"assertions": [{"title": "saved", "category": "form"}]},
    "T-3": {"assertions": [{"title": "both", "category": "a"}, {"title": "both", "category": "b"}]},
    "T-4": "not an object",
    "T-5": {"assertions": None},
    "T-6": {"assertions": ["text", {"title": 3, "category": "x"}, {"title": "n", "category": 4}]},
}


def test_a_title_with_two_categories_has_none():
    assert categories_by_title(TASKS) == {"saved": "form"}


async def test_missing_categories_are_joined_by_title(gym: FakeGym, verifiers: Verifiers):
    own = {"title": "saved", "category": "mine", "result": "pass"}
    unknown = {"title": "unheard of", "result": "pass"}
    gym.set_tasks(TASKS)
    gym.set(ACTUAL, answer({"assertions": [UNSORTED, own, unknown]}))

    for _ in range(2):
        verdict = await ask(gym.url, verifiers)
        assert [one.get("category") for one in verdict.assertions] == ["form", "mine", None]
        assert "category" not in verdict.assertions[2]

    assert gym.count(EXPECTED) == 1


async def test_the_task_list_is_read_with_get_where_post_is_not_allowed(
    gym: FakeGym, verifiers: Verifiers
):
    gym.set(EXPECTED, answer({"verifiers": TASKS}), method="GET")
    gym.set(ACTUAL, answer({"assertions": [UNSORTED]}))

    assert (await ask(gym.url, verifiers)).assertions[0]["category"] == "form"
    assert [method for method, _ in gym.requests[EXPECTED]] == ["POST", "GET"]


async def test_categories_are_asked_for_again_after_a_while(gym: FakeGym):
    now = 0.0
    client = GymClient()
    lookup = CategoryLookup(client, clock=lambda: now)
    gym.set_tasks(TASKS)

    assert await lookup.of_gym(gym.url) == {"saved": "form"}
    now = gym_api.CATEGORIES_KEPT_S - 1
    gym.set(EXPECTED, answer("boom", 500))
    assert await lookup.of_gym(gym.url) == {"saved": "form"}
    assert gym.count(EXPECTED) == 1

    now = gym_api.CATEGORIES_KEPT_S + 1
    assert await lookup.of_gym(gym.url) == {"saved": "form"}, "what was known is kept"
    assert gym.count(EXPECTED) == 2
    now += gym_api.CATEGORIES_RETRY_S - 1
    await lookup.of_gym(gym.url)
    assert gym.count(EXPECTED) == 2

    now += 2
    gym.set_tasks({"T-9": {"assertions": [{"title": "new", "category": "x"}]}})
    assert await lookup.of_gym(gym.url) == {"new": "x"}
    await client.aclose()


async def test_a_task_list_that_fails_neither_fails_nor_serialises_verdicts(
    gym: FakeGym, verifiers: Verifiers
):
    together = 3
    everyone = asyncio.Barrier(together)

    async def fail_once_all_have_asked(request: Request) -> Response:
        await everyone.wait()
        return answer("down", 500)

    gym.set(EXPECTED, fail_once_all_have_asked)
    gym.set(ACTUAL, answer({"assertions": [UNSORTED]}))

    verdicts = await asyncio.gather(*(ask(gym.url, verifiers) for _ in range(together)))
    later = await ask(gym.url, verifiers)

    assert verdicts == [Verdict(1.0, 1.0, [UNSORTED])] * together
    assert later == verdicts[0]
    assert gym.count(EXPECTED) == together, "one that failed is not asked again at once"


async def test_a_task_list_that_hangs_is_left(
    gym: FakeGym, verifiers: Verifiers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gym_api, "CATEGORIES_TIMEOUT_S", 0.2)
    gym.set(EXPECTED, hang)
    gym.set(ACTUAL, answer({"assertions": [UNSORTED]}))

    assert (await ask(gym.url, verifiers)).reward == 1.0


# Connections


async def test_closing_closes_the_connections_and_closing_twice_is_harmless(gym: FakeGym):
    gym.set(ACTUAL, answer(VERDICT))
    client = GymClient()
    verifier = GymApiVerifier(gym.url, "T-1", client, CategoryLookup(client))
    await client.aclose()
    await verifier.verify(evidence())
    http = client._opened_http
    assert http is not None

    await client.aclose()
    await client.aclose()

    assert http.is_closed


async def test_a_proxy_in_the_environment_is_not_used_for_loopback(
    gym: FakeGym, verifiers: Verifiers, monkeypatch: pytest.MonkeyPatch
):
    with refusing_address() as nobody:
        monkeypatch.setenv("HTTP_PROXY", nobody)
        monkeypatch.setenv("ALL_PROXY", nobody)
        monkeypatch.delenv("NO_PROXY", raising=False)
        gym.set(ACTUAL, answer(VERDICT))

        assert (await ask(gym.url, verifiers)).reward == 1.0
