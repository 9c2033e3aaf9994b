"""NeMo Gym model server that follows a script per task: for demos and tests, without a key."""

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from pydantic import PrivateAttr

# NeMo Gym starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from responses_api_models.provider_errors import (
    ProviderError,
    report_provider_errors,
    responses_only,
)
from responses_api_models.scripted_model.reply import build_reply
from responses_api_models.scripted_model.script import (
    InvalidScript,
    Script,
    UnplaceableRequest,
    parse_scripts,
)

PROJECT_ROOT = Path(__file__).resolve().parents[2]


class ScriptedModelConfig(BaseResponsesAPIModelConfig):
    """Settings of the server.

    Attributes:
        scripts_path: The scripts file, relative to the project's root. Read once, at start.
    """

    scripts_path: str


def load_scripts(path: Path) -> dict[str, Script]:
    """Read a scripts file.

    Raises:
        InvalidScript: It cannot be read, is not JSON, or holds a script that cannot be followed.
    """
    try:
        return parse_scripts(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidScript(f"scripts_path: cannot read {path}: {error.strerror}") from error
    except InvalidScript as error:
        raise InvalidScript(f"{path}: {error}") from error
    except ValueError as error:
        raise InvalidScript(f"{path}: not JSON: {error}") from error


class ScriptedModel(SimpleResponsesAPIModel):
    """Answers with the next turn of a task's script; keeps no state between requests."""

    ray_enabled = False
    config: ScriptedModelConfig

    _scripts: dict[str, Script] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Read the scripts.

        Raises:
            InvalidScript: They cannot be followed.
        """
        self._scripts = load_scripts(PROJECT_ROOT / self.config.scripts_path)
        super().model_post_init(context)

    def setup_webserver(self) -> FastAPI:
        """Build the app."""
        app = super().setup_webserver()
        report_provider_errors(app)
        return app

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming) -> NeMoGymResponse:
        """Answer one request.

        Raises:
            ProviderError: The request is at no place of a script (status 400).
        """
        request = body.model_dump(mode="json", exclude_unset=True)
        try:
            reply = build_reply(
                request, self._scripts, token=uuid.uuid4().hex, now=int(time.time())
            )
        except UnplaceableRequest as error:
            raise ProviderError(400, str(error), kind="invalid_request_error") from error
        return NeMoGymResponse.model_validate(reply)

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming
    ) -> NeMoGymChatCompletion:
        """Refuse: a script's computer calls exist in the Responses API alone.

        Raises:
            ProviderError: Always, with status 501.
        """
        raise responses_only("scripted_model")


def main() -> None:
    """Run the server, or end with one line that says what is wrong with the scripts."""
    try:
        ScriptedModel.run_webserver()
    except InvalidScript as error:
        raise SystemExit(f"scripted_model: {error}") from None


if __name__ == "__main__":
    main()
