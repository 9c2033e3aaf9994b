"""What the configuration says about requests. The key and the connection are `app.py`'s."""

from typing import Any, Literal

from pydantic import BaseModel, Field

ComputerTool = Literal[
    "computer_20241022",
    "computer_20250124",
    "computer_20251124",
    "computer_toolset_20260801",
    "browser_toolset_20260801",
]


class RequestSettings(BaseModel):
    """How requests to the Messages API are made.

    Attributes:
        anthropic_model: The model to ask; a request's own `model` is replaced.
        computer_tool: The tool to offer for a request's computer tool; `auto` chooses by the
            model's name. `browser_toolset_20260801` offers browser tools in its place.
        toolset_configs: `configs` of a toolset: member name to `{"enabled": bool}`.
        max_tokens: Longest answer in tokens, for requests without `max_output_tokens`.
        thinking: `adaptive`, `enabled` (needs `thinking_budget`) or `disabled`; by default the
            model's own choice.
        thinking_budget: Tokens for thinking under `enabled`; at least 1024, below `max_tokens`.
        thinking_display: `summarized` or `omitted`, where `thinking` is set; by default the
            model's own choice.
        effort: How much to spend on an answer; a request's `reasoning.effort` goes first.
        prefix_mismatch: What becomes of thinking whose earlier messages were changed, such as
            by pruning screenshots: `drop_block` lets Anthropic drop it, `error` lets it refuse
            the request; `auto` is `drop_block` for the models that check.
        context_management: The request's `context_management`, such as
            `{"edits": [{"type": "clear_tool_uses_20250919"}]}`, by which Anthropic itself clears
            old content.
        cache: Mark the prefix for prompt caching.
        cache_ttl: How long Anthropic keeps a cached prefix.
        betas: More beta names to send.
        extra_body: More top-level fields of the request; they replace ours.
    """

    anthropic_model: str
    computer_tool: Literal["auto"] | ComputerTool = "auto"
    toolset_configs: dict[str, dict[str, Any]] = {}
    max_tokens: int = Field(default=8192, ge=1)
    thinking: Literal["adaptive", "enabled", "disabled"] | None = None
    thinking_budget: int | None = Field(default=None, ge=1024)
    thinking_display: Literal["summarized", "omitted"] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    prefix_mismatch: Literal["auto", "drop_block", "error"] = "auto"
    context_management: dict[str, Any] | None = None
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"
    betas: list[str] = []
    extra_body: dict[str, Any] = {}
