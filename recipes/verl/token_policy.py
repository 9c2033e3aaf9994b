# pyright: reportMissingImports=false
"""The policy as the episode sees it: Responses requests in, sampled tokens out.

Tokens are only ever appended. The first prompt is rendered as a whole; after it only what is new
is, behind the tokens that were sampled, which are never rendered again. A request that does not
start with the whole one before it (history was left out) begins a new segment.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from verl.experimental.agent_loop import AgentLoopBase
from verl.workers.rollout.replica import TokenOutput

from recipes.verl.messages import Message, chat_messages, images_of
from resources_servers.browser_gym.faults import Fault
from responses_api_agents.browser_agent.failures import ContextWindowExceeded, RolloutFailure


@dataclass
class Segment:
    """One growing token sequence.

    Attributes:
        prompt_ids: the first prompt.
        response_ids: all behind it, up to the last sampled token.
        mask: of `response_ids`: 1 for sampled tokens.
        logprobs: likewise, 0 for the others; None if the server gives none.
        images: of both, in order.
        turns: replies.
        extra_fields: what the server tells of its weights.
    """

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = None
    images: list[Image.Image] = field(default_factory=list)
    turns: int = 0
    extra_fields: dict[str, Any] = field(default_factory=dict)


class TokenPolicy:
    """Samples the replies of one episode, and keeps their tokens in `segments`."""

    def __init__(
        self, loop: AgentLoopBase, sampling_params: dict[str, Any], max_reply_tokens: int, **options
    ) -> None:
        """Sample through an agent loop's server, tokenizer and processor.

        Args:
            loop: which has them.
            sampling_params: verl's, for each reply.
            max_reply_tokens: the most tokens of a reply.
            options: more arguments for the server.
        """
        self._loop = loop
        self._sampling_params = sampling_params
        self._max_reply_tokens = max_reply_tokens
        self._options = options
        self._request_id = uuid.uuid4().hex
        self.with_logprobs = bool(sampling_params.get("logprobs"))
        self._items: list[dict[str, Any]] = []
        self._messages: list[Message] = []
        self.segments: list[Segment] = []
        self.num_preempted = -1

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sample the reply to a Responses request, and return it as a response.

        Raises:
            ContextWindowExceeded: there is no room for it.
            RolloutFailure: sampling was cut off by the server.
            ValueError: not even the first prompt fits, which is a fault of the configuration.
        """
        items: list[dict[str, Any]] = request["input"]
        goes_on = bool(self._items) and items[: len(self._items)] == self._items
        if goes_on:
            new = await asyncio.to_thread(chat_messages, items[len(self._items) :])
            segment, messages = await self._extended(new)
        else:
            system = {"role": "system", "content": request["instructions"]}
            messages = await asyncio.to_thread(chat_messages, [system, *items])
            segment = await self._begun(messages)
        output, most = await self._sample(segment)
        merged, segment.mask, segment.logprobs = await self._loop.ct_merge_assistant_token(
            segment.prompt_ids + segment.response_ids,
            output.token_ids,
            segment.mask,
            segment.logprobs,
            assistant_logprobs=(output.log_probs or []) if self.with_logprobs else None,
        )
        segment.response_ids = merged.token_ids[len(segment.prompt_ids) :]
        segment.turns += 1
        # Only now: a prompt that nothing was sampled from is no part of any segment.
        self.segments = [*(self.segments[:-1] if goes_on else self.segments), segment]
        text = self._loop.tokenizer.decode(output.token_ids, skip_special_tokens=True)
        reply = _message(text)
        self._items = [*items, reply]
        self._messages = [*messages, {"role": "assistant", "content": text}]
        cut_off = len(output.token_ids) >= most and (
            output.token_ids[-1] != self._loop.tokenizer.eos_token_id
        )
        return self._response(reply, cut_off)

    async def _begun(self, messages: list[Message]) -> Segment:
        images = images_of(messages)
        self._loop._assert_mm_supported(bool(images))
        builder = self._loop.continuous_token_builder
        ids = await asyncio.to_thread(
            lambda: builder.build_initial_tokens(messages, images=images or None)
        )
        most = self._loop.rollout_config.prompt_length
        if len(ids) > most:
            reason = f"a prompt has {len(ids)} tokens; rollout.prompt_length is {most}"
            if self.segments:
                raise ContextWindowExceeded(Fault.MODEL_REFUSES.kind, reason)
            raise ValueError(reason)
        return Segment(list(ids), logprobs=[] if self.with_logprobs else None, images=images)

    async def _extended(self, new: list[Message]) -> tuple[Segment, list[Message]]:
        last = self.segments[-1]
        messages = [*self._messages, *new]
        merged, mask, logprobs = await self._loop.ct_merge_context_msg(
            self._messages, messages, last.prompt_ids + last.response_ids, last.mask, last.logprobs
        )
        segment = Segment(
            last.prompt_ids,
            merged.token_ids[len(last.prompt_ids) :],
            mask,
            logprobs,
            [*last.images, *images_of(new)],
            last.turns,
            dict(last.extra_fields),
        )
        return segment, messages

    async def _sample(self, segment: Segment) -> tuple[TokenOutput, int]:
        """Return a reply, and how many tokens it could have had."""
        most = self._loop.rollout_config.response_length
        room = min(self._max_reply_tokens, most - len(segment.response_ids))
        if room <= 0:
            raise ContextWindowExceeded(
                Fault.MODEL_REFUSES.kind, f"rollout.response_length of {most} tokens is used up"
            )
        output: TokenOutput = await self._loop.server_manager.generate(
            request_id=self._request_id,
            prompt_ids=segment.prompt_ids + segment.response_ids,
            sampling_params={**self._sampling_params, "max_tokens": room},
            image_data=segment.images or None,
            mm_processor_kwargs=self._loop._get_mm_processor_kwargs(),
            **self._options,
        )
        if output.stop_reason == "aborted":
            raise RolloutFailure(Fault.MODEL_DOWN.kind, "the rollout server aborted a reply")
        if output.num_preempted is not None:
            self.num_preempted = max(self.num_preempted, 0) + output.num_preempted
        for name, value in output.extra_fields.items():
            if value is not None and (name == "max_global_steps" or not segment.turns):
                segment.extra_fields[name] = value
        return output, room

    def _response(self, reply: dict[str, Any], cut_off: bool) -> dict[str, Any]:
        segment = self.segments[-1]
        response = {
            "id": f"resp_{uuid.uuid4().hex}",
            "model": "policy",
            "status": "incomplete" if cut_off else "completed",
            "output": [reply],
            "usage": {"input_tokens": len(segment.prompt_ids) + len(segment.response_ids)},
        }
        if cut_off:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return response


def _message(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{uuid.uuid4().hex}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
