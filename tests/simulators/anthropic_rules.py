"""What Anthropic's Messages API refuses in a request's parameters, headers and tools.

Every rule names its source: "SDK" is the anthropic package (0.109.2, or 2.14.0 for the toolsets),
"docs" are Anthropic's pages on computer use, browser use, thinking, caching and vision, "reports"
are error texts users published. Rules about the messages live in `anthropic_messages`.
"""

import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# SDK: the request schema.
TOP_LEVEL_FIELDS = {
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking"),
    *("temperature", "top_p", "top_k", "stop_sequences", "stream", "metadata", "service_tier"),
    *("output_config", "context_management"),
}
COMPUTER_BETAS = {
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
TOOLSETS = {"computer_toolset_20260801": "computer", "browser_toolset_20260801": "browser"}
CONTEXT_BETAS = {
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
    "compact_20260112": "compact-2026-01-12",
}
BINDING_BETA = "thinking-binding-controls-2026-08-01"
KNOWN_BETAS = {*COMPUTER_BETAS.values(), *CONTEXT_BETAS.values(), BINDING_BETA}

# SDK: required and optional fields of the tools we use.
_SIZE = {"type", "name", "display_width_px", "display_height_px"}
TOOL_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "computer_20241022": (_SIZE, {"display_number", "cache_control"}),
    "computer_20250124": (_SIZE, {"display_number", "cache_control"}),
    "computer_20251124": (_SIZE, {"display_number", "cache_control", "enable_zoom"}),
    "computer_toolset_20260801": ({"type"}, {"configs", "cache_control"}),
    "browser_toolset_20260801": ({"type"}, {"configs", "cache_control"}),
    "custom": ({"name", "input_schema"}, {"type", "description", "strict", "cache_control"}),
}
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_CACHE_BREAKPOINTS = 4
# Docs: longest side, and patches of 28 px, of an image that is seen unscaled.
SMALL, LARGE = (1568, 1568), (2576, 4784)


@dataclass(frozen=True)
class SimModel:
    """What a model takes."""

    tools: frozenset[str]
    image_limits: tuple[int, int]
    adaptive: bool = True  # whether it takes adaptive thinking
    binds: bool = False  # whether thinking is bound to what came before it


def _model(tools: str, limits: tuple[int, int], **rest: Any) -> SimModel:
    return SimModel(frozenset(tools.split(" ")), limits, **rest)


_TOOLSET_ONLY = "computer_toolset_20260801 browser_toolset_20260801"
_BOTH = f"computer_20251124 {_TOOLSET_ONLY}"
# Docs: computer use, table of models.
MODELS = {
    "claude-3-5-sonnet-20241022": _model("computer_20241022", SMALL, adaptive=False),
    "claude-sonnet-4-5": _model("computer_20250124", SMALL, adaptive=False),
    "claude-haiku-4-5": _model("computer_20250124", SMALL, adaptive=False),
    "claude-opus-4-5": _model("computer_20251124", SMALL, adaptive=False),
    "claude-sonnet-4-6": _model("computer_20251124", SMALL),
    "claude-opus-4-7": _model("computer_20251124", LARGE),
    "claude-opus-4-8": _model(_BOTH, LARGE),
    "claude-sonnet-5": _model(_BOTH, LARGE),
    "claude-opus-5": _model(_BOTH, LARGE),
    "claude-fable-5-1": _model(_BOTH, LARGE, binds=True),
    "claude-haiku-5-5": _model(_TOOLSET_ONLY, LARGE),
    "claude-sonnet-5-5": _model(_TOOLSET_ONLY, LARGE, binds=True),
    "claude-opus-5-5": _model(_TOOLSET_ONLY, LARGE, binds=True),
}


