"""`browser-gym replay`, on a real rollout and on ones that are not what they were."""

import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from browser_gym.cli import app
from responses_api_agents.browser_agent.tests.stack import (
    running_agent,
    served_environment,
    served_script,
)

Json = dict[str, Any]

PROMPT = "Count to three."
CLICK = {"type": "click", "button": "left", "x": 100, "y": 50}
TURNS = [
    {"actions": [CLICK]},
    {"actions": [{"type": "double_click", "x": 100, "y": 50, "keys": None}]},
    {"answer": "3"},
]


@pytest.fixture(scope="module")
def environment_url() -> Iterator[str]:
    with served_environment() as url:
        yield url


@pytest.fixture(scope="module")
async def row(
    site: str, environment_url: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Json, Path]:
    """A rollout of the agent, and the folder its screenshots are relative to."""
    folder = tmp_path_factory.mktemp("rollout")
    scripts = folder / "scripts.json"
    scripts.write_text(json.dumps({"COUNT": {"prompt": PROMPT, "turns": TURNS}}))
    metadata = {
        "task_id": "COUNT",
        "start_url": f"{site}/counter.html",
        "viewport": {"width": 640, "height": 400},
        "browser": {"cookies": [{"name": "sid", "value": "secret", "url": site}]},
        "verifier": "local_storage",
        "assertions": [{"title": "three", "query": "count", "equals": 3}],
    }
    task = {
        "responses_create_params": {"input": [{"role": "user", "content": PROMPT}]},
        "verifier_metadata": metadata,
    }
    (folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    with served_script(scripts) as model:
        async with running_agent(environment_url, model, folder, model="computer") as http:
            answer = await http.post("/run", json=task)
    rollout = answer.json()
    assert rollout["reward"] == 1, rollout
    return rollout, folder


def write(folder: Path, rows: Iterable[Json], name: str = "run.jsonl") -> Path:
    """Write a rollout file beside the screenshots."""
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def replayed(*arguments: object) -> tuple[int, Any]:
    """Run the command; return its exit code and what it said, as JSON if it is."""
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    try:
        return result.exit_code, json.loads(result.stdout)
    except ValueError:
        return result.exit_code, result.output


def test_a_rollout_is_the_same_again_in_a_browser_of_its_own(row: tuple[Json, Path]) -> None:
    rollout, folder = row
    path = write(folder, [rollout])
    code, told = replayed(path, "--tasks", folder / "tasks.jsonl", "--verify", "--json")
    assert code == 0, told
    assert told[0]["verdict"] == "equal"
    assert told[0]["reward"] == 1
    assert [step["step"] for step in told[0]["steps"]] == ["start", "turn 0", "turn 1"]
    # Their pixels were compared.
    assert [step["unequal"] for step in told[0]["steps"]] == [0, 0, 0]
    assert told[0]["not_compared"] == []
    assert not (folder / "run_replay").exists()


def test_what_is_different_is_told(row: tuple[Json, Path], environment_url: str) -> None:
    rollout, folder = row
    rows = {name: copy.deepcopy(rollout) for name in ("action", "status", "url", "lost", "cut")}
    second = {name: one["turns"][1]["calls"][0] for name, one in rows.items()}
    second["action"]["actions"][0]["count"] = 3
    second["status"]["results"][0]["status"] = "error"
    second["url"]["current_url"] = "http://127.0.0.1:1/\x1b[2J"
    rows["lost"]["turns"][1]["screenshot"] = "artifacts/lost.jpg"
    # The infrastructure failed in the last turn but one: what there is is played.
    rows["cut"] |= {"mask_sample": True, "reward": 0.0, "failure_kind": "session_lost"}
    rows["cut"]["turns"][1]["calls"] = []
    del rows["cut"]["final_local_storage"]
    path = write(folder, rows.values(), "changed.jsonl")
    options = (path, "--tasks", folder / "tasks.jsonl", "--url", environment_url, "--verify")
    code, told = replayed(*options, "--images", folder / "seen", "--json")
    assert code == 1
    found = dict(zip(rows, told, strict=True))
    verdicts = {name: one["verdict"] for name, one in found.items()}
    assert verdicts == dict.fromkeys(["action", "status", "url"], "different") | dict.fromkeys(
        ["lost", "cut"], "equal"
    )
    first = {name: one["steps"][2]["difference"] for name, one in found.items() if name != "cut"}
    # The page only changed its title, which no screenshot shows.
    assert first["action"] is None
    storage, reward = found["action"]["at_end"]
    assert (storage["recorded"], storage["replayed"]) == ({"/count": 3}, {"/count": 4})
    assert (reward["what"], reward["recorded"], reward["replayed"]) == ("reward", 1.0, 0.0)
    assert (first["status"]["what"], first["status"]["recorded"]) == ("status", "error")
    assert first["url"]["what"] == "url"
    assert "there is no image artifacts/lost.jpg" in found["lost"]["not_compared"][0]
    assert len(found["cut"]["steps"]) == 2
    assert found["cut"]["not_compared"] == [
        "localStorage: the row does not tell it",
        "reward: the row is masked, so it has none",
    ]
    # In words, a terminal is safe from what pages say.
    code, words = replayed(*options, "--index", 2)
    assert code == 1
    assert "turn 1 (click ×2 at 100, 50): the address: " in words
    assert "\x1b" not in words


def test_screenshots_that_differ_are_kept(row: tuple[Json, Path], environment_url: str) -> None:
    rollout, folder = row
    changed = copy.deepcopy(rollout)
    url = changed["first_observation"]["url"].replace("counter", "second")
    changed["turns"][0]["calls"][0] |= {
        "actions": [{"type": "navigate", "url": url}],
        "current_url": url,
    }
    path = write(folder, [changed], "pictures.jsonl")
    options = (path, "--tasks", folder / "tasks.jsonl", "--url", environment_url)
    code, told = replayed(*options, "--json")
    assert code == 1
    difference = told[0]["steps"][1]["difference"]
    assert difference["what"] == "screenshot"
    assert 0.001 < difference["share"] < 0.5
    assert all(Path(image).stat().st_size for image in difference["images"])
    assert Path(difference["images"][0]).parent == folder / "pictures_replay"
    # Anything may differ.
    code, told = replayed(*options, "--tolerance", 1, "--json")
    assert told[0]["steps"][1]["difference"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"turns": None}, "has no `turns`: only rollouts of browser_agent"),
        ({"turns": [{"calls": [{"results": [{}]}]}]}, "`turns` is malformed"),
        ({}, "does not tell verifier_metadata.browser.cookies.0.value, which is secret"),
        ({"verifier_metadata": {"start_url": "ftp://a"}}, "verifier_metadata.start_url: give a"),
        ({"verifier_metadata": {}}, "verifier_metadata.start_url: missing"),
        (
            {"verifier_metadata": {"start_url": "http://127.0.0.1:9/"}},
            "browser-gym gym --port N",
        ),
    ],
)
def test_a_row_that_cannot_be_played_says_why(
    change: Json, reason: str, row: tuple[Json, Path], environment_url: str
) -> None:
    rollout, folder = row
    path = write(folder, [rollout | change], "unplayable.jsonl")
    code, words = replayed(path, "--url", environment_url)
    assert code == 2
    assert reason in words


def test_what_was_asked_for_wrongly_says_what_to_do(row: tuple[Json, Path]) -> None:
    rollout, folder = row
    path = write(folder, [rollout], "one.jsonl")
    tasks = (folder / "tasks.jsonl").read_text()
    (folder / "other.jsonl").write_text(tasks.replace('"COUNT"', '"OTHER"'))
    cases = {
        ("--index", 1): "--index 1:",
        ("--task", "NONE"): "has COUNT",
        ("--task", "COUNT", "--index", 0): "either --index or --task",
        ("--tasks", folder / "scripts.json"): "scripts.json: is no file of tasks",
        ("--tasks", folder / "none.json"): "cannot be read",
        ("--tasks", folder / "other.jsonl"): "has no task 'COUNT', but OTHER",
        ("--tasks", folder / "tasks.jsonl", "--url", "http://127.0.0.1:9"): "ConnectError",
    }
    for arguments, reason in cases.items():
        code, words = replayed(path, *arguments)
        assert code == 2, words
        assert reason in words
