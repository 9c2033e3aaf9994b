"""Answers malformed bodies without what is in them, which may be a secret."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

logger = logging.getLogger(__name__)
_MAX_LOGGED, _MAX_FIELD_CHARS = 5, 200


def name_fields_only(app: FastAPI) -> None:
    """Have an app's answers and log name the fields of a malformed body, and what is wrong."""
    build = app.build_middleware_stack

    def with_ours() -> ASGIApp:
        # Only now, as NeMo Gym adds one later that puts the start of the body into the log.
        app.add_exception_handler(RequestValidationError, _on_malformed)
        return build()

    app.build_middleware_stack = with_ours


async def _on_malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    detail = [{key: e[key] for key in ("type", "loc", "msg")} for e in error.errors()]
    fields = [".".join(map(str, e["loc"]))[:_MAX_FIELD_CHARS] for e in detail[:_MAX_LOGGED]]
    logger.warning("%s: malformed in %d places: %s", request.url.path, len(detail), fields)
    return JSONResponse({"detail": detail}, status_code=422)
