"""NeMo Gym model server for OpenAI's Responses API, computer tools included."""

import logging
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import httpx
import openai
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

from responses_api_models.api_keys import MissingApiKey, usable_key
from responses_api_models.openai_computer_model.translate import from_openai, to_openai
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
# HTTP status of a reply with the status `failed`, by its error code; 400 for the others, which name
# something wrong with the request.
FAILED_STATUSES = {"server_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 504}
KEY_EXAMPLES = ("sk-...", "sk-your")


class OpenAIComputerModelConfig(BaseResponsesAPIModelConfig):
    """Settings of the server.

    Attributes:
        openai_api_key: The key. Required; checked when the server starts.
        openai_base_url: Base URL of the API.
        openai_model: The model to ask; a request's own `model` is replaced.
        openai_organization: Organization to bill, if the key belongs to several.
        openai_project: Project to bill, if the key belongs to several.
        openai_api_version: `api-version` of each request's query, which Azure's dated API asks for.
        openai_key_header: The header that carries the key: `authorization` (as a bearer token), or
            `api-key`, as Azure and some gateways have it.
        openai_headers: More headers, for gateways.
        timeout_s: Longest wait in seconds for one attempt's answer to begin, and as long again for
            the rest of it.
        max_retries: How often a failed attempt is repeated: on 408, 409, 429 and 5xx, on a lost
            connection and on a timeout. `retry-after` is honoured up to 60 s.
        max_concurrent_requests: Most requests in flight at once; no limit by default.
    """

    openai_api_key: str | None = None
    openai_base_url: str = "https://api.openai.com/v1"
    openai_model: str
    openai_organization: str | None = None
    openai_project: str | None = None
    openai_api_version: str | None = None
    openai_key_header: Literal["authorization", "api-key"] = "authorization"
    openai_headers: dict[str, str] = Field(default_factory=dict)
    timeout_s: float = Field(default=300, gt=0)
    max_retries: int = Field(default=4, ge=0)
    max_concurrent_requests: int | None = Field(default=None, ge=1)


class OpenAIComputerModel(SimpleResponsesAPIModel):
    """Passes Responses requests to OpenAI and makes the replies valid for NeMo Gym.

    It keeps no state between requests.
    """

    ray_enabled = False
    config: OpenAIComputerModelConfig

    _client: openai.AsyncOpenAI = PrivateAttr()
    _headers: dict[str, str | openai.Omit] = PrivateAttr()
    _slot: AbstractAsyncContextManager[Any] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Create the client.

        Raises:
            MissingApiKey: There is no usable key.
        """
        config = self.config
        key = usable_key(
            config.openai_api_key,
            server="openai_computer_model",
            provider="OpenAI",
            setting="cua_openai_api_key",
            variable="OPENAI_API_KEY",
            examples=KEY_EXAMPLES,
        )
        self._headers = {**config.openai_headers}
        if config.openai_key_header == "api-key":
            self._headers |= {"api-key": key, "Authorization": openai.omit}
        version = config.openai_api_version
        self._client = openai.AsyncOpenAI(
            api_key=key,
            base_url=config.openai_base_url,
            organization=config.openai_organization,
            project=config.openai_project,
            default_query={"api-version": version} if version else None,
            timeout=httpx.Timeout(
                config.timeout_s, connect=min(CONNECT_TIMEOUT_S, config.timeout_s)
            ),
            max_retries=config.max_retries,
            http_client=openai.DefaultAsyncHttpxClient(
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
            ProviderError: OpenAI refused it, failed, or could not be reached.
        """
        request = to_openai(
            body.model_dump(mode="json", exclude_unset=True), model=self.config.openai_model
        )
        async with self._slot:
            reply = await self._post(request)
        content = reply.json()
        translated = read_reply("OpenAI", lambda: from_openai(content))
        if translated.status == "failed":
            error = content.get("error") or {}
            raise _from_failed(error if isinstance(error, dict) else {"message": error})
        return translated

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming
    ) -> NeMoGymChatCompletion:
        """Refuse: OpenAI's computer tools exist in the Responses API alone.

        Raises:
            ProviderError: Always, with status 501.
        """
        raise responses_only("openai_computer_model")

    async def _post(self, request: dict[str, Any]) -> httpx.Response:
        """Send one request through the SDK, which retries, and return the untouched reply."""
        try:
            return await self._client.post(
                "/responses",
                content=to_json(request),
                cast_to=httpx.Response,
                options={"headers": {"content-type": "application/json", **self._headers}},
            )
        except openai.APIStatusError as error:
            failure = _from_status(error.response)
        except openai.APITimeoutError:
            failure = timed_out("OpenAI", self.config.timeout_s, self.config.max_retries + 1)
        except openai.APIConnectionError as error:
            failure = unreachable(
                "OpenAI",
                self.config.openai_base_url,
                error.__cause__ or error,
                self.config.max_retries + 1,
            )
        logger.warning("OpenAI call failed with %d: %s", failure.status, failure.message)
        raise failure


def _from_status(response: httpx.Response) -> ProviderError:
    """Build the caller's error from an error answer of OpenAI (or of a gateway before it)."""
    try:
        error = response.json()["error"]
        message, kind, code = str(error["message"]), error.get("type"), error.get("code")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, kind, code = response.text[:500] or response.reason_phrase, None, None
    if response.status_code == 413:
        code = TOO_LONG  # in bytes; OpenAI itself names it so in tokens
    retry_after = response.headers.get("retry-after")
    return ProviderError(
        response.status_code,
        message,
        kind=str(kind or "provider_error"),
        code=None if code is None else str(code),
        headers={} if retry_after is None else {"retry-after": retry_after},
    )


def _from_failed(error: dict[str, Any]) -> ProviderError:
    """Build the caller's error from the `error` of a reply that came with HTTP 200 but failed."""
    code = str(error.get("code") or "server_error")
    return ProviderError(
        FAILED_STATUSES.get(code, 400),
        str(error.get("message") or "OpenAI's reply has the status 'failed'."),
        kind="provider_error",
        code=code,
    )


def main() -> None:
    """Run the server, or end with one line that names the missing key."""
    try:
        OpenAIComputerModel.run_webserver()
    except MissingApiKey as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
