"""Fetches tasks from web gyms and writes them as task rows, one JSON object a line."""

import argparse
import asyncio
import difflib
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from resources_servers.browser_gym.element_tools import function_tools
from resources_servers.browser_gym.task_row import DEFAULT_VIEWPORT, TaskRow
from resources_servers.browser_gym.task_sets import (
    Row,
    sample,
    shuffle,
    split,
    task_set_id,
    write_jsonl,
)
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.gym_client import GymClient
from resources_servers.browser_gym.verification.judge import Judge
from resources_servers.browser_gym.verification.verifiers import Verifiers

SHOWN_NAMES = 20
FETCH_TIMEOUT_S = 60.0

EXAMPLES = """\
examples:
  all tasks of a gym:
    %(prog)s --gym-url http://127.0.0.1:8777 --output tasks.jsonl
  two of them:
    %(prog)s --gym-url http://127.0.0.1:8777 --task-id CRM-01 CRM-02 --output two.jsonl
  a training and a validation set, tasks_train.jsonl and tasks_validation.jsonl:
    %(prog)s --gym-url http://127.0.0.1:8777 --output tasks.jsonl --shuffle --seed 7 \\
        --split train=0.8 --split validation=0.2
  rows for a model that sees no screenshot, with its tools:
    %(prog)s --gym-url http://127.0.0.1:8777 --output tasks.jsonl --tools elements
  twelve tasks, as many from each category as its share of the gym:
    %(prog)s --gym-url http://127.0.0.1:8777 --output twelve.jsonl --sample 12

The steps run in this order: --task-id and --category, --sample, --shuffle, --limit, --split.
Nothing is written unless every row is valid, and an existing file is replaced as a whole.
"""


class PrepareError(Exception):
    """The wanted task set cannot be made; the message says why, in one line."""


class _Task(NamedTuple):
    """What a gym tells of one task, nothing of it checked yet."""

    gym_url: str
    id: str
    told: Any

    @property
    def category(self) -> Any:
        return self.told.get("category") if isinstance(self.told, dict) else None

    def __str__(self) -> str:
        return f"task {self.id!r} of {self.gym_url}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status: 0, or 1 with one line on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        _prepare(arguments)
    except (PrepareError, InvalidTask, VerifierError, OSError) as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m resources_servers.browser_gym.prepare_data",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add = parser.add_argument
    add("--gym-url", **several, required=True, metavar="URL", help="address of a web gym")
    add("--output", type=Path, required=True, metavar="FILE", help="the file to write, .jsonl")
    add("--task-id", **several, default=[], metavar="ID", help="only these tasks")
    add("--category", **several, default=[], metavar="NAME", help="only tasks of these categories")
    add(
        "--verifier",
        choices=["gym_api", "local_storage"],
        default="gym_api",
        help="who grades: the gym, or the resources server with assertions that the gym must "
        "serve with their checks (default: gym_api)",
    )
    add(
        "--tools",
        choices=["elements"],
        help="put the element tools into each row, for agents that offer a model what its row "
        "says, such as NeMo Gym's simple_agent (default: none)",
    )
    add("--seed", type=int, default=0, help="of every random choice (default: 0)")
    add("--shuffle", action="store_true", help="order the tasks at random")
    add("--sample", type=int, metavar="N", help="N tasks at random, each category in proportion")
    add("--limit", type=int, metavar="N", help="at most the first N tasks")
    add(
        "--split",
        **several,
        default=[],
        type=_share,
        metavar="NAME=SHARE",
        help="write one file for each, FILE with _NAME before its ending; the shares make 1 "
        "together, and each set has its share of every category",
    )
    add(
        "--timeout-s",
        type=_seconds,
        default=FETCH_TIMEOUT_S,
        metavar="S",
        help=f"how long a gym may take, in seconds (default: {FETCH_TIMEOUT_S:g})",
    )
    return parser


def _prepare(arguments: argparse.Namespace) -> None:
    if not arguments.output.name:
        raise PrepareError(f"--output {arguments.output} is not the name of a file")
    gym_urls = list(dict.fromkeys(url.rstrip("/") for url in arguments.gym_url))
    tasks = asyncio.run(_fetch(gym_urls, arguments.timeout_s))
    tasks = _choose(tasks, "task id", [task.id for task in tasks], arguments.task_id)
    tasks = _choose(tasks, "category", [task.category for task in tasks], arguments.category)
    _refuse_duplicates(tasks)
    rows = [_row(task, arguments.verifier) for task in tasks]
    if arguments.tools:
        for row in rows:
            row["responses_create_params"]["tools"] = function_tools()
    _check_rows(rows)
    if arguments.sample is not None:
        try:
            rows = sample(rows, arguments.sample, arguments.seed)
        except ValueError as error:
            raise PrepareError(f"--sample: {error}") from error
    if arguments.shuffle:
        rows = shuffle(rows, arguments.seed)
    if arguments.limit is not None:
        if arguments.limit < 1:
            raise PrepareError("--limit: give a number of at least 1")
        rows = rows[: arguments.limit]
    files = _files(arguments.output, rows, arguments.split, arguments.seed)
    write_jsonl(files)
    for path, part in files.items():
        sys.stdout.write(f"{path}: task set {len(part)} tasks, id {task_set_id(part)}\n")


