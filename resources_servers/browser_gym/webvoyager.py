"""Makes task rows of tasks in WebVoyager's format, for a judge to grade.

Each line of the input is a JSON object with `web_name`, `id`, `ques` and `web`. The site becomes
the category. A file of reference answers maps `web_name` to `{"answers": [{"id", "type", "ans"}]}`,
where `id` is the number behind the site's name in a task's id.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resources_servers.browser_gym.task_row import DEFAULT_VIEWPORT
from resources_servers.browser_gym.task_selection import (
    PrepareError,
    add_selection_options,
    check_output,
    check_rows,
    choose,
    write_selected,
)
from resources_servers.browser_gym.task_sets import Row

_FIELDS = ("web_name", "id", "ques", "web")

_VERBS = """
add apply book buy cancel change checkout comment create delete donate download edit email enroll
invite join login logout message order pay post publish purchase register remove rent reply reserve
save schedule send share submit subscribe unsubscribe update upload vote write
"""
_AS_THEY_STAND = """
bought paid sent wrote written follow bookings? reservations? registrations? subscriptions?
donations? enrolments? enrollments? check(?:s|ed|ing)?-out fill(?:s|ed|ing)?-(?:in|out)
log(?:s|ged|ging)?-(?:in|out) sign(?:s|ed|ing)?-(?:in|up)
"""


def prepare_webvoyager(argv: Sequence[str], prog: str) -> None:
    """Runs the command `webvoyager`.

    Args:
        argv: Its arguments.
        prog: How help calls the program.

    Raises:
        PrepareError: The wanted task set cannot be made; the message says why.
        OSError: A file cannot be read or written.
    """
    arguments = _parser(prog).parse_args(argv)
    check_output(arguments)
    tasks = _read_tasks(arguments.input)
    answers: dict[str, str] = {}
    if arguments.reference_answers:
        answers = _read_answers(arguments.reference_answers)
        if not answers.keys() & {task["id"] for task in tasks}:
            raise PrepareError(f"{arguments.reference_answers}: no answer to any of the tasks")
    tasks = choose(tasks, "task id", [task["id"] for task in tasks], arguments.task_id)
    tasks = choose(tasks, "category", [task["web_name"] for task in tasks], arguments.category)
    rows = [_row(task, answers.get(task["id"])) for task in tasks]
    if arguments.read_only:
        rows = [row for row in rows if not row["verifier_metadata"]["changes_state"]]
        if not rows:
            raise PrepareError("--read-only: every task may change something")
    check_rows(rows, {task["id"]: f" of {arguments.input}" for task in tasks})
    write_selected(rows, arguments)


def changing_words(question: str, site: str) -> list[str]:
    """Returns the words of a task that may tell of a change at the site, in order.

    It rather finds one too many: `book` and `order` count as nouns too. Only the site's name and
    addresses, as in `Booking.com`, do not count.
    """
    text = re.sub(r"https?://\S+|\b[\w-]+(?:\.[\w-]+)+", " ", question.casefold())
    text = re.sub(rf"\b{re.escape(site.casefold())}\b", " ", text)
    return list(dict.fromkeys(match[0] for match in _CHANGING.finditer(text)))


def _forms(verb: str) -> str:
    """A pattern of a verb's forms, such as adds, adding, added, saving, replies, submitted."""
    if verb.endswith("e"):
        return f"{verb[:-1]}(?:e|es|ed|ing)"
    if verb.endswith("y"):
        return f"{verb[:-1]}(?:y|ys|ies|ied|yed|ying)"
    return f"{verb}(?:|s|es|{verb[-1]}?(?:ed|ing))"


_PATTERNS = [*map(_forms, _VERBS.split()), *_AS_THEY_STAND.replace("-", r"[\s-]").split()]
_CHANGING = re.compile(rf"\b(?:{'|'.join(_PATTERNS)})\b")


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=__doc__,
        epilog="A category is a site. The steps run in this order: --task-id and --category, "
        "--read-only, --sample, --shuffle, --limit, --split.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--input", type=Path, required=True, metavar="FILE", help="the tasks, .jsonl")
    add("--reference-answers", type=Path, metavar="FILE", help="answers the judge is told, .json")
    add(
        "--read-only",
        action="store_true",
        help="leave out the tasks marked changes_state: those with a word such as book, buy, post "
        "or sign up, also where it is a noun",
    )
    add_selection_options(parser)
    return parser


def _read_tasks(path: Path) -> list[dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise PrepareError(f"{path}: not UTF-8: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            task = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PrepareError(f"{where}: not JSON: {error}") from error
        if not isinstance(task, dict):
            raise PrepareError(f"{where}: not a JSON object")
        for field in _FIELDS:
            if not isinstance(task.get(field), str) or not task[field].strip():
                raise PrepareError(f"{where}: {field!r} is missing or is no text")
        if task["id"] in tasks:
            raise PrepareError(f"{where}: duplicate task {task['id']!r}")
        tasks[task["id"]] = task
    if not tasks:
        raise PrepareError(f"{path}: there are no tasks")
    return list(tasks.values())


def _read_answers(path: Path) -> dict[str, str]:
    try:
        sites = json.loads(path.read_text(encoding="utf-8"))
        return {
            f"{site}--{answer['id']}": _reference(answer)
            for site, told in sites.items()
            for answer in told["answers"]
        }
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise PrepareError(
            f"{path}: no reference answers in WebVoyager's format ({type(error).__name__}: {error})"
        ) from error


def _reference(answer: dict[str, Any]) -> str:
    text = str(answer["ans"])
    if answer.get("type") == "golden":
        return text
    return f"{text} (a possible answer; the site may give another by now)"


def _row(task: dict[str, Any], reference: str | None) -> Row:
    words = changing_words(task["ques"], task["web_name"])
    metadata: dict[str, Any] = {
        "task_id": task["id"],
        "start_url": task["web"],
        "viewport": dict(DEFAULT_VIEWPORT),
        "verifier": "judge",
        "category": task["web_name"],
        "changes_state": bool(words),
        "changing_words": words,
    }
    if reference is not None:
        metadata["judge"] = {"reference_answer": reference}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": task["ques"]}]},
        "verifier_metadata": metadata,
    }
