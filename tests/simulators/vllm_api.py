"""A strict simulator of a vLLM 0.32 that was started with `--enable-scale-out` and a tool parser.

It refuses what the real one refuses, with its words (each was tried), and unknown fields of a
generate request besides, which the real one ignores. Its "model" samples tokens at random, and
seldom those that its tokenizer would make of their text.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tests.simulators.vllm_tokens import (
    END,
    IDS,
    MARKS,
    PARTS,
    VOCABULARY,
    chat_text,
    decode,
    encode,
    expand,
    image_tokens,
)

GENERATE_FIELDS = {
    *("model", "token_ids", "sampling_params", "content_parts", "output_mode", "return_token_ids"),
    *("reasoning_ended", "reasoning_parser_kwargs", "cache_salt", "priority", "request_id"),
}
SAMPLING_FIELDS = {
    *("max_tokens", "temperature", "top_p", "top_k", "seed", "logprobs", "logit_bias", "stop"),
    *("skip_special_tokens", "stop_token_ids"),
}
_TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)

Json = dict[str, Any]
Sampler = Callable[[random.Random, int], list[int]]
"""Given a generator and how many tokens are allowed, says what the model samples."""


class Refusal(Exception):
    """An error answer of vLLM's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def babble(rng: random.Random, allowed: int) -> list[int]:
    """Sample words, bytes, thoughts, calls and special tokens, in pieces a tokenizer would join."""
    words = ("the click", " done", "\n\n", "Zürich", " \n", "<|vision_pad|>", "scroll the  page")
    text = "<think>I see the click.</think>\n\n" if rng.random() < 0.3 else ""
    text += "".join(rng.choice(words) for _ in range(rng.randint(0, 6)))
    if rng.random() < 0.3:
        text += '<tool_call>\n{"name":"click",  "arguments":{"x": 3}}\n</tool_call>'
    ids = in_pieces(text, rng)
    if rng.random() < 0.3:
        ids += [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 5))]
    return [*ids, END][:allowed]


def in_pieces(text: str, rng: random.Random) -> list[int]:
    """Return tokens of a text, most of them single bytes."""
    ids = []
    for token in encode(text):
        part = PARTS[token] if token < len(PARTS) else b""
        split = part and part.decode(errors="replace") not in MARKS and rng.random() < 0.7
        ids += [IDS[bytes([byte])] for byte in part] if split else [token]
    return ids


