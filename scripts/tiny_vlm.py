# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Write a random Qwen2.5-VL of a million parameters, which needs nothing from the internet.

    python tiny_vlm.py FOLDER              # in an environment with torch and transformers

It says nonsense. Its tokenizer joins letters to words, and a random model samples letters: what it
says has other tokens when its text is read again, as it has now and then with any model.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

WORDS = ("the", "click", "type", "scroll", "screenshot", "wait", "done")
END, NOTHING = "<|im_end|>", "<|endoftext|>"
VISION = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
SPECIALS = ("<|im_start|>", *VISION)
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
PATCH, MERGE = 14, 2
MOST_IMAGE_TOKENS = 256
# Leaves thoughts out of all replies but the last, as those of reasoning models do.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{% if message.content is string -%}
{%- set text = message.content -%}
{%- if message.role == 'assistant' and '</think>' in text %}{% set text = text.split('</think>')[-1] | trim %}{% endif -%}
{{- text -}}
{%- elif message.content -%}
{%- for part in message.content -%}
{%- if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif -%}
{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""  # noqa: E501


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer that knows a few words."""
    vocabulary = {
        part: token for token, part in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
    }
    merges = []
    for word in WORDS:
        for size in range(1, len(word)):
            pair = (word[:size], word[size])
            if "".join(pair) not in vocabulary:
                vocabulary["".join(pair)] = len(vocabulary)
                merges.append(pair)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=NOTHING,
        chat_template=TEMPLATE,
        model_max_length=32_768,
    )
    fast.add_special_tokens({"additional_special_tokens": list(SPECIALS)})
    fast.add_tokens(list(MARKS))
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    """Return the random model."""
    start, end, _, image, video = tokenizer.convert_tokens_to_ids(list(VISION))
    special = {
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.pad_token_id,
    }
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": -(-len(tokenizer) // 64) * 64,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 32_768,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [4, 6, 6],
            },
            "rope_scaling": None,
            "tie_word_embeddings": True,
            **special,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_heads": 4,
            "out_hidden_size": 128,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "fullatt_block_indexes": [1],
            "window_size": 112,
            "in_channels": 3,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config).to(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.08)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def main() -> None:
    """Write the model, its tokenizer and its image processor."""
    folder = Path(sys.argv[1])
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    sizes = {"patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": 2}
    side = PATCH * MERGE
    images = Qwen2VLImageProcessor(
        **sizes, min_pixels=4 * side**2, max_pixels=MOST_IMAGE_TOKENS * side**2
    )
    Qwen2_5_VLProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**sizes),
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


if __name__ == "__main__":
    main()
