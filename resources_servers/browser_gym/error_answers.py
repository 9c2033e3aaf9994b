"""Error answers for what is not the model's fault: `{failure_kind, failure_reason}`."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from resources_servers.browser_gym.browser.backend import BrowserError
from resources_servers.browser_gym.browser.policy import UrlNotAllowed
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.session import SessionError
from resources_servers.browser_gym.session_ids import SessionConflict
from resources_servers.browser_gym.sessions import OperationConflict
from resources_servers.browser_gym.verification.errors import InvalidTask


def add_error_answers(app: FastAPI) -> None:
    """Have an app answer the errors of sessions and tasks."""
    for error in (BrowserError, SessionError):
        app.add_exception_handler(error, _on_environment_error)
    for error in (InvalidTask, UrlNotAllowed):
        app.add_exception_handler(error, _on_invalid_task)
    for error in (OperationConflict, SessionConflict):
        app.add_exception_handler(error, _on_conflict)


def _failure(
    fault: Fault, reason: object, headers: dict[str, str] | None = None, **more: float
) -> JSONResponse:
    body = {"failure_kind": fault.kind, "failure_reason": str(reason)}
    return JSONResponse(body | more, status_code=fault.status, headers=headers)


async def _on_environment_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BrowserError | SessionError)
    if isinstance(error, BrowserError) and (seconds := error.retry_after_s):
        headers = {"Retry-After": f"{seconds:.0f}"}
        return _failure(error.fault, error, headers, retry_after_s=seconds)
    return _failure(error.fault, error)


async def _on_invalid_task(_: Request, error: Exception) -> JSONResponse:
    return _failure(Fault.TASK_UNUSABLE, error)


async def _on_conflict(_: Request, error: Exception) -> JSONResponse:
    return _failure(Fault.REPEAT_DIFFERS, error)
