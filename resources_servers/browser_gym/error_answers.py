"""Error answers for what is not the model's fault: `{failure_kind, failure_reason}`."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp

from resources_servers.browser_gym.browser.backend import BrowserError
from resources_servers.browser_gym.browser.policy import UrlNotAllowed
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.session import SessionError
from resources_servers.browser_gym.session_ids import SessionConflict
from resources_servers.browser_gym.sessions import OperationConflict
from resources_servers.browser_gym.verification.errors import InvalidTask

logger = logging.getLogger(__name__)


def add_error_answers(app: FastAPI) -> None:
    """Have an app answer malformed bodies, and the errors of sessions and tasks."""
    build = app.build_middleware_stack

    def with_ours() -> ASGIApp:
        # Only now, as NeMo Gym adds one later that puts the body into the log.
        app.add_exception_handler(RequestValidationError, _on_malformed)
        return build()

    app.build_middleware_stack = with_ours
    for error in (BrowserError, SessionError):
        app.add_exception_handler(error, _on_environment_error)
    for error in (InvalidTask, UrlNotAllowed):
        app.add_exception_handler(error, _on_invalid_task)
    for error in (OperationConflict, SessionConflict):
        app.add_exception_handler(error, _on_conflict)


def _failure(fault: Fault, reason: object, **headers: str) -> JSONResponse:
    body = {"failure_kind": fault.kind, "failure_reason": str(reason)}
    return JSONResponse(body, status_code=fault.status, headers=headers)


async def _on_environment_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BrowserError | SessionError)
    headers = {}
    if isinstance(error, BrowserError) and error.retry_after_s:
        headers["Retry-After"] = f"{error.retry_after_s:.0f}"
    return _failure(error.fault, error, **headers)


async def _on_malformed(request: Request, error: Exception) -> JSONResponse:
    """Name the fields and what is wrong, but not what is in them, which may be a secret."""
    assert isinstance(error, RequestValidationError)
    detail = [{key: e[key] for key in ("type", "loc", "msg")} for e in error.errors()]
    fields = [".".join(map(str, e["loc"]))[:200] for e in detail[:5]]
    logger.warning("%s: malformed in %d places: %s", request.url.path, len(detail), fields)
    return JSONResponse({"detail": detail}, status_code=422)


async def _on_invalid_task(_: Request, error: Exception) -> JSONResponse:
    return _failure(Fault.TASK_UNUSABLE, error)


async def _on_conflict(_: Request, error: Exception) -> JSONResponse:
    return _failure(Fault.REPEAT_DIFFERS, error)
