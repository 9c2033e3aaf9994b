"""Published apps that nobody here wrote, driven over HTTP and graded by assertions."""

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym.task_row import TaskRow
from resources_servers.browser_gym.verification.assertions import evaluate
from resources_servers.browser_gym.verification.checks import State
from tests.apps.packages import DOWNLOAD_TIMEOUT_S, DownloadFailed, fetch, load_packages
from tests.apps.runner import ROW_ORIGIN, AppTask, grade, load_tasks, play, seed
from tests.apps.site import create_apps_site
from tests.apps.todomvc import todo_tasks
from tests.simulators.http_server import serve
from tests.waiting import eventually

# The first test that needs the apps downloads them.
pytestmark = [pytest.mark.long, pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + 300)]

REQUIRED = "BROWSER_GYM_APPS_REQUIRED"
"""Set in CI: the apps must be there, so a failed download fails the tests instead."""

TASKS = {task.task_id: task for task in load_tasks(ROW_ORIGIN)}

SHOWN_AFTER_RELOAD = {
    "TODO-1": "buy oat milk",
    "ADMIN-1": "Email digest",
    "JSON-2": "café",
    "MARK-1": "noon",
    "QUERY-1": "Orders",
    "SHEET-1": "Figs",
    "SITE-1": "Summer sale",
    "TABLE-1": "Ada Lovelace",
}
"""What apps must still show when their page is loaded again."""

CONFUSED = {"batman", "componentjs", "rappidjs"}
"""TodoMVC apps whose wrong script is played too, one for each way of keeping items."""


@pytest.fixture(scope="module")
def apps() -> Iterator[str]:
    """Base URL of the apps, downloaded at first use."""
    try:
        fetch(load_packages())
    except DownloadFailed as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"the apps could not be downloaded, and {REQUIRED} is not set: {error}")
    with serve(create_apps_site()) as url:
        yield url


@pytest.mark.parametrize("task_id", TASKS)
def test_rows_are_valid(task_id: str) -> None:
    TaskRow.parse(TASKS[task_id].row)


@pytest.mark.parametrize("task_id", TASKS)
async def test_app(client: Client, apps: str, task_id: str) -> None:
    task = next(task for task in load_tasks(apps) if task.task_id == task_id)

    async def right() -> None:
        env_id = await seed(client, task)
        untouched = json.loads((await client.storage(env_id))["initial_local_storage"])
        verdicts = evaluate(task.assertions, State(untouched, untouched, ""))
        assert "fail" in [verdict["result"] for verdict in verdicts]
        answers = await play(client, env_id, task.right)
        assert [answer["settled"] for answer in answers] == [True] * len(answers)
        if text := SHOWN_AFTER_RELOAD.get(task_id):
            await play(client, env_id, [{"type": "reload"}, {"type": "move", "at": f"text:{text}"}])
        assert_reward(await grade(client, task, env_id), 1)

    async def wrong() -> None:
        env_id = await seed(client, task)
        await play(client, env_id, task.wrong)
        assert_reward(await grade(client, task, env_id), 0)

    await asyncio.gather(right(), wrong())


async def test_todomvc_under_the_step_clock(new_client: ClientFactory, apps: str) -> None:
    """All sessions are open at once, and stand still while others act."""
    tasks = [(task, False) for task in todo_tasks(apps)]
    tasks += [(task, True) for task, _ in tasks if task.task_id.split("-")[1] in CONFUSED]
    assert len(tasks) >= 28
    client = await new_client(clock="step", max_sessions=len(tasks))
    free = asyncio.Semaphore(4)

    async def begin(task: AppTask) -> str:
        async with free:
            return await seed(client, task)

    async def check(task: AppTask, wrong: bool, env_id: str) -> None:
        async with free:
            await play(client, env_id, task.wrong if wrong else task.right)
            assert_reward(await grade(client, task, env_id), 0 if wrong else 1)

    env_ids = await asyncio.gather(*(begin(task) for task, _ in tasks))
    async with asyncio.TaskGroup() as group:
        for (task, wrong), env_id in zip(tasks, env_ids, strict=True):
            group.create_task(check(task, wrong, env_id))


async def test_an_exported_file_is_reported(client: Client, apps: str) -> None:
    env_id = (await client.seed(f"{apps}/hosts/jspreadsheet.html"))["env_id"]
    script = [
        {"type": "click", "at": "text:Apples", "button": "right"},
        {"type": "click", "at": 'link "Save as'},
    ]
    events = (await play(client, env_id, script))[-1]["events"]

    async def reported() -> bool:
        events.extend((await client.step(env_id, {"type": "screenshot"}))["events"])
        return bool(events)

    await eventually(reported)
    assert [(event["type"], event["filename"]) for event in events] == [("download", "Sheet1.csv")]


def assert_reward(answer: dict[str, Any], reward: float) -> None:
    verdicts = (answer.get("failure_reason"), answer.get("verification_result"))
    assert (answer["mask_sample"], answer["reward"]) == (False, reward), verdicts
