"""A small stand-in for NeMo Gym's `vllm_model`: its own converter around a script.

What the converter refuses, this refuses. Tokens are made up, but carried as NeMo Gym does: on the
last item of a reply, and expected back on the assistant message of the chat. For each image there
is one `IMAGE` among them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from fastapi import Body, FastAPI
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.responses_converter import ResponsesConverter

Json = dict[str, Any]
IMAGE = 0
TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


class FakeVllm:
    """The server.

    Attributes:
        chats: the messages of each request, as a chat.
        echoed: of each request, how many of its assistant messages had their tokens.
        tokens: the token fields of each reply.
    """

    def __init__(
        self,
        script: Callable[[int], Json],
        *,
        drifting_at: int | None = None,
        tokens_on_each_item: bool = False,
    ) -> None:
        """Answer with assistant messages.

        Args:
            script: given how many replies came before, returns `content` and `tool_calls`.
            drifting_at: the reply, counted from 0, whose prompt is made anew.
            tokens_on_each_item: begin replies with an empty message that has their tokens too.
        """
        self.chats: list[list[Json]] = []
        self.echoed: list[int] = []
        self.tokens: list[Json] = []
        self._drifting_at = drifting_at
        self._on_each = tokens_on_each_item
        self._script = script
        self._converter = ResponsesConverter(return_token_id_information=True)
        self._ids = itertools.count(1)
        self.app = FastAPI()
        for prefix in ("", "/ng-rollout/{rollout}"):
            self.app.post(f"{prefix}/v1/responses", response_model=None)(self._respond)

    async def _respond(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        chat = self._converter.responses_to_chat_completion_create_params(
            body.model_copy(deep=True)
        )
        messages = chat.model_dump(mode="json", exclude_unset=True)["messages"]
        theirs = [message for message in messages if message["role"] == "assistant"]
        echoed = [{name: m[name] for name in TOKEN_FIELDS} for m in theirs if TOKEN_FIELDS[0] in m]
        assert all(fields in self.tokens for fields in echoed), "not as they were given"
        self.echoed.append(len(echoed))
        exact = bool(echoed) and len(self.tokens) != self._drifting_at
        prompt = _seen(echoed[-1]) if exact else []
        pictures = [IMAGE] * (_images(messages) - prompt.count(IMAGE))
        prompt += [next(self._ids), *pictures, next(self._ids)]
        generated = [next(self._ids), next(self._ids)]
        tokens: Json = dict(zip(TOKEN_FIELDS, (prompt, generated, [-0.5, -0.25]), strict=True))
        message = {"role": "assistant", **self._script(len(self.tokens)), **tokens}
        self.chats.append(messages)
        self.tokens.append(tokens)
        completion = NeMoGymChatCompletion.model_validate(
            {
                "id": f"chat-{len(self.tokens)}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": "policy",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": len(prompt), "completion_tokens": 2, "total_tokens": 9},
            }
        )
        body.model = "policy"
        response = self._converter.chat_completion_to_response(body, completion)
        if self._on_each:
            response.output.insert(0, response.output[0].model_copy(update={"content": []}))
        return response


def _seen(fields: Json) -> list[int]:
    return fields["prompt_token_ids"] + fields["generation_token_ids"]


def _images(messages: list[Json]) -> int:
    contents = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    return sum(part["type"] == "image_url" for content in contents for part in content)