class ApiError(Exception):
    """A request the API refuses, with Anthropic's error body."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.status = status
        error = {"type": kind, "message": message}
        self.body = {"type": "error", "error": error, "request_id": "req_simulated"}


def check_object(value: Any, path: str, required: set[str], optional: set[str]) -> Json:
    """Check an object's field names against a whitelist, and return it.

    Source: reports of "Extra inputs are not permitted" and "Field required".

    Raises:
        ApiError: It is no object, a required field is missing, or a field is unknown.
    """
    if not isinstance(value, dict):
        raise ApiError(f"{path}: Input should be a valid dictionary")
    for name in value:
        if name not in required | optional:
            raise ApiError(f"{path}.{name}: Extra inputs are not permitted")
    for name in sorted(required):
        if value.get(name) is None:
            raise ApiError(f"{path}.{name}: Field required")
    return value


def check_request(body: Json, betas: set[str]) -> SimModel:
    """Check everything but the messages.

    Args:
        body: The parsed request body.
        betas: Names in the `anthropic-beta` header.

    Returns:
        The model asked.

    Raises:
        ApiError: The API would refuse it.
    """
    for name in body:
        if name not in TOP_LEVEL_FIELDS:
            raise ApiError(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages", "max_tokens"):
        if body.get(name) is None:
            raise ApiError(f"{name}: Field required")
    for beta in betas - KNOWN_BETAS:
        raise ApiError(f"Unexpected value(s) `{beta}` for the `anthropic-beta` header")
    model = MODELS.get(body["model"])
    if model is None:
        raise ApiError(f"model: {body['model']}", status=404, kind="not_found_error")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        raise ApiError("max_tokens: must be greater than or equal to 1")
    if body.get("stream"):
        raise ApiError("stream: this simulator does not stream")
    _check_system(body.get("system"))
    _check_tools(body.get("tools"), model, body["model"], betas)
    _check_thinking(body, model, betas)
    _check_tool_choice(body)
    _check_context_management(body.get("context_management"), betas)
    effort = (body.get("output_config") or {}).get("effort", "high")
    if effort not in ("low", "medium", "high", "xhigh", "max"):
        raise ApiError("output_config.effort: Input should be 'low', 'medium', 'high', …")
    _check_breakpoints(body)
    return model


def thinks(body: Json) -> bool:
    """Say whether a request asks for thinking."""
    return (body.get("thinking") or {"type": "disabled"})["type"] != "disabled"


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    for index, block in enumerate(system):
        path = f"system.{index}"
        check_object(block, path, {"type", "text"}, {"cache_control"})
        if not block["text"].strip():
            raise ApiError(f"{path}: text content blocks must be non-empty")


def _check_tools(tools: Any, model: SimModel, model_name: str, betas: set[str]) -> None:
    names: list[str] = []
    hosted: list[str] = []
    for index, tool in enumerate(tools or []):
        kind = tool.get("type", "custom") if isinstance(tool, dict) else "custom"
        path = f"tools.{index}"
        beta = COMPUTER_BETAS.get(kind)
        if kind not in TOOL_FIELDS or (beta is not None and beta not in betas):
            # Reports: the text of a missing beta header.
            raise ApiError(
                f"{path}: Input tag '{kind}' found using 'type' does not match any of the "
                "expected tags"
            )
        check_object(tool, path, *TOOL_FIELDS[kind])
        if kind == "custom":
            _check_function(tool, path)
        else:
            hosted.append(kind)
            if kind not in model.tools:
                raise ApiError(f"'{model_name}' does not support tool types: {kind}.")
        if kind not in TOOLSETS:
            names.append(tool["name"])
        if kind in COMPUTER_BETAS and tool["name"] != "computer":
            raise ApiError(f"{path}.name: Input should be 'computer'")
    if len(names) != len(set(names)):
        raise ApiError("tools: Tool names must be unique.")
    # Docs: a toolset goes neither with an older computer tool nor with any tool of that name.
    if "computer_toolset_20260801" in hosted and "computer" in names:
        raise ApiError("tools: computer_toolset_20260801 cannot be combined with 'computer'.")
    if len(hosted) != len(set(hosted)):
        raise ApiError("tools: a tool type may be given once.")


def _check_function(tool: Json, path: str) -> None:
    if not FUNCTION_NAME.fullmatch(tool["name"]):
        raise ApiError(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    schema = tool["input_schema"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ApiError(f"{path}.input_schema.type: Input should be 'object'")
    if tool.get("strict"):
        _check_strict(schema, path)


def _check_strict(schema: Any, path: str) -> None:
    """Source: docs, structured outputs."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise ApiError(f"{path}: For 'object' type, 'additionalProperties' must be set to false")
    for child in [*(schema.get("properties") or {}).values(), schema.get("items")]:
        _check_strict(child, path)


