"""Fetches tasks from web gyms and writes them as task rows, one JSON object a line."""

import argparse
import asyncio
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin

from resources_servers.browser_gym.element_tools import function_tools
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
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.gym_client import GymClient
from resources_servers.browser_gym.webvoyager import prepare_webvoyager

FETCH_TIMEOUT_S = 60.0
PROG = "python -m resources_servers.browser_gym.prepare_data"

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
  tasks in the format of WebVoyager, see webvoyager --help:
    %(prog)s webvoyager --input WebVoyager_data.jsonl --output webvoyager.jsonl

The steps run in this order: --task-id and --category, --sample, --shuffle, --limit, --split.
Nothing is written unless every row is valid, and an existing file is replaced as a whole.
"""


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


def main(argv: Sequence[str] | None = None, *, prog: str = PROG) -> int:
    """Runs the command; returns its exit status: 0, or 1 with one line on stderr.

    Args:
        argv: The arguments; those of the process by default.
        prog: How help calls the program.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv and argv[0] == "webvoyager":
            prepare_webvoyager(argv[1:], f"{prog} webvoyager")
        else:
            _prepare(_parser(prog).parse_args(argv))
    except (PrepareError, InvalidTask, VerifierError, OSError) as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 1
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add = parser.add_argument
    add("--gym-url", **several, required=True, metavar="URL", help="address of a web gym")
    add_selection_options(parser)
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
    add(
        "--timeout-s",
        type=_seconds,
        default=FETCH_TIMEOUT_S,
        metavar="S",
        help=f"how long a gym may take, in seconds (default: {FETCH_TIMEOUT_S:g})",
    )
    return parser


def _prepare(arguments: argparse.Namespace) -> None:
    check_output(arguments)
    gym_urls = list(dict.fromkeys(url.rstrip("/") for url in arguments.gym_url))
    tasks = asyncio.run(_fetch(gym_urls, arguments.timeout_s))
    tasks = choose(tasks, "task id", [task.id for task in tasks], arguments.task_id)
    tasks = choose(tasks, "category", [task.category for task in tasks], arguments.category)
    _refuse_duplicates(tasks)
    rows = [_row(task, arguments.verifier) for task in tasks]
    if arguments.tools:
        for row in rows:
            row["responses_create_params"]["tools"] = function_tools()
    check_rows(rows, {task.id: f" of {task.gym_url}" for task in tasks})
    write_selected(rows, arguments)


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


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError("give a number above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
