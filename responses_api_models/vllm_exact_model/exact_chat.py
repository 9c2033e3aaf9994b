"""Chat completions whose prompt continues the tokens that stand on the messages.

NeMo Gym's `VLLMModel` does all the rest: it asks this where it would ask `/v1/chat/completions`.
"""

import asyncio
import base64
import io
import logging
import secrets
import time
from typing import Any

from PIL import Image

from responses_api_models.provider_errors import TOO_LONG, ProviderError
from responses_api_models.vllm_exact_model.engine import Engine, Json
from responses_api_models.vllm_exact_model.splice import (
    Call,
    NotContinuable,
    Prompt,
    Range,
    continued,
    rendered,
)

logger = logging.getLogger(__name__)

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
# They change a prompt where it is rendered, but cannot be given to `/inference/v1/generate`.
UNSUPPORTED = ("mm_processor_kwargs", "media_io_kwargs", "continue_final_message")
# Low enough for a token never to be sampled.
NEVER = -100.0


def _placeholder_image() -> str:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


# Stands for images whose tokens are known already: a template counts them, and a large one costs
# a tenth of a second each time it is rendered.
PLACEHOLDER_IMAGE = _placeholder_image()


class ExactChat:
    """The chat completions of one vLLM. It keeps nothing of a conversation.

    Args:
        engine: The vLLM.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # A page cannot guess it, so its text never looks like it.
        self._mark = f"Reply{secrets.token_hex(8)}ends"
        self._mark_ids: list[int] | None = None
        self._mark_lock = asyncio.Lock()

    async def create_chat_completion(self, **body: Any) -> Json:
        """Answer one request as vLLM's `/v1/chat/completions` does, with token ids on the message.

        Args:
            body: The request; assistant messages may have the three token fields.

        Raises:
            ProviderError: vLLM refused it, failed, or could not be reached.
        """
        chat, images, call = _read(body)
        max_tokens = chat.pop("max_completion_tokens", None) or chat.pop("max_tokens", None)
        chat.pop("max_tokens", None)
        form, prompt = await self._prompt(chat, call)
        request = _generate_request(form, prompt, images, max_tokens)
        reply = await self._engine.generate(request)
        return await self._read_reply(reply, form, chat, prompt)

    async def _prompt(self, chat: Json, call: Call | None) -> tuple[Json, Prompt]:
        """Return the form of a generate request, and the prompt to fill in."""
        if call:
            try:
                return await self._continued(chat, call)
            except NotContinuable as error:
                logger.warning("The conversation is rendered anew: %s", error)
        form = await self._engine.render(_bare(chat))
        try:
            return form, rendered(form["token_ids"], _ranges(form))
        except NotContinuable as error:
            raise ProviderError(
                501,
                f"{error}: use NeMo Gym's vllm_model.",
                kind="invalid_request_error",
                code="not_implemented",
            ) from error

    async def _continued(self, chat: Json, call: Call) -> tuple[Json, Prompt]:
        messages = chat["messages"]
        last = max(at for at, message in enumerate(messages) if _has_tokens(message))
        before = [_with_placeholder_images(message) for message in messages[:last]]
        marked = {"role": "assistant", "content": self._mark}
        mark = await self._tokens_of_mark(chat["model"])
        try:
            form = await self._engine.render(
                _bare({**chat, "messages": [*before, marked, *messages[last + 1 :]]})
            )
        except ProviderError as error:
            # Some templates want the call that a tool's result answers.
            if error.status != 400 or error.code == TOO_LONG:
                raise
            raise NotContinuable(f"it cannot be rendered with a mark: {error.message}") from error
        images_before = sum(len(_images_of(message)) for message in before)
        prompt = continued(
            call, form["token_ids"], _ranges(form), mark=mark, images_before=images_before
        )
        return form, prompt

    async def _tokens_of_mark(self, model: str) -> list[int]:
        async with self._mark_lock:
            if self._mark_ids is None:
                self._mark_ids = await self._engine.tokenize(model, self._mark)
            return self._mark_ids

    async def _read_reply(self, reply: Json, form: Json, chat: Json, prompt: Prompt) -> Json:
        """Return a generate request's reply as a chat completion."""
        try:
            choice = reply["choices"][0]
            ids, prompt_ids = choice["token_ids"], reply["prompt_token_ids"]
            log_probs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
            text, reason, usage = choice["text"], choice["finish_reason"], reply["usage"]
        except (KeyError, IndexError, TypeError) as error:
            raise _unusable(f"{error!r} is missing; vLLM must be 0.32 or newer") from error
        if reason not in ("stop", "length"):
            raise _unusable(f"generation ended with {reason!r}")
        if len(ids) != len(log_probs):
            raise _unusable(f"{len(ids)} tokens have {len(log_probs)} log probabilities")
        if prompt_ids != prompt.ids:
            logger.warning("vLLM expanded an image to other tokens than the conversation has.")
        message: Json = {"role": "assistant", "content": text}
        if _is_parsed(chat, form):
            message = await self._parsed(choice, prompt_ids, chat)
        message |= dict(zip(TOKEN_FIELDS, (prompt_ids, ids, log_probs), strict=True))
        calls = message.get("tool_calls")
        return {
            "id": reply["request_id"],
            "object": "chat.completion",
            "created": reply.get("created") or int(time.time()),
            "model": chat["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls" if calls and reason == "stop" else reason,
                    "message": message,
                }
            ],
            "usage": usage,
        }

    async def _parsed(self, choice: Json, prompt_ids: list[int], chat: Json) -> Json:
        """Return the message that the engine's parsers make of a generation."""
        ids = choice["token_ids"]
        # As the chat endpoint does: the token that ended the turn is no part of its text.
        if choice["finish_reason"] == "stop" and ids:
            if isinstance(choice.get("stop_reason"), str):
                raise ProviderError(
                    501,
                    "Stop strings cannot be used with tools or a reasoning parser.",
                    kind="invalid_request_error",
                    code="not_implemented",
                )
            ids = ids[:-1]
        if not ids:
            return {"role": "assistant", "content": ""}
        answer = await self._engine.derender(
            {
                "model": chat["model"],
                "generate_response": {
                    "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop"}],
                    "prompt_token_ids": prompt_ids,
                },
                # The parsers look at the tools and settings, never at the messages.
                "chat_request": {**chat, "messages": [{"role": "user", "content": ""}]},
            }
        )
        try:
            return dict(answer["choices"][0]["message"])
        except (KeyError, IndexError, TypeError) as error:
            raise _unusable(f"{error!r} is missing") from error