async def _fetch(gym_urls: list[str], timeout_s: float) -> list[_Task]:
    client = GymClient(timeout_s=timeout_s, max_attempts=1)
    tasks: list[_Task] = []
    try:
        for gym_url in gym_urls:
            found = await client.fetch_tasks(gym_url)
            if not found:
                raise PrepareError(f"the gym {gym_url} has no tasks")
            tasks += [_Task(gym_url, task_id, told) for task_id, told in found.items()]
    finally:
        await client.aclose()
    return tasks


def _row(task: _Task, verifier: str) -> Row:
    """Makes a row of what a gym tells about a task.

    Raises:
        PrepareError: The gym's entry lacks something, or holds something that makes no sense.
    """
    told = task.told
    if not isinstance(told, dict):
        raise PrepareError(f"{task}: is not a JSON object")
    prompt = told.get("task_statement") or told.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise PrepareError(f"{task}: has no text in 'task_statement' or 'prompt'")
    metadata = {
        "task_id": task.id,
        "gym_url": task.gym_url,
        "start_url": _start_url(task),
        "viewport": _viewport(task),
        "verifier": verifier,
    }
    if task.category is not None:
        metadata["category"] = task.category
    if told.get("browser") is not None:
        metadata["browser"] = told["browser"]
    if verifier == "local_storage":
        metadata["assertions"] = _assertions_with_checks(task)
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "verifier_metadata": metadata,
    }


def _start_url(task: _Task) -> Any:
    """Joins a relative address to the gym's; the row model refuses what is no address then."""
    start_url = task.told.get("start_url") or task.gym_url
    if not isinstance(start_url, str) or start_url == task.gym_url:
        return start_url
    try:
        return urljoin(f"{task.gym_url}/", start_url)
    except ValueError:
        return start_url


def _viewport(task: _Task) -> Any:
    """Takes [width, height] or {"width", "height"} in px, or nothing; the row model checks it."""
    size = task.told.get("viewport_size")
    if size is None:
        return dict(DEFAULT_VIEWPORT)
    if isinstance(size, list) and len(size) == 2:
        return {"width": size[0], "height": size[1]}
    if isinstance(size, dict):
        return {key: size[key] for key in ("width", "height") if key in size}
    raise PrepareError(f"{task}: 'viewport_size' is neither [width, height] nor an object of them")


def _assertions_with_checks(task: _Task) -> Any:
    assertions = task.told.get("assertions")
    items = assertions if isinstance(assertions, list) else []
    if not any(isinstance(item, dict) and item.keys() - {"title", "category"} for item in items):
        raise PrepareError(
            f"{task}: the gym does not tell what its assertions check, so local_storage cannot "
            "judge them; use --verifier gym_api"
        )
    return assertions


def _refuse_duplicates(tasks: list[_Task]) -> None:
    gym_of: dict[str, str] = {}
    for task in tasks:
        if task.id in gym_of:
            raise PrepareError(
                f"duplicate task {task.id!r}: {gym_of[task.id]} and {task.gym_url} both have it; "
                "prepare the gyms one by one"
            )
        gym_of[task.id] = task.gym_url


def _choose(tasks: list[_Task], what: str, values: list[Any], wanted: list[str]) -> list[_Task]:
    """Keeps the tasks with one of the wanted values, all tasks if none is wanted."""
    if not wanted:
        return tasks
    known = sorted({value for value in values if isinstance(value, str)})
    missing = [value for value in dict.fromkeys(wanted) if value not in known]
    if missing:
        near = [near for value in missing for near in difflib.get_close_matches(value, known)]
        hint = near or known
        more = f" and {len(hint) - SHOWN_NAMES} more" if len(hint) > SHOWN_NAMES else ""
        raise PrepareError(
            f"unknown {what} {', '.join(map(repr, missing))}; "
            f"{'did you mean' if near else 'there are'}: "
            f"{', '.join(dict.fromkeys(hint[:SHOWN_NAMES])) or 'none'}{more}"
        )
    return [task for task, value in zip(tasks, values, strict=True) if value in wanted]


def _check_rows(rows: list[Row]) -> None:
    """Holds each row to what the resources server demands at seed."""
    verifiers = Verifiers(judge=Judge(ask=None))
    for row in rows:
        metadata = row["verifier_metadata"]
        try:
            TaskRow.parse(row)
            verifiers.parse_verifier(metadata)
        except InvalidTask as error:
            raise PrepareError(
                f"task {metadata['task_id']!r} of {metadata['gym_url']}: {error}"
            ) from error


def _files(
    output: Path, rows: list[Row], shares: list[tuple[str, Fraction]], seed: int
) -> dict[Path, list[Row]]:
    if not shares:
        return {output: rows}
    names = [name for name, _ in shares]
    if len(set(names)) < len(names):
        raise PrepareError(f"--split: {', '.join(names)} names a set twice")
    total = sum(share for _, share in shares)
    if abs(total - 1) > Fraction(1, 1000):
        raise PrepareError(f"--split: the shares make {float(total):g} together, not 1")
    parts = split(rows, {name: share / total for name, share in shares}, seed)
    for name, part in parts.items():
        if not part:
            raise PrepareError(f"--split: {len(rows)} tasks are too few to give {name!r} any")
    return {
        output.with_name(f"{output.stem}_{name}{output.suffix}"): part
        for name, part in parts.items()
    }


def _share(text: str) -> tuple[str, Fraction]:
    name, _, number = text.partition("=")
    try:
        share = Fraction(number)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not name.replace("-", "_").isidentifier() or not 0 < share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=SHARE with a share above 0 and up to 1, such as train=0.8"
        )
    return name, share


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError("give a number above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
