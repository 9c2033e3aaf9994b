"""How a model server reports a failure: an HTTP status and an OpenAI-shaped error body.

NeMo Gym turns any other exception into a bare 500, which hides from the caller whether the
provider refused the request, was busy, or could not be reached.
"""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

TOO_LONG = "context_length_exceeded"
"""The code of an error that says that the conversation is too long for the model, as OpenAI has it.

A caller can tell by it an episode that is at its end from a request that is wrong.
"""


class ProviderError(Exception):
    """A model call that failed.

    Args:
        status: HTTP status for the caller, the provider's own where it gave one.
        message: What went wrong, for a person.
        kind: Error type, such as `invalid_request_error`.
        code: Error code, such as `rate_limit_exceeded`, if there is one.
        headers: Headers for the caller, such as `retry-after`.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.headers = dict(headers or {})


def responses_only(server: str) -> ProviderError:
    """Return the refusal of `/v1/chat/completions`, which has no computer calls."""
    return ProviderError(
        501,
        f"{server} serves /v1/responses only.",
        kind="invalid_request_error",
        code="not_implemented",
    )


async def _respond(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProviderError)
    body = {"error": {"message": error.message, "type": error.kind, "code": error.code}}
    return JSONResponse(body, error.status, error.headers)


def report_provider_errors(app: FastAPI) -> None:
    """Make an app answer a `ProviderError` with its status and body."""
    app.exception_handler(ProviderError)(_respond)
