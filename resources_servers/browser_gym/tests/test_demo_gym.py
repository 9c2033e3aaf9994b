"""The demo gym's tasks, its grading API and its life within another program's event loop."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from pydantic import ValidationError

from resources_servers.browser_gym.demo_gym import server, tasks
from resources_servers.browser_gym.demo_gym.tasks import Task, load_tasks, seed_state
from resources_servers.browser_gym.verification.assertions import evaluate
from resources_servers.browser_gym.verification.checks import State

ROOT = Path(__file__).parents[3]
SOLUTIONS = json.loads((Path(tasks.__file__).parent / "solutions.json").read_text("utf-8"))
TASK_IDS = list(load_tasks())

ACTION_FIELDS = {
    "click": {"x", "y", "button"},
    "double_click": {"x", "y"},
    "drag": {"path"},
    "keypress": {"keys"},
    "move": {"x", "y"},
    "screenshot": set(),
    "scroll": {"x", "y", "scroll_x", "scroll_y"},
    "type": {"text"},
}


@pytest.fixture(scope="module")
async def gym() -> AsyncIterator[httpx.AsyncClient]:
    async with server.running() as url, httpx.AsyncClient(base_url=url) as client:
        yield client


def part(value: Any) -> tuple[str, str, str]:
    text = value if isinstance(value, str) else json.dumps(value)
    return ("storage.json", text, "application/json")


async def grade(
    gym: httpx.AsyncClient, task_id: str, files: dict[str, Any], **data: str
) -> httpx.Response:
    parts = {name: part(value) for name, value in files.items()}
    return await gym.post("/api/v1/get_actual_state", data={"taskId": task_id, **data}, files=parts)


def storage(**changes: Any) -> dict[str, str]:
    """The seed with some leads' fields changed: `storage(L_1003={"phone": "1"})`."""
    leads = json.loads(seed_state()["crm:leads"])
    for name, fields in changes.items():
        leads[name.replace("_", "-")] |= fields
    return {**seed_state(), "crm:leads": json.dumps(leads)}


