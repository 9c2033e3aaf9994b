"""Sends generateContent requests through Google's SDK, with bounded retries.

The SDK finds the endpoint and signs the request: an API key, or Vertex AI with a key or with
application default credentials. Only its lowest call is used, for two reasons. Its typed models
drop fields they do not know, in both directions, and a conversation has to go back to Gemini as
it came. And its own retries do not look at what the server asks for.
"""

import asyncio
import functools
import json
import logging
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
from google import genai
from google.auth import exceptions as auth_errors
from google.genai import errors, types

from responses_api_models.provider_calls import BROKEN_REPLY, timed_out, unreachable
from responses_api_models.provider_errors import TOO_LONG, ProviderError

logger = logging.getLogger(__name__)

# 408 and 429 ask to try again; so does every server error.
RETRIED_BELOW_500 = frozenset({408, 429})
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
# A server that asks for more than this is not waited for (a daily quota, for example).
LONGEST_ASKED_DELAY_S = 60.0
# The versions that have preview models and tools. The SDK's own choice depends on the environment.
API_VERSION = "v1beta"
VERTEX_API_VERSION = "v1beta1"
RETRY_INFO = "google.rpc.RetryInfo"
# How Gemini and Vertex AI say that a conversation has become too long, in tokens or bytes.
_SAYS_TOO_LONG = re.compile(
    r"input token count.*(exceeds|only supports)|payload size exceeds", re.IGNORECASE | re.DOTALL
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True)
class Access:
    """How to reach the API.

    Attributes:
        api_key: API key; not needed with Vertex AI and default credentials.
        vertex: Use Vertex AI.
        project: Google Cloud project, for Vertex AI.
        location: Google Cloud location, for Vertex AI.
        base_url: Address to use in place of Google's, without an API version.
    """

    api_key: str | None = None
    vertex: bool = False
    project: str | None = None
    location: str | None = None
    base_url: str | None = None


class GeminiClient:
    """A client of one model.

    Args:
        access: How to reach the API.
        model: The model's name.
        timeout_s: Longest wait for one attempt's answer.
        max_retries: How often a failed attempt is repeated.
    """

    def __init__(self, access: Access, model: str, *, timeout_s: float, max_retries: int) -> None:
        self._timeout_s = timeout_s
        self._attempts = max_retries + 1
        # How many requests are in flight is the server's to decide.
        self._http = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=100))
        self._client = genai.Client(
            # Without an explicit choice the SDK takes one from the environment.
            vertexai=access.vertex,
            api_key=access.api_key,
            project=access.project,
            location=access.location,
            http_options=types.HttpOptions(
                base_url=access.base_url,
                api_version=VERTEX_API_VERSION if access.vertex else API_VERSION,
                timeout=max(1, round(timeout_s * 1000)),
                httpx_async_client=self._http,
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        name = model.removeprefix("models/")
        self._path = f"{'publishers/google/' * access.vertex}models/{name}:generateContent"
        self.base_url = str(self._client._api_client._http_options.base_url)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        self._client.close()

    @property
    def is_closed(self) -> bool:
        """Whether the client can no longer be used."""
        return self._http.is_closed

    async def generate(self, body: Mapping[str, Any]) -> Any:
        """Send one request, repeating it after failures that may pass.

        Args:
            body: The JSON body.

        Returns:
            The answer's body, parsed.

        Raises:
            ProviderError: Gemini refused the request, failed, or could not be reached.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._send(body)
            except ProviderError as error:
                delay = _delay_s(error, attempt)
                if delay is None or attempt == self._attempts:
                    logger.warning("Gemini call failed with %d: %s", error.status, error.message)
                    raise
                logger.info("Gemini call failed with %d, again in %.1f s", error.status, delay)
            await asyncio.sleep(delay)
        raise AssertionError("there is at least one attempt")

    async def _send(self, body: Mapping[str, Any]) -> Any:
        lost = functools.partial(unreachable, "Gemini", self.base_url, attempts=self._attempts)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client._api_client.async_request(
                    "post", self._path, dict(body)
                )
        except errors.APIError as error:
            raise _from_answer(error) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise timed_out("Gemini", self._timeout_s, self._attempts) from error
        except (httpx2.HTTPError, auth_errors.TransportError) as error:
            raise lost(repr(error)) from error
        except UnicodeDecodeError as error:
            raise ProviderError(
                502,
                f"The error answer from {self.base_url} is no text.",
                kind="provider_error",
                code="bad_reply",
            ) from error
        except auth_errors.GoogleAuthError as error:
            raise ProviderError(
                401,
                f"There are no usable Google credentials: {error}",
                kind="authentication_error",
                code="no_credentials",
            ) from error
        try:
            return json.loads(answer.body or "")
        except (ValueError, RecursionError) as error:
            raise lost(BROKEN_REPLY) from error


def _from_answer(error: errors.APIError) -> ProviderError:
    """Build the caller's error from an error answer of Gemini (or of a gateway before it)."""
    headers = getattr(error.response, "headers", {})
    asked = _retry_after_s(headers.get("retry-after"))
    if asked is None:
        asked = _retry_info_s(error.details)
    message = str(error.message or error.details or "no error text")[:2000]
    code = str(error.status) if error.status else None
    if error.code in (400, 413) and _SAYS_TOO_LONG.search(message):
        code = TOO_LONG
    return ProviderError(
        error.code,
        message,
        kind=str(error.status or "provider_error"),
        code=code,
        headers={} if asked is None else {"retry-after": f"{asked:g}"},
    )


def _delay_s(error: ProviderError, attempt: int) -> float | None:
    """Return how long to wait before the next attempt; None for not to try again."""
    if error.status < 500 and error.status not in RETRIED_BELOW_500:
        return None
    asked = error.headers.get("retry-after")
    if asked is not None:
        return float(asked) if float(asked) <= LONGEST_ASKED_DELAY_S else None
    longest = min(FIRST_DELAY_S * 2 ** (attempt - 1), LONGEST_DELAY_S)
    return longest * random.uniform(0.75, 1)


def _retry_after_s(value: str | None) -> float | None:
    """Return what a `retry-after` header asks for: seconds, or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds()) if date.tzinfo else None


def _retry_info_s(details: Any) -> float | None:
    """Return the delay of a RetryInfo among an error's details, such as `34s`."""
    try:
        entries = details["error"]["details"]
        delays = [e["retryDelay"] for e in entries if e.get("@type", "").endswith(RETRY_INFO)]
        match = _DURATION.fullmatch(delays[0])
    except (KeyError, TypeError, IndexError, AttributeError):
        return None
    return float(match[1]) if match else None
