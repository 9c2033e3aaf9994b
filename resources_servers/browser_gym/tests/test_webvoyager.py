"""Task rows of tasks in WebVoyager's format."""

import json
from pathlib import Path
from typing import Any

import pytest

from resources_servers.browser_gym.prepare_data import main
from resources_servers.browser_gym.task_row import TaskRow
from resources_servers.browser_gym.webvoyager import changing_words

SITES = {"Recipes": "https://www.recipes.test/", "Booking": "https://www.booking.test"}


def task(site: str, number: int, question: str, **fields: Any) -> dict[str, Any]:
    told = {"web_name": site, "id": f"{site}--{number}", "ques": question, "web": SITES[site]}
    return told | fields


TASKS = [
    task("Recipes", 0, "Find a soup with a rating of 4 stars in the following category."),
    task("Recipes", 1, "Save the soup to my favourites."),
    task("Booking", 0, "On Booking.com, what does a room in Oslo cost?"),
]
ANSWERS = {
    "Recipes": {
        "notice": "",
        "answers": [
            {"id": 0, "type": "possible", "ans": "Leek soup"},
            {"id": 1, "type": "golden", "ans": "Saved"},
        ],
    }
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The input and the output."""
    source = tmp_path / "tasks.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in TASKS) + "\n")
    return source, tmp_path / "rows.jsonl"


def prepare(files: tuple[Path, Path], *options: str) -> list[dict[str, Any]]:
    source, output = files
    assert main(["webvoyager", "--input", str(source), "--output", str(output), *options]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    for row in rows:
        TaskRow.parse(row)
    return rows


def test_the_example_row(files: tuple[Path, Path], tmp_path: Path):
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(ANSWERS))
    rows = prepare(files, "--reference-answers", str(answers))
    assert rows[1] == {
        "responses_create_params": {
            "input": [{"role": "user", "content": "Save the soup to my favourites."}]
        },
        "verifier_metadata": {
            "task_id": "Recipes--1",
            "start_url": "https://www.recipes.test/",
            "viewport": {"width": 1280, "height": 720},
            "verifier": "judge",
            "category": "Recipes",
            "changes_state": True,
            "changing_words": ["save"],
            "judge": {"reference_answer": "Saved"},
        },
    }
    references = [row["verifier_metadata"].get("judge") for row in rows]
    assert references[0]["reference_answer"].startswith("Leek soup (a possible answer")
    assert references[2] is None


def test_tasks_are_chosen(files: tuple[Path, Path]):
    def ids(*options: str) -> list[str]:
        return [row["verifier_metadata"]["task_id"] for row in prepare(files, *options)]

    assert ids("--read-only") == ["Recipes--0", "Booking--0"]
    assert ids("--category", "Booking") == ["Booking--0"]
    assert ids("--task-id", "Recipes--1", "--limit", "1") == ["Recipes--1"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Book a table and pay for it.", ["book", "pay"]),
        ("Sign up, then sign-in.", ["sign up", "sign-in"]),
        ("Signing up, I signed up", ["signing up", "signed up"]),
        ("A reservation; find the bookings page", ["reservation", "bookings"]),
        ("Submitted replies; buying, bought", ["submitted", "replies", "buying", "bought"]),
        ("adding, saved, cancelled", ["adding", "saved", "cancelled"]),
        ("Which books were ordered most?", ["books", "ordered"]),
        ("Find the address of the best payroll office", []),
        ("Show bookkeeping at https://book.test/buy or Order.com", []),
        ("Compare the prices of two hotels on Booking.com", []),
        ("Use Booking to compare", []),
        ("Find the highest rated with 4 stars, like the following", []),
    ],
)
def test_words_that_tell_of_a_change(question: str, words: list[str]):
    assert changing_words(question, "Booking") == words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "tasks.jsonl:1: not JSON"),
        ("[]", "tasks.jsonl:1: not a JSON object"),
        (json.dumps(TASKS[0] | {"ques": " "}), "tasks.jsonl:1: 'ques' is missing"),
        (json.dumps(TASKS[0] | {"id": 3}), "'id' is missing or is no text"),
        (f"{json.dumps(TASKS[0])}\n{json.dumps(TASKS[0])}", ":2: duplicate task 'Recipes--0'"),
        (json.dumps(TASKS[0] | {"web": "recipes"}), "start_url: give a full web address"),
        ("", "there are no tasks"),
        ("\xff", "not UTF-8"),
    ],
)
def test_an_input_that_is_wrong_is_told_in_one_line(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], line: str, message: str
):
    source, output = files
    source.write_text(line, encoding="latin-1")
    assert main(["webvoyager", "--input", str(source), "--output", str(output)]) == 1
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("text", ["[", "[]", '{"Recipes": {}}', '{"Other": {"answers": []}}', "{}"])
def test_answers_that_are_wrong_are_told(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
):
    answers = tmp_path / "answers.json"
    answers.write_text(text)
    source, output = files
    options = ["--input", str(source), "--output", str(output), "--reference-answers", str(answers)]
    assert main(["webvoyager", *options]) == 1
    assert "answers.json: no" in capsys.readouterr().err


def test_no_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = ["--input", str(tmp_path / "none"), "--output", str(tmp_path / "rows")]
    assert main(["webvoyager", *options]) == 1
    assert "No such file" in capsys.readouterr().err