def results(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [assertion["result"] for assertion in answer.json()["assertions"]]


# ---- tasks ----


def test_every_category_has_tasks():
    counts = Counter(task.category for task in load_tasks().values())

    assert set(counts) == set(get_args(tasks.Category))
    assert counts.total() >= 20


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_doing_nothing_never_scores(task_id: str):
    assertions = load_tasks()[task_id].parsed_assertions()

    outcome = [r["result"] for r in evaluate(assertions, State(seed_state(), seed_state(), ""))]

    assert "fail" in outcome


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_start_page_exists(task_id: str):
    page = tasks.STATIC_DIR / load_tasks()[task_id].start_path.strip("/") / "index.html"

    assert page.is_file()
    assert page.parent.name == load_tasks()[task_id].app


def test_a_task_without_a_check_for_other_changes_is_refused():
    entry = load_tasks()["CRM-01"].model_dump()
    entry["assertions"] = [a for a in entry["assertions"] if "only_changed" not in a]

    with pytest.raises(ValidationError, match="only_changed"):
        Task.model_validate(entry)


def test_a_task_with_a_malformed_assertion_is_refused():
    entry = load_tasks()["CRM-01"].model_dump()
    entry["assertions"][0]["query"] = "leads["

    with pytest.raises(ValidationError, match=r"assertions\[0\].*query"):
        Task.model_validate(entry)


def test_an_id_used_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entry = json.dumps([load_tasks()["CRM-01"].model_dump()])
    (tmp_path / "a.json").write_text(entry)
    (tmp_path / "b.json").write_text(entry)
    monkeypatch.setattr(tasks, "TASKS_DIR", tmp_path)

    with pytest.raises(ValueError, match=r"b\.json.*CRM-01 is used twice"):
        load_tasks.__wrapped__()


# ---- scripted solutions ----


def test_every_task_has_a_solution_and_two_are_failed_on_purpose():
    assert list(SOLUTIONS) == TASK_IDS
    failed = [i for i, solution in SOLUTIONS.items() if solution["expected_reward"] == 0]
    assert len(failed) == 2


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_solution_is_what_a_model_could_reply(task_id: str):
    solution = SOLUTIONS[task_id]
    *turns, last = solution["turns"]

    assert solution["prompt"] == load_tasks()[task_id].prompt
    assert 1 <= len(turns) <= 5
    assert set(last) == {"answer"}
    for turn in turns:
        if "function" in turn:
            assert turn["function"]["name"] in {"switch_tab", "close_tab", "go_back"}
            continue
        assert turn["actions"]
        for action in turn["actions"]:
            fields = {key: value for key, value in action.items() if key != "type"}
            assert set(fields) == ACTION_FIELDS[action["type"]]
            points = action.get("path", [action] if "x" in fields else [])
            assert all(type(p["x"]) is int and 0 <= p["x"] < 1280 for p in points)
            assert all(type(p["y"]) is int and 0 <= p["y"] < 720 for p in points)


# ---- API ----


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_expected_state_lists_tasks_without_what_they_expect(
    gym: httpx.AsyncClient, method: str
):
    answer = await gym.request(
        method, "/api/v1/get_expected_state", headers={"content-type": "application/json"}
    )

    verifiers = answer.json()["verifiers"]
    assert list(verifiers) == TASK_IDS
    assert verifiers["CRM-01"] == {
        "prompt": load_tasks()["CRM-01"].prompt,
        "start_url": f"{gym.base_url}/crm/",
        "viewport_size": {"width": 1280, "height": 720},
        "browser": {"clock": "step"},
        "category": "form",
        "assertions": [
            {"title": "Priya Raman has the new phone number", "category": "goal"},
            {"title": "Nothing but this phone number changed", "category": "no other change"},
        ],
    }
    for verifier in verifiers.values():
        assert all(set(a) == {"title", "category"} for a in verifier["assertions"])


async def test_a_wanted_change_passes(gym: httpx.AsyncClient):
    final = storage(L_1003={"phone": "+44 20 7946 0811"})

    answer = await grade(gym, "CRM-01", {"localStorageDump": final, "initialState": seed_state()})

    body = answer.json()
    assert body["taskId"] == "CRM-01"
    assert body["prompt"] == load_tasks()["CRM-01"].prompt
    assert body["assertions"][0] == {
        "title": "Priya Raman has the new phone number",
        "category": "goal",
        "result": "pass",
        "expected": "+44 20 7946 0811",
        "actual": "+44 20 7946 0811",
    }
    assert results(answer) == ["pass", "pass"]


async def test_another_change_fails_its_own_assertion(gym: httpx.AsyncClient):
    final = storage(L_1003={"phone": "+44 20 7946 0811"}, L_1004={"status": "Lost"})

    answer = await grade(gym, "CRM-01", {"localStorageDump": final, "initialState": seed_state()})

    assert results(answer) == ["pass", "fail"]


async def test_the_seed_stands_in_for_a_missing_initial_state(gym: httpx.AsyncClient):
    final = storage(L_1003={"phone": "+44 20 7946 0811"})

    assert results(await grade(gym, "CRM-01", {"localStorageDump": final})) == ["pass", "pass"]


async def test_changes_count_from_the_initial_state_sent(gym: httpx.AsyncClient):
    initial = storage(L_1004={"status": "Lost"})
    final = storage(L_1003={"phone": "+44 20 7946 0811"}, L_1004={"status": "Lost"})

    answer = await grade(gym, "CRM-01", {"localStorageDump": final, "initialState": initial})

    assert results(answer) == ["pass", "pass"]


async def test_the_answer_is_graded(gym: httpx.AsyncClient):
    files = {"localStorageDump": seed_state()}

    right = await grade(gym, "BRD-06", files, modelResponse="4.")
    wrong = await grade(gym, "BRD-06", files, modelResponse="14")

    assert (results(right), results(wrong)) == (["pass", "pass"], ["fail", "pass"])


@pytest.mark.parametrize(
    ("task_id", "files", "status", "words"),
    [
        ("NOPE-01", {"localStorageDump": {}}, 404, "'NOPE-01' is unknown"),
        ("", {"localStorageDump": {}}, 400, "taskId is missing"),
        ("CRM-01", {"other": {}}, 400, "localStorageDump is missing"),
        ("CRM-01", {"localStorageDump": "{"}, 400, "localStorageDump is not JSON"),
        ("CRM-01", {"localStorageDump": "[1]"}, 400, "not a JSON object of texts"),
        ("CRM-01", {"localStorageDump": {"a": 1}}, 400, "not a JSON object of texts"),
        ("CRM-01", {"localStorageDump": {}, "initialState": "x"}, 400, "initialState is not JSON"),
    ],
)
async def test_a_faulty_request_is_told_what_is_wrong(
    gym: httpx.AsyncClient, task_id: str, files: dict[str, Any], status: int, words: str
):
    answer = await grade(gym, task_id, files)

    assert answer.status_code == status
    assert words in answer.json()["detail"]


async def test_a_body_that_is_no_form_is_told_what_is_wrong(gym: httpx.AsyncClient):
    answer = await gym.post("/api/v1/get_actual_state", json={"taskId": "CRM-01"})

    assert answer.status_code == 400
    assert "taskId is missing" in answer.json()["detail"]


async def test_the_front_page_lists_apps_and_tasks(gym: httpx.AsyncClient):
    page = (await gym.get("/")).text

    assert f"{len(TASK_IDS)} tasks" in page
    for task_id in TASK_IDS:
        assert task_id in page
    assert "Chef&#x27;s Knife" in page


@pytest.mark.parametrize("path", ["/tasks/crm.json", "/solutions.json", "/../tasks/crm.json"])
async def test_what_tasks_expect_is_not_served(gym: httpx.AsyncClient, path: str):
    assert (await gym.get(path)).status_code == 404


# ---- running it ----


async def test_a_taken_port_is_named():
    async with server.running() as url:
        port = int(url.rsplit(":", 1)[1])
        with pytest.raises(RuntimeError, match=f"port {port}: Address already in use"):
            async with server.running(port=port):
                pass


async def test_it_stops_after_an_error_and_frees_its_port():
    urls = []

    async def fail() -> None:
        async with server.running() as url:
            urls.append(url)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    port = int(urls[0].rsplit(":", 1)[1])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    async with server.running(port=port):
        pass


async def test_it_stops_when_the_caller_is_cancelled():
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with server.running() as url:
            started.set_result(url)
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    port = int((await started).rsplit(":", 1)[1])
    holding.cancel()

    with pytest.raises(asyncio.CancelledError):
        await holding
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_it_leaves_signal_handlers_alone():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async with server.running() as url, httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/crm/")).status_code == 200
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def start_alone(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "resources_servers.browser_gym.demo_gym", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_alone_it_prints_its_address_and_ends_with_ctrl_c():
    process = start_alone("--port", "0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        assert "Demo gym" in httpx.get(url).text
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")


def test_alone_on_a_taken_port_it_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start_alone("--port", str(port))
        _, errors = process.communicate(timeout=100)

    assert process.returncode == 1
    assert errors.startswith(f"error: cannot serve the demo gym on 127.0.0.1 port {port}")
    assert "--port PORT" in errors
    assert "Traceback" not in errors
