"""The demo gym's web server: the apps, and the HTTP API through which a web gym is graded."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import FormData, UploadFile

from resources_servers.browser_gym.demo_gym.index_page import render_index
from resources_servers.browser_gym.demo_gym.tasks import (
    BROWSER,
    STATIC_DIR,
    VIEWPORT,
    Task,
    load_tasks,
    seed_state,
)
from resources_servers.browser_gym.embedded_server import embedded
from resources_servers.browser_gym.verification.assertions import evaluate
from resources_servers.browser_gym.verification.checks import State
from resources_servers.browser_gym.verification.errors import VerifierError


def create_app() -> FastAPI:
    """Builds the web application.

    Raises:
        ValueError: A task file is not valid.
    """
    tasks = load_tasks()
    # FastAPI's own pages are off: one of them would take the address of the documents app.
    app = FastAPI(title="Demo gym", docs_url=None, redoc_url=None, openapi_url=None)

    index_html = render_index(list(tasks.values()))

    @app.get("/", response_class=HTMLResponse)
    async def index() -> str:
        return index_html

    @app.api_route("/api/v1/get_expected_state", methods=["GET", "POST"])
    async def get_expected_state(request: Request) -> dict[str, Any]:
        base_url = str(request.base_url).rstrip("/")
        return {"verifiers": {task.id: _public(task, base_url) for task in tasks.values()}}

    @app.post("/api/v1/get_actual_state")
    async def get_actual_state(request: Request) -> dict[str, Any]:
        async with request.form() as form:
            task = _find_task(form, tasks)
            final = await _read_storage(form, "localStorageDump")
            if final is None:
                raise HTTPException(
                    400, "localStorageDump is missing: send it as a file part of a multipart form"
                )
            initial = await _read_storage(form, "initialState")
            answer = await _read_text(form, "modelResponse")
        try:
            results = evaluate(
                task.parsed_assertions(), State(initial or seed_state(), final, answer)
            )
        except VerifierError as error:
            raise HTTPException(422, f"initialState does not fit {task.id}: {error}") from error
        return {"taskId": task.id, "prompt": task.prompt, "assertions": results}

    app.mount("/", StaticFiles(directory=STATIC_DIR, html=True))
    return app


@asynccontextmanager
async def running(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves the demo gym within the caller's event loop while the context is open.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.

    Yields:
        The gym's base URL, without a slash at the end.

    Raises:
        RuntimeError: The address cannot be listened on, most often because the port is taken.
        ValueError: A task file is not valid.
    """
    app = create_app()
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise RuntimeError(
            f"cannot serve the demo gym on {host} port {port}: {error.strerror}; stop the program "
            "that uses this port, or choose another: ++demo_gym_port=PORT for a stack, --port PORT "
            "for the demo gym alone"
        ) from error
    async with embedded(app, listener):
        yield f"http://{host}:{listener.getsockname()[1]}"


def _public(task: Task, base_url: str) -> dict[str, Any]:
    """What anyone may know of a task: of its assertions the titles, never what they expect."""
    return {
        "prompt": task.prompt,
        "start_url": base_url + task.start_path,
        "viewport_size": VIEWPORT,
        "browser": BROWSER,
        "category": task.category,
        "assertions": [
            {"title": assertion["title"], "category": assertion["category"]}
            for assertion in task.assertions
        ],
    }


def _find_task(form: FormData, tasks: dict[str, Task]) -> Task:
    task_id = form.get("taskId")
    if not isinstance(task_id, str) or not task_id:
        raise HTTPException(400, "taskId is missing: send it as a text field of a multipart form")
    if task_id not in tasks:
        raise HTTPException(
            404, f"taskId {task_id!r} is unknown: get_expected_state lists the tasks"
        )
    return tasks[task_id]


async def _read_text(form: FormData, name: str) -> str:
    value = form.get(name)
    if isinstance(value, UploadFile):
        try:
            return (await value.read()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise HTTPException(400, f"{name} is not UTF-8 text: {error}") from error
    return value or ""


async def _read_storage(form: FormData, name: str) -> dict[str, str] | None:
    """Returns the {key: text} of a JSON part, None when the form has no such part."""
    if name not in form:
        return None
    try:
        storage = json.loads(await _read_text(form, name))
    except ValueError as error:
        raise HTTPException(400, f"{name} is not JSON: {error}") from error
    if not isinstance(storage, dict) or not all(isinstance(v, str) for v in storage.values()):
        raise HTTPException(
            400, f"{name} is not a JSON object of texts: send {{storage key: stored text}}"
        )
    return storage
