# pyright: reportMissingImports=false
"""A random model of Qwen2.5-VL's kind, small enough for a CPU."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from verl.workers.rollout.replica import TokenOutput

from recipes.verl.tests.tiny_processor import IMAGE_PAD


def tiny_model(tokenizer: Any) -> Qwen2_5_VLForConditionalGeneration:
    """Return a model for a tokenizer of `tiny_processor`."""
    torch.manual_seed(0)
    token = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [2, 3, 3],
            },
            "bos_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [0],
        },
        image_token_id=token(IMAGE_PAD),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:  # else all tokens are about equally likely
            torch.nn.init.normal_(parameter, std=0.2)
    return model


class ModelServer:
    """In place of verl's rollout servers: random letters, with what a model thinks of them."""

    def __init__(self, model: Any, processor: Any) -> None:
        self._model = model
        self._processor = processor

    def logprobs(self, ids: list[int], images: list[Any]) -> torch.Tensor:
        """Return the log probability of each token but the first, after those before it."""
        given = self._processor.image_processor(images, return_tensors="pt")
        pad = self._processor.tokenizer.convert_tokens_to_ids(IMAGE_PAD)
        tokens = torch.tensor([ids])
        with torch.no_grad():
            made = self._model(input_ids=tokens, mm_token_type_ids=(tokens == pad).long(), **given)
        found = made.logits[0, :-1].log_softmax(-1)
        return found.gather(1, tokens[0, 1:, None])[:, 0]

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], image_data: list[Any], **_: Any
    ) -> TokenOutput:
        letters = torch.randint(0, 256, (12,)).tolist()
        ids = [*letters, self._processor.tokenizer.eos_token_id]
        logprobs = self.logprobs([*prompt_ids, *ids], image_data)[-len(ids) :]
        return TokenOutput(token_ids=ids, log_probs=logprobs.tolist(), stop_reason="completed")
