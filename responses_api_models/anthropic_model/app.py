"""NeMo Gym model server for Anthropic's Messages API, computer and browser tools included."""

import asyncio
import logging
import re
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anthropic
import httpx
from fastapi import FastAPI
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from pydantic import Field, PrivateAttr

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from responses_api_models.anthropic_model.errors import BadRequest
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.translate import (
    AnthropicRequest,
    build_response,
    to_anthropic,
)
from responses_api_models.api_keys import MissingApiKey, usable_key
from responses_api_models.provider_calls import (
    close_at_shutdown,
    read_reply,
    slots,
    timed_out,
    to_json,
    unreachable,
    whole_answers,
)
from responses_api_models.provider_errors import (
    TOO_LONG,
    ProviderError,
    report_provider_errors,
    responses_only,
)

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
KEY_EXAMPLES = ("sk-ant-...", "sk-ant-your")

# How Anthropic says that a conversation has become too long: in tokens, bytes or images.
_SAYS_TOO_LONG = re.compile(
    r"(prompt|input) is too long|exceed context limit|too many images", re.IGNORECASE
)
_TOO_LARGE = "request_too_large"


class AnthropicModelConfig(BaseResponsesAPIModelConfig, RequestSettings):
    """Settings of the server, with those of its requests.

    Attributes:
        anthropic_api_key: The key. Required; checked when the server starts.
        anthropic_base_url: Base URL of the API, without `/v1`.
        timeout_s: Longest wait in seconds for one attempt's answer to begin, and as long again for
            the rest of it.
        max_retries: How often a failed attempt is repeated: on 408, 409, 429 and 5xx (529, which
            is overload, too), on a lost connection and on a timeout. `retry-after` is honoured up
            to 60 s.
        max_concurrent_requests: Most requests in flight at once; no limit by default.
    """

    anthropic_api_key: str | None = None
    anthropic_base_url: str = "https://api.anthropic.com"
    timeout_s: float = Field(default=300, gt=0)
    max_retries: int = Field(default=4, ge=0)
    max_concurrent_requests: int | None = Field(default=None, ge=1)


class AnthropicModel(SimpleResponsesAPIModel):
    """Translates Responses requests to Anthropic's Messages API and the replies back.

    It keeps no state between requests.
    """

    ray_enabled = False
    config: AnthropicModelConfig

    _client: anthropic.AsyncAnthropic = PrivateAttr()
    _slot: AbstractAsyncContextManager[Any] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Create the client.

        Raises:
            MissingApiKey: There is no usable key.
        """
        config = self.config
        key = usable_key(
            config.anthropic_api_key,
            server="anthropic_model",
            provider="Anthropic",
            setting="cua_anthropic_api_key",
            variable="ANTHROPIC_API_KEY",
            examples=KEY_EXAMPLES,
        )
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=config.anthropic_base_url,
            timeout=httpx.Timeout(
                config.timeout_s, connect=min(CONNECT_TIMEOUT_S, config.timeout_s)
            ),
            max_retries=config.max_retries,
            http_client=anthropic.DefaultAioHttpClient(
                event_hooks={"response": [whole_answers(config.timeout_s)]}
            ),
        )
        self._slot = slots(config.max_concurrent_requests)
        super().model_post_init(context)

    def setup_webserver(self) -> FastAPI:
        """Build the app; its shutdown closes the client's connections."""
        app = super().setup_webserver()
        report_provider_errors(app)
        close_at_shutdown(app, self._client.close)
        return app

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming) -> NeMoGymResponse:
        """Answer one request.

        Raises:
            ProviderError: The request cannot be translated, or Anthropic refused it, failed, or
                could not be reached.
        """
        fields = body.model_dump(mode="json", exclude_unset=True)
        try:
            # In a thread, since a screenshot may have to be shrunk.
            request = await asyncio.to_thread(to_anthropic, fields, self.config)
        except BadRequest as error:
            raise ProviderError(
                400, str(error), kind="invalid_request_error", code="invalid_value"
            ) from error
        async with self._slot:
            reply = await self._post(request)
        return read_reply(
            "Anthropic", lambda: build_response(reply.json(), request.offer, now=time.time())
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming
    ) -> NeMoGymChatCompletion:
        """Refuse: chat completions have no place for thinking and for screenshots as results.

        Raises:
            ProviderError: Always, with status 501.
        """
        raise responses_only("anthropic_model")

    async def _post(self, request: AnthropicRequest) -> httpx.Response:
        """Send one request through the SDK, which retries, and return the untouched reply."""
        headers = {"content-type": "application/json"}
        if request.betas:
            headers["anthropic-beta"] = ",".join(request.betas)
        try:
            return await self._client.post(
                "/v1/messages",
                content=to_json(request.body),
                cast_to=httpx.Response,
                options={"headers": headers},
            )
        except anthropic.APIStatusError as error:
            failure = _from_status(error.response)
        except anthropic.APIConnectionError as error:
            failure = self._from_connection(error)
        logger.warning("Anthropic call failed with %d: %s", failure.status, failure.message)
        raise failure

    def _from_connection(self, error: anthropic.APIConnectionError) -> ProviderError:
        """Build the caller's error from one without an answer.

        The transport calls a refused connection a timeout, so what caused it decides.
        """
        config = self.config
        attempts = config.max_retries + 1
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            return timed_out("Anthropic", config.timeout_s, attempts)
        reason = error.__cause__ or error
        return unreachable("Anthropic", config.anthropic_base_url, reason, attempts)


def _from_status(response: httpx.Response) -> ProviderError:
    """Build the caller's error from an error answer of Anthropic (or of a gateway before it)."""
    try:
        error = response.json()["error"]
        message, kind = str(error["message"]), str(error["type"])
    except (ValueError, KeyError, TypeError, AttributeError):
        message, kind = response.text[:500] or response.reason_phrase, "provider_error"
    retry_after = response.headers.get("retry-after")
    refused = response.status_code == 400 and _SAYS_TOO_LONG.search(message)
    return ProviderError(
        response.status_code,
        message,
        kind=kind,
        code=TOO_LONG if refused or kind == _TOO_LARGE else kind,
        headers={} if retry_after is None else {"retry-after": retry_after},
    )


def main() -> None:
    """Run the server, or end with one line that names the missing key."""
    try:
        AnthropicModel.run_webserver()
    except MissingApiKey as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
