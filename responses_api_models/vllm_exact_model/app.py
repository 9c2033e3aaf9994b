"""NeMo Gym model server for a vLLM, with prompts that continue the exact tokens of each reply."""

import sys
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from pydantic import Field, PrivateAttr, model_validator

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

from responses_api_models.provider_calls import close_at_shutdown
from responses_api_models.provider_errors import ProviderError, report_provider_errors
from responses_api_models.vllm_exact_model.engine import Engine
from responses_api_models.vllm_exact_model.exact_chat import ExactChat

# Settings of `vllm_model` that ask vLLM in another way, or follow one that moves.
UNSUPPORTED = (
    "continue_final_assistant_message",
    "endpoint_file",
    "forward_session_id_as_conversation_id",
    "is_responses_native",
    "supply_prefix_token_ids",
    "use_completions_api",
)


class VLLMExactModelConfig(VLLMModelConfig):
    """Settings of the server: those of NeMo Gym's `vllm_model`, and some more.

    Attributes:
        timeout_s: Longest wait in seconds for one attempt's answer.
        max_retries: How often a failed attempt is repeated: on 408, 409, 429 and 5xx, on a lost
            connection and on a timeout.
    """

    return_token_id_information: Literal[True] = True
    uses_reasoning_parser: bool = True
    timeout_s: float = Field(default=600, gt=0)
    max_retries: int = Field(default=4, ge=0)

    @model_validator(mode="after")
    def _refuse_unsupported(self) -> "VLLMExactModelConfig":
        for name in UNSUPPORTED:
            if getattr(self, name):
                raise ValueError(f"vllm_exact_model has no {name}: use vllm_model")
        return self


class VLLMExactModel(VLLMModel):
    """Answers as `vllm_model` does, but for the tokens of a prompt.

    It keeps no state of a conversation.
    """

    config: VLLMExactModelConfig

    _engines: list[Engine] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Ask vLLM's token endpoints in the place of its chat endpoint."""
        super().model_post_init(context)
        config = self.config
        self._engines = [
            Engine(
                url,
                config.api_key,
                headers=config.default_headers,
                timeout_s=config.timeout_s,
                max_retries=config.max_retries,
            )
            for url in config.base_url
        ]
        # They have the one method of its client that the rest of `VLLMModel` calls.
        self._clients: list[Any] = [ExactChat(engine) for engine in self._engines]

    def setup_webserver(self) -> FastAPI:
        """Build the app; its shutdown closes the connections to vLLM."""
        app = super().setup_webserver()
        report_provider_errors(app)
        close_at_shutdown(app, self._close)
        return app

    async def _close(self) -> None:
        for engine in self._engines:
            await engine.close()

    async def responses(
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming
    ) -> NeMoGymResponse:
        """Answer one request.

        Raises:
            ProviderError: vLLM refused it, failed, or could not be reached, or the request has
                something that a chat cannot have.
        """
        try:
            return await super().responses(request, body)
        except NotImplementedError as error:
            raise ProviderError(
                400, str(error), kind="invalid_request_error", code="unsupported"
            ) from error


if __name__ == "__main__":
    VLLMExactModel.run_webserver()
