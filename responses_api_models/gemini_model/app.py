"""NeMo Gym model server for Gemini's computer-use models, in the Responses format."""

import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from pydantic import Field, PrivateAttr, field_validator

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from responses_api_models.api_keys import MissingApiKey, is_placeholder, usable_key
from responses_api_models.gemini_model.actions import Defaults
from responses_api_models.gemini_model.functions import PREDEFINED, function_set_of
from responses_api_models.gemini_model.settings import InvalidRequest, Settings
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from responses_api_models.gemini_model.transport import Access, GeminiClient
from responses_api_models.provider_calls import close_at_shutdown, read_reply, slots
from responses_api_models.provider_errors import (
    ProviderError,
    report_provider_errors,
    responses_only,
)

KEY_EXAMPLES = ("aiza...", "aizayour")


class GeminiModelConfig(BaseResponsesAPIModelConfig):
    """Settings of the server.

    Attributes:
        gemini_api_key: The key. Required without Vertex AI; checked when the server starts.
        gemini_model: The model to ask; a request's own `model` is replaced.
        gemini_base_url: Address to use in place of Google's, without an API version.
        vertex: Use Vertex AI. Without a key, `vertex_project` and `vertex_location` are required
            and the machine's application default credentials are used.
        vertex_project: Google Cloud project.
        vertex_location: Google Cloud location, such as `global`.
        function_set: Predefined functions of the model; `auto` decides by its name.
        excluded_functions: Predefined functions the model must not call.
        detect_prompt_injection: Have screenshots searched for hidden instructions. Current models
            only.
        disabled_safety_policies: Built-in safety policies to turn off, such as
            `FINANCIAL_TRANSACTIONS`.
        include_thoughts: Ask for summaries of the model's thoughts.
        type_text_at_presses_enter: Whether `type_text_at` presses Enter unless it says otherwise.
        search_url: Where `search` goes.
        timeout_s: Longest wait in seconds for one attempt's answer.
        max_retries: How often a failed attempt is repeated: on 408, 429 and 5xx, on a lost
            connection and on a timeout.
        max_concurrent_requests: Most requests in flight at once; no limit by default.
    """

    gemini_api_key: str | None = None
    gemini_model: str
    gemini_base_url: str | None = None
    vertex: bool = False
    vertex_project: str | None = None
    vertex_location: str | None = None
    function_set: Literal["auto", "current", "legacy"] = "auto"
    excluded_functions: list[str] = Field(default_factory=lambda: ["key_down", "key_up"])
    detect_prompt_injection: bool = False
    disabled_safety_policies: list[str] = Field(default_factory=list)
    include_thoughts: bool = True
    type_text_at_presses_enter: bool = True
    search_url: str = "https://www.google.com/"
    timeout_s: float = Field(default=300, gt=0)
    max_retries: int = Field(default=4, ge=0)
    max_concurrent_requests: int | None = Field(default=None, ge=1)

    @field_validator("excluded_functions")
    @classmethod
    def _are_predefined(cls, names: list[str]) -> list[str]:
        if unknown := sorted(set(names) - PREDEFINED):
            raise ValueError(f"not predefined functions of Gemini: {', '.join(unknown)}")
        return names

    def settings(self) -> Settings:
        """Return what the translation needs."""
        functions = self.function_set
        return Settings(
            model=self.gemini_model,
            functions=function_set_of(self.gemini_model) if functions == "auto" else functions,
            excluded_functions=frozenset(self.excluded_functions),
            detect_prompt_injection=self.detect_prompt_injection,
            disabled_safety_policies=tuple(self.disabled_safety_policies),
            include_thoughts=self.include_thoughts,
            defaults=Defaults(self.type_text_at_presses_enter, self.search_url),
        )

    def access(self) -> Access:
        """Return how to reach the API.

        Raises:
            MissingApiKey: It is absent or a placeholder, and there is no project on Vertex AI.
        """
        has_project = bool(self.vertex_project and self.vertex_location)
        if self.vertex:
            key = (self.gemini_api_key or "").strip()
            if is_placeholder(key, KEY_EXAMPLES):
                key = ""
            if not key and not has_project:
                raise MissingApiKey(
                    "gemini_model: Vertex AI needs vertex_project and vertex_location, or a key in "
                    "cua_gemini_api_key."
                )
        else:
            key = usable_key(
                self.gemini_api_key,
                server="gemini_model",
                provider="Gemini",
                setting="cua_gemini_api_key",
                variable="GEMINI_API_KEY",
                examples=KEY_EXAMPLES,
            )
        return Access(
            api_key=key or None,
            vertex=self.vertex,
            project=self.vertex_project if self.vertex and has_project else None,
            location=self.vertex_location if self.vertex and has_project else None,
            base_url=self.gemini_base_url,
        )


class GeminiModel(SimpleResponsesAPIModel):
    """Translates Responses requests for Gemini, and its replies back.

    It keeps no state between requests.
    """

    ray_enabled = False
    config: GeminiModelConfig

    _client: GeminiClient = PrivateAttr()
    _settings: Settings = PrivateAttr()
    _slot: AbstractAsyncContextManager[Any] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Create the client.

        Raises:
            MissingApiKey: There is no usable key or project.
        """
        config = self.config
        self._settings = config.settings()
        self._client = GeminiClient(
            config.access(),
            config.gemini_model,
            timeout_s=config.timeout_s,
            max_retries=config.max_retries,
        )
        self._slot = slots(config.max_concurrent_requests)
        super().model_post_init(context)

    @property
    def address(self) -> str:
        """Where requests go."""
        return self._client.base_url

    @property
    def is_closed(self) -> bool:
        """Whether the server has shut down."""
        return self._client.is_closed

    def setup_webserver(self) -> FastAPI:
        """Build the app; its shutdown closes the client's connections."""
        app = super().setup_webserver()
        report_provider_errors(app)
        close_at_shutdown(app, self._client.close)
        return app

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming) -> NeMoGymResponse:
        """Answer one request.

        Raises:
            ProviderError: The request cannot be translated, or Gemini refused it, failed, or
                could not be reached.
        """
        try:
            request, turn = to_gemini(
                body.model_dump(mode="json", exclude_unset=True), self._settings
            )
        except InvalidRequest as error:
            raise ProviderError(
                400, str(error), kind="invalid_request_error", code="unsupported"
            ) from error
        async with self._slot:
            answer = await self._client.generate(request)
        return read_reply(
            "Gemini", lambda: from_gemini(answer, turn, self._settings, now=int(time.time()))
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming
    ) -> NeMoGymChatCompletion:
        """Refuse: computer calls exist in the Responses format alone.

        Raises:
            ProviderError: Always, with status 501.
        """
        raise responses_only("gemini_model")


def main() -> None:
    """Run the server, or end with one line that names what is missing."""
    try:
        GeminiModel.run_webserver()
    except MissingApiKey as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