@dataclass
class VllmSimulator:
    """The simulated server.

    Attributes:
        sampler: The model.
        max_model_len: Most tokens of a prompt and its continuation.
        max_images: Most images of a prompt.
        model: The only model it has.
        prompts: The prompt of each generation, as the engine saw it.
        parts: The addresses of each generation's images.
        sampling: Each generation's sampling parameters.
        failing: Statuses to answer the next generations with.
    """

    sampler: Sampler = babble
    max_model_len: int = 100_000
    max_images: int = 100
    model: str = "tiny"
    prompts: list[list[int]] = field(default_factory=list)
    parts: list[list[str]] = field(default_factory=list)
    sampling: list[Json] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the app."""
        self._answers = {
            "/tokenize": self._tokenize,
            "/v1/chat/completions/render": self._render,
            "/v1/chat/completions/derender": self._derender,
            "/inference/v1/generate": self._generate,
            "/v1/chat/completions": self._chat,
        }
        self.app = FastAPI()
        for path in self._answers:
            self.app.post(path)(self._handle)

    def answer(self, path: str, body: Json) -> Json:
        """Return the answer to a request.

        Raises:
            Refusal: vLLM would refuse it.
        """
        if body.get("model") != self.model:
            raise Refusal(404, f"The model `{body.get('model')}` does not exist.")
        return self._answers[path](body)

    async def _handle(self, request: Request) -> JSONResponse:
        try:
            return JSONResponse(self.answer(request.url.path, await request.json()))
        except Refusal as refusal:
            error = {"message": str(refusal), "type": "Error", "code": refusal.status}
            return JSONResponse({"error": error}, refusal.status)

    def _tokenize(self, body: Json) -> Json:
        return {"tokens": encode(body["prompt"])}

    def _rendered(self, body: Json) -> tuple[list[int], list[Json], list[str]]:
        urls = [
            part["image_url"]["url"]
            for message in body["messages"]
            for part in (message["content"] if isinstance(message.get("content"), list) else [])
            if part["type"] == "image_url"
        ]
        ids, ranges = self._expanded(encode(chat_text(body["messages"], body.get("tools"))), urls)
        if len(ids) + 1 > self.max_model_len:
            raise Refusal(
                400,
                f"This model's maximum context length is {self.max_model_len} tokens. However, "
                f"your prompt contains at least {len(ids)} input tokens.",
            )
        return ids, ranges, urls

    def _expanded(self, ids: list[int], urls: list[str]) -> tuple[list[int], list[Json]]:
        if len(urls) > self.max_images:
            raise Refusal(400, f"At most {self.max_images} image(s) may be provided in one prompt.")
        try:
            return expand(ids, [image_tokens(url) for url in urls])
        except ValueError as error:
            raise Refusal(400, str(error)) from error
        except LookupError as error:
            raise Refusal(500, str(error)) from error

    def _render(self, body: Json) -> Json:
        if body.get("mm_payload") != "none":
            raise Refusal(400, "the simulator has no tensors")
        if any("generation_token_ids" in message for message in body["messages"]):
            raise Refusal(400, "the simulator wants no token ids on messages")
        if body.get("max_tokens", 1) > self.max_model_len:
            raise Refusal(
                400, f"max_tokens cannot be greater than max_model_len={self.max_model_len}."
            )
        ids, ranges, _ = self._rendered(body)
        sampling = {"temperature": 1.0, "top_p": 1.0, "max_tokens": self.max_model_len - len(ids)}
        sampling |= {name: body[name] for name in SAMPLING_FIELDS & body.keys() if body[name]}
        return {
            "token_ids": ids,
            "features": {"mm_placeholders": {"image": ranges}} if ranges else None,
            "sampling_params": sampling,
            "model": body["model"],
            "reasoning_ended": None,
            "reasoning_parser_kwargs": None,
            "priority": 0,
        }

    def _generate(self, body: Json) -> Json:
        if self.failing:
            raise Refusal(self.failing.pop(0), "Internal server error")
        sampling = body["sampling_params"]
        unknown = (body.keys() - GENERATE_FIELDS) | (sampling.keys() - SAMPLING_FIELDS)
        if unknown:
            raise Refusal(400, f"unknown fields: {sorted(unknown)}")
        if not body["token_ids"] or not all(0 <= t < VOCABULARY for t in body["token_ids"]):
            raise Refusal(400, "Token ids are missing or out of vocabulary")
        urls = [part["url"] for part in body.get("content_parts", [])]
        ids, ranges = self._expanded(body["token_ids"], urls)
        return self._sampled(ids, ranges, urls, sampling, text=body.get("output_mode") == "text")

    def _sampled(
        self, ids: list[int], ranges: list[Json], urls: list[str], sampling: Json, *, text: bool
    ) -> Json:
        left = self.max_model_len - len(ids)
        if left < 1:
            raise Refusal(
                400,
                f"The decoder prompt (length {len(ids)}) is longer than the maximum model length "
                f"of {self.max_model_len}.",
            )
        rng = random.Random(f"{sampling.get('seed')} {len(ids)}")
        sampled = self.sampler(rng, min(left, sampling.get("max_tokens") or left))
        banned = {int(token) for token in sampling.get("logit_bias") or {}}
        sampled = [IDS[b"x"] if token in banned else token for token in sampled]
        ended = END in sampled
        if ended:
            sampled = sampled[: sampled.index(END) + 1]
        self.prompts.append(ids)
        self.parts.append(urls)
        self.sampling.append(sampling)
        skip = sampling.get("skip_special_tokens", True)
        log_probs = [{"logprob": -rng.random()} for _ in sampled]
        choice = {
            "index": 0,
            "token_ids": sampled,
            "finish_reason": "stop" if ended else "length",
            "stop_reason": None,
            "logprobs": {"content": log_probs} if sampling.get("logprobs") is not None else None,
        }
        if text:
            choice["text"] = decode(sampled[: len(sampled) - ended], skip_special=skip)
        used = {"prompt_tokens": len(ids), "completion_tokens": len(sampled)}
        return {
            "request_id": f"generate-{len(self.prompts)}",
            "choices": [choice],
            "usage": {**used, "total_tokens": sum(used.values())},
            "prompt_token_ids": ids,
            "mm_placeholders": {"image": ranges} if ranges else None,
        }

    def _derender(self, body: Json) -> Json:
        if "chat_request" not in body:
            raise Refusal(400, "chat_request is required when a tool or reasoning parser is set")
        choices = body["generate_response"]["choices"]
        if not choices[0]["token_ids"]:
            raise Refusal(400, "choice 0 has empty or null token_ids")
        # It keeps special tokens, the one that ended the turn too.
        text = decode(choices[0]["token_ids"], skip_special=False)
        return {"choices": [{"message": message_of(text, body["chat_request"])}]}

    def _chat(self, body: Json) -> Json:
        """Answer as the stock endpoint does, which makes tokens of all messages anew."""
        ids, ranges, urls = self._rendered(body)
        sampling = {name: body[name] for name in SAMPLING_FIELDS & body.keys() if body[name]}
        reply = self._sampled(ids, ranges, urls, {**sampling, "logprobs": 0}, text=True)
        choice = reply["choices"][0]
        told = choice["token_ids"][: len(choice["token_ids"]) - (choice["token_ids"][-1:] == [END])]
        text = decode(told, skip_special=not body.get("tools"))
        for token, entry in zip(choice["token_ids"], choice["logprobs"]["content"], strict=True):
            entry["token"] = f"token_id:{token}"
        del choice["text"]
        return {
            "id": reply["request_id"],
            "object": "chat.completion",
            "created": 1,
            "model": self.model,
            "choices": [{**choice, "message": message_of(text, body)}],
            "usage": reply["usage"],
            "prompt_token_ids": reply["prompt_token_ids"],
        }


def message_of(text: str, request: Json) -> Json:
    """Return what the tool parser makes of a text."""
    message: Json = {"role": "assistant", "content": text, "tool_calls": [], "reasoning": None}
    if not request.get("tools"):
        return message
    calls = []
    for found in _TOOL_CALL.finditer(text):
        try:
            call = json.loads(found[1])
        except ValueError:
            return message
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        calls.append({"id": f"call-{len(calls)}", "type": "function", "function": function})
    if calls:
        message |= {"tool_calls": calls, "content": text[: text.index("<tool_call>")] or None}
    return message