def _check_thinking(body: Json, model: SimModel, betas: set[str]) -> None:
    """Source: docs, extended and adaptive thinking."""
    thinking = body.get("thinking")
    if thinking is not None:
        kind = thinking.get("type")
        fields = {
            "adaptive": (set[str](), {"display", "block_binding"}),
            "enabled": ({"budget_tokens"}, {"display", "block_binding"}),
            "disabled": (set[str](), set[str]()),
        }
        if kind not in fields:
            raise ApiError(f"thinking: Input tag '{kind}' found using 'type' does not match")
        required, optional = fields[kind]
        check_object(thinking, "thinking", required | {"type"}, optional)
        if kind == "adaptive" and not model.adaptive:
            raise ApiError("adaptive thinking is not supported on this model")
        if kind == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            raise ApiError("thinking.budget_tokens: must be at least 1024 and less than max_tokens")
        if "block_binding" in thinking and BINDING_BETA not in betas:
            raise ApiError("thinking.block_binding: Extra inputs are not permitted")
    temperature, top_p = body.get("temperature"), body.get("top_p")
    if temperature is not None and not 0 <= temperature <= 1:
        raise ApiError("temperature: range: 0..1")
    if thinks(body):
        if temperature not in (None, 1):
            raise ApiError("`temperature` may only be set to 1 when thinking is enabled.")
        if top_p is not None and top_p < 0.95:
            raise ApiError(
                "`top_p` must be greater than or equal to 0.95 when thinking is enabled."
            )


def _check_tool_choice(body: Json) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not body.get("tools"):
        raise ApiError("tool_choice may only be specified while providing tools")
    kind = choice.get("type")
    parallel = {"disable_parallel_tool_use"} if kind != "none" else set()
    required = {"type", "name"} if kind == "tool" else {"type"}
    if kind not in ("auto", "any", "tool", "none"):
        raise ApiError(f"tool_choice: Input tag '{kind}' does not match")
    check_object(choice, "tool_choice", required, parallel)
    names = [tool.get("name") for tool in body["tools"]]
    if kind == "tool" and choice["name"] not in names:
        raise ApiError(f"Tool '{choice['name']}' not found in provided tools")
    if kind in ("any", "tool") and thinks(body):
        raise ApiError("Thinking may not be enabled when tool_choice forces tool use.")


def _check_context_management(management: Any, betas: set[str]) -> None:
    for edit in (management or {}).get("edits", []):
        beta = CONTEXT_BETAS.get(edit.get("type"))
        if beta is None:
            raise ApiError(f"context_management: Input tag '{edit.get('type')}' does not match")
        if beta not in betas:
            raise ApiError("context_management: Extra inputs are not permitted")


def _check_breakpoints(body: Json) -> None:
    """Source: docs, prompt caching."""
    found = 0
    for block in _blocks(body):
        control = block.get("cache_control")
        if control is None:
            continue
        found += 1
        check_object(control, "cache_control", {"type"}, {"ttl"})
        if control["type"] != "ephemeral" or control.get("ttl", "5m") not in ("5m", "1h"):
            raise ApiError("cache_control: Input should be 'ephemeral' with a ttl of '5m' or '1h'")
        if block.get("type") in ("thinking", "redacted_thinking"):
            raise ApiError("cache_control: thinking blocks cannot be cached")
    if found > MAX_CACHE_BREAKPOINTS:
        raise ApiError(
            f"A maximum of {MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {found}."
        )


def _blocks(body: Json) -> list[Json]:
    blocks = list(body.get("tools") or [])
    blocks += body["system"] if isinstance(body.get("system"), list) else []
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            blocks += [block for block in message["content"] if isinstance(block, dict)]
    return blocks
