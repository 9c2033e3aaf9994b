"""The tiny policy as a server of the Chat Completions API, with tokens as vLLM gives them."""

from __future__ import annotations

import time
import uuid
from base64 import b64decode
from typing import Any

from fastapi import Body, FastAPI, HTTPException

from examples.tiny_policy import TinyPolicy
from examples.tiny_tokens import prompt_of, text_of

MODEL = "tiny-policy"


class TinyServer:
    """The server.

    Attributes:
        app: serves `/v1/chat/completions`.
        policy: who answers; another one may be put in its place at any time.
    """

    def __init__(self, policy: TinyPolicy) -> None:
        """Serve a policy."""
        self.policy = policy
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self._complete)

    async def _complete(self, body: dict[str, Any] = Body()) -> dict[str, Any]:
        if body.get("temperature") not in (None, 1) or body.get("top_p") not in (None, 1):
            raise HTTPException(400, "temperature, top_p: only 1 is served, or none")
        try:
            prompt, images = prompt_of(body["messages"])
            if not images:
                raise ValueError("there is no image to look at")
            scheme, _, data = images[-1].partition(";base64,")
            if not scheme.startswith("data:"):
                raise ValueError("images must be data URLs")
        except (KeyError, ValueError) as error:
            raise HTTPException(400, f"messages: {error}") from error
        tokens, log_probs = self.policy.reply(b64decode(data))
        logged = [
            {"token": f"token_id:{token}", "logprob": log_prob, "top_logprobs": []}
            for token, log_prob in zip(tokens, log_probs, strict=True)
        ]
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": MODEL,
            "prompt_token_ids": prompt,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text_of(tokens)},
                    "finish_reason": "stop",
                    "logprobs": {"content": logged},
                    "token_ids": tokens,
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(tokens),
                "total_tokens": len(prompt) + len(tokens),
            },
        }
