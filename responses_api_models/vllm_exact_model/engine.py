"""HTTP calls of a vLLM that was started with `--enable-scale-out`."""

import asyncio
import json
import logging
import random
from typing import Any

import httpx

from responses_api_models.provider_calls import BROKEN_REPLY, timed_out, to_json, unreachable
from responses_api_models.provider_errors import TOO_LONG, ProviderError

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
RETRIED_BELOW_500 = {408, 409, 429}
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
# What vLLM says of a prompt that is too long: where it renders one, and where it is given one.
TOO_LONG_TEXTS = ("maximum context length", "maximum model length")

Json = dict[str, Any]


class Engine:
    """A client of one vLLM.

    Args:
        base_url: Where it is, with or without `/v1` behind.
        api_key: Its `--api-key`; anything if it has none.
        headers: More headers.
        timeout_s: Longest wait in seconds for one attempt's whole answer.
        max_retries: How often a failed attempt is repeated.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        headers: dict[str, str],
        timeout_s: float,
        max_retries: int,
    ) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._timeout_s = timeout_s
        self._attempts = max_retries + 1
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers={
                **headers,
                "authorization": f"Bearer {api_key}",
                "content-type": "application/json",
            },
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
            # How many requests are in flight is the caller's to decide.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def tokenize(self, model: str, text: str) -> list[int]:
        """Return a text's tokens, without those that only begin or end a prompt."""
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        return (await self.post("/tokenize", body))["tokens"]

    async def render(self, chat: Json) -> Json:
        """Return what `/inference/v1/generate` would be asked for a chat, without image data."""
        return await self.post("/v1/chat/completions/render", {**chat, "mm_payload": "none"})

    async def generate(self, request: Json) -> Json:
        """Have tokens continued."""
        return await self.post("/inference/v1/generate", request)

    async def derender(self, request: Json) -> Json:
        """Have generated tokens read as a chat message, by the engine's own parsers."""
        return await self.post("/v1/chat/completions/derender", request)

    async def post(self, path: str, body: Json) -> Any:
        """Send one request, repeating it after failures that may pass.

        Returns:
            The answer's JSON.

        Raises:
            ProviderError: vLLM refused the request, failed, or could not be reached.
        """
        content = to_json(body)
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._send(path, content)
            except ProviderError as error:
                passing = error.status >= 500 or error.status in RETRIED_BELOW_500
                if not passing or attempt == self._attempts:
                    logger.warning("vLLM's %s failed with %d: %s", path, error.status, error)
                    raise
            longest = min(FIRST_DELAY_S * 2 ** (attempt - 1), LONGEST_DELAY_S)
            await asyncio.sleep(longest * random.uniform(0.75, 1))
        raise AssertionError("there is at least one attempt")

    async def _send(self, path: str, content: bytes) -> Any:
        try:
            # httpx's own timeout is between two pieces of an answer.
            async with asyncio.timeout(self._timeout_s):
                answer = await self._http.post(path, content=content)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise timed_out("vLLM", self._timeout_s, self._attempts) from error
        except httpx.HTTPError as error:
            raise unreachable("vLLM", self.base_url, repr(error), self._attempts) from error
        if not answer.is_success:
            raise _from_answer(path, answer)
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise unreachable("vLLM", self.base_url, BROKEN_REPLY, self._attempts) from error


def _from_answer(path: str, answer: httpx.Response) -> ProviderError:
    """Build the caller's error from an error answer."""
    try:
        error = answer.json()["error"]
        message, kind = str(error["message"]), str(error.get("type") or "provider_error")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, kind = answer.text[:500] or answer.reason_phrase, "provider_error"
    code = None
    if answer.status_code in (400, 413) and any(text in message for text in TOO_LONG_TEXTS):
        code = TOO_LONG
    elif answer.status_code == 404 and "model" not in message:
        message = f"vLLM has no {path}: it must be 0.32 or newer."
    return ProviderError(answer.status_code, message, kind=kind, code=code)