def _read(body: Json) -> tuple[Json, list[Json], Call | None]:
    """Return a request as one to change, its images in order, and the last call with tokens."""
    for name in UNSUPPORTED:
        if body.get(name):
            raise _refused(f"{name} is not supported: set it where vLLM is started, if at all.")
    told = [message for message in body["messages"] if _has_tokens(message)]
    call = Call(told[-1][TOKEN_FIELDS[0]], told[-1][TOKEN_FIELDS[1]]) if told else None
    images = [image for message in body["messages"] for image in _images_of(message)]
    return dict(body), images, call


def _has_tokens(message: Json) -> bool:
    return bool(message.get("generation_token_ids"))


def _images_of(message: Json) -> list[Json]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    others = {part["type"] for part in parts} - {"text", "image_url"}
    if others:
        raise _refused(f"messages can hold text and images, not {', '.join(sorted(others))}.")
    return [part for part in parts if part["type"] == "image_url"]


def _bare(chat: Json) -> Json:
    """Return a chat without token fields on its messages."""
    messages = [
        {name: value for name, value in message.items() if name not in TOKEN_FIELDS}
        for message in chat["messages"]
    ]
    return {**chat, "messages": messages}


def _with_placeholder_images(message: Json) -> Json:
    if not _images_of(message):
        return message
    small = {"type": "image_url", "image_url": {"url": PLACEHOLDER_IMAGE}}
    content = [small if part["type"] == "image_url" else part for part in message["content"]]
    return {**message, "content": content}


def _ranges(form: Json) -> list[Range]:
    features = form.get("features") or {}
    found = features.get("mm_placeholders") or {}
    return [(entry["offset"], entry["length"]) for entry in found.get("image", [])]


def _generate_request(
    form: Json, prompt: Prompt, images: list[Json], max_tokens: int | None
) -> Json:
    """Return the request that has a prompt continued, with the form's sampling parameters."""
    sampling = {**form["sampling_params"], "logprobs": 0}
    # The form's limit is for another prompt's length; without one vLLM takes what is left.
    sampling.pop("max_tokens", None)
    if max_tokens is not None:
        sampling["max_tokens"] = max_tokens
    if prompt.pad is not None:
        # A sampled one would be taken for an image, here and in any trainer.
        sampling["logit_bias"] = {**(sampling.get("logit_bias") or {}), str(prompt.pad): NEVER}
    kept = {
        name: form[name]
        for name in (
            "model",
            "reasoning_ended",
            "reasoning_parser_kwargs",
            "cache_salt",
            "priority",
        )
        if form.get(name) is not None
    }
    request = {
        **kept,
        "token_ids": prompt.short,
        "sampling_params": sampling,
        "output_mode": "text",
        "return_token_ids": True,
    }
    if images:
        request["content_parts"] = [
            {"type": "image_url", "url": image["image_url"]["url"]} for image in images
        ]
    return request


def _is_parsed(chat: Json, form: Json) -> bool:
    """Tell whether a chat endpoint would let a parser of tools or reasoning see the text."""
    tools = bool(chat.get("tools")) and chat.get("tool_choice") != "none"
    return tools or form.get("reasoning_parser_kwargs") is not None


def _refused(message: str) -> ProviderError:
    return ProviderError(400, message, kind="invalid_request_error", code="invalid_request")


def _unusable(reason: str) -> ProviderError:
    return ProviderError(
        502, f"vLLM's reply cannot be used: {reason}", kind="provider_error", code="bad_reply"
    )
