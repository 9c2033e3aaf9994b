"""What the model servers have in common around a call of a provider's API."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import httpx
import orjson
from fastapi import FastAPI
from nemo_gym.openai_utils import NeMoGymResponse
from pydantic import ValidationError

from responses_api_models.provider_errors import ProviderError
from responses_api_models.whole_text import whole

logger = logging.getLogger(__name__)

BROKEN_REPLY = "the answer broke off or is not JSON"


def slots(limit: int | None) -> AbstractAsyncContextManager[Any]:
    """Return what to enter around a call, so that no more than `limit` are in flight at once."""
    return nullcontext() if limit is None else asyncio.Semaphore(limit)


def to_json(body: dict[str, Any]) -> bytes:
    """Return a request's JSON. An SDK's own way takes many times as long for a long history."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # What a model said may hold half a surrogate pair, or a number of more than 64 bits.
        return json.dumps(body).encode()


def close_at_shutdown(app: FastAPI, close: Callable[[], Awaitable[None]]) -> None:
    """Make an app's shutdown close a client, after what it closes itself."""
    inner_lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        try:
            async with inner_lifespan(app) as state:
                yield state
        finally:
            await close()

    app.router.lifespan_context = lifespan


def whole_answers(timeout_s: float) -> Callable[[httpx.Response], Awaitable[None]]:
    """Return a response hook of an SDK's client, which lets the SDK try again within its retries.

    It takes a successful answer that is no whole JSON document for a lost connection, and bounds
    how long an answer may take that has begun: the client's own timeout is between two pieces of
    it, and gateways send blanks to keep a connection open.

    Args:
        timeout_s: Longest wait for the rest of an answer.
    """

    async def check(response: httpx.Response) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await response.aread()
        except TimeoutError as error:
            raise httpx.ReadTimeout("", request=response.request) from error
        if not response.is_success:
            return
        try:
            json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise httpx.RemoteProtocolError(BROKEN_REPLY, request=response.request) from error

    return check


def read_reply(provider: str, translate: Callable[[], dict[str, Any]]) -> NeMoGymResponse:
    """Return a translated reply.

    Args:
        provider: Whose reply it is, for messages.
        translate: Returns the Responses object; a ValueError says why that is not possible.

    Raises:
        ProviderError: The reply cannot be used. To ask again would not help.
    """
    try:
        return NeMoGymResponse.model_validate(whole(translate()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _unusable(provider, f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise _unusable(provider, str(error)) from error
    except Exception as error:  # a field of another type than the API's, or endless depth
        logger.exception("%s's reply cannot be read", provider)
        raise _unusable(provider, f"it is malformed: {error!r:.200}") from error


def _unusable(provider: str, reason: str) -> ProviderError:
    return ProviderError(
        502,
        f"{provider}'s reply cannot be used: {reason}",
        kind="provider_error",
        code="bad_reply",
    )


def timed_out(provider: str, timeout_s: float, attempts: int) -> ProviderError:
    """Return the error of a call that was not answered in time, however often it was tried."""
    return ProviderError(
        504,
        f"{provider} did not answer within {timeout_s:g} s (at most {attempts} attempts).",
        kind="timeout_error",
        code="timeout",
    )


def unreachable(provider: str, url: str, reason: object, attempts: int) -> ProviderError:
    """Return the error of a call that was lost on the way, however often it was tried."""
    return ProviderError(
        502,
        f"{provider} could not be reached at {url}: {reason} (at most {attempts} attempts).",
        kind="connection_error",
        code="connection_failed",
    )
