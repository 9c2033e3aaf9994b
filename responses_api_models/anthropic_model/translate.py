"""From a Responses request to Anthropic's Messages API, and from its reply back. Pure functions."""

from dataclasses import dataclass
from typing import Any

from responses_api_models.anthropic_model import caching
from responses_api_models.anthropic_model.errors import BadRequest
from responses_api_models.anthropic_model.history import History
from responses_api_models.anthropic_model.models import ModelFacts, facts_of
from responses_api_models.anthropic_model.reply import build_response
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.tools import BETAS, Offer, build_offer, tool_choice

Json = dict[str, Any]

__all__ = ["AnthropicRequest", "build_response", "to_anthropic"]

BINDING_BETA = "thinking-binding-controls-2026-08-01"
# Each edit of `context_management` by the start of its type.
EDIT_BETAS = {"clear_": "context-management-2025-06-27", "compact_": "compact-2026-01-12"}
# Fields of a Responses request that ask for something this server does not have.
_UNSUPPORTED = (
    "background",
    "context_management",
    "conversation",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "top_logprobs",
)
# What a model that thinks accepts of `top_p`.
_LEAST_TOP_P = 0.95


@dataclass(frozen=True)
class AnthropicRequest:
    """A request to the Messages API.

    Attributes:
        body: Its body.
        betas: Names for the `anthropic-beta` header.
        offer: What it offers, to read the reply by.
    """

    body: Json
    betas: list[str]
    offer: Offer


def to_anthropic(request: Json, settings: RequestSettings) -> AnthropicRequest:
    """Build the request to Anthropic.

    Args:
        request: A Responses request, without the fields that were not set. It is left as it is.
        settings: The configuration.

    Raises:
        BadRequest: It asks for something that cannot be done.
    """
    request = {name: value for name, value in request.items() if value is not None}
    for name in _UNSUPPORTED:
        if request.get(name):
            raise BadRequest(name, "this server keeps no state and has no such thing; leave it out")
    if ((request.get("text") or {}).get("format") or {}).get("type", "text") != "text":
        raise BadRequest("text.format", "only text is possible")
    facts = facts_of(settings.anthropic_model)
    offer = build_offer(request.get("tools") or [], settings, facts)
    history = _history(request, offer)
    body: Json = {
        "model": settings.anthropic_model,
        "max_tokens": request.get("max_output_tokens", settings.max_tokens),
        "messages": history.messages,
    }
    if history.system:
        body["system"] = [{"type": "text", "text": text} for text in history.system]
    if offer.entries:
        body["tools"] = offer.entries
    thinking = _thinking(request, settings, facts, body["max_tokens"])
    if thinking:
        body["thinking"] = thinking
    thinks = bool(thinking) and thinking["type"] != "disabled"
    if choice := tool_choice(request, offer, thinking=thinks):
        body["tool_choice"] = choice
    body |= _sampling(request, thinks=thinks)
    if effort := _effort(request, settings):
        body["output_config"] = {"effort": effort}
    if settings.context_management:
        body["context_management"] = settings.context_management
    if settings.cache:
        body = caching.mark(body, settings.cache_ttl)
    return AnthropicRequest(body | settings.extra_body, _betas(body, offer, settings), offer)


def _history(request: Json, offer: Offer) -> History:
    items = request["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    history = History(offer)
    if request.get("instructions"):
        history.system.append(request["instructions"])
    for index, item in enumerate(items):
        history.add(item, f"input.{index}")
    history.end()
    if not history.messages or history.messages[0]["role"] != "user":
        raise BadRequest("input", "the first message must be a user's, and not be empty")
    return history


def _thinking(
    request: Json, settings: RequestSettings, facts: ModelFacts, max_tokens: int
) -> Json | None:
    kind = settings.thinking
    if (request.get("reasoning") or {}).get("effort") == "none":
        kind = "disabled"
    drops = settings.prefix_mismatch == "drop_block" or (
        settings.prefix_mismatch == "auto" and facts.binds_thinking
    )
    if kind == "disabled":
        return {"type": "disabled"}
    if kind is None and not drops:
        return None
    # The models that check the prefix think adaptively unless told otherwise.
    result: Json = {"type": kind or "adaptive"}
    if kind == "enabled":
        budget = settings.thinking_budget
        if budget is None:
            raise BadRequest("thinking_budget", "thinking: enabled needs it in the configuration")
        if budget >= max_tokens:
            raise BadRequest(
                "max_output_tokens", f"it must be more than thinking_budget, which is {budget}"
            )
        result["budget_tokens"] = budget
    if settings.thinking_display is not None:
        result["display"] = settings.thinking_display
    if drops:
        result["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return result


def _sampling(request: Json, *, thinks: bool) -> Json:
    """Return temperature and top_p. Both are 1 by default, and newer models refuse to get both."""
    names = ("temperature", "top_p")
    sampling = {name: request[name] for name in names if request.get(name, 1) != 1}
    if thinks and "temperature" in sampling:
        raise BadRequest("temperature", "a model that thinks takes only 1; leave it out")
    if thinks and sampling.get("top_p", 1) < _LEAST_TOP_P:
        raise BadRequest("top_p", f"a model that thinks takes at least {_LEAST_TOP_P}")
    if sampling.get("temperature", 0) > 1:
        raise BadRequest("temperature", "Anthropic takes 0 to 1")
    return sampling


def _effort(request: Json, settings: RequestSettings) -> str | None:
    asked = (request.get("reasoning") or {}).get("effort")
    if asked is None or asked == "none":
        return settings.effort
    return "low" if asked == "minimal" else asked


def _betas(body: Json, offer: Offer, settings: RequestSettings) -> list[str]:
    betas = [BETAS[offer.tool]] if offer.tool in BETAS else []
    if "block_binding" in (body.get("thinking") or {}):
        betas.append(BINDING_BETA)
    for edit in (settings.context_management or {}).get("edits", []):
        betas += [b for start, b in EDIT_BETAS.items() if str(edit.get("type")).startswith(start)]
    return list(dict.fromkeys([*betas, *settings.betas]))
