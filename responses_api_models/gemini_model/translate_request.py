"""From a Responses request to the body of a generateContent request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from responses_api_models.gemini_model.checks import check_finite
from responses_api_models.gemini_model.functions import (
    FIRST_SIGNING_VERSION,
    FUNCTIONS,
    Viewport,
    model_version,
)
from responses_api_models.gemini_model.history import translate_history
from responses_api_models.gemini_model.settings import InvalidRequest, Settings

Json = dict[str, Any]

# Without a computer tool nothing has coordinates; the size only has to be one.
_NO_VIEWPORT = Viewport(1000, 1000)
# Fields that would change what the model sees or does, and that Gemini has no counterpart for.
_UNSUPPORTED = (
    "background",
    "context_management",
    "conversation",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "top_logprobs",
)
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH"}
# Gemini 2.5's budgets in tokens, as Google's OpenAI-compatible API sets them.
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}


@dataclass(frozen=True)
class Turn:
    """What the translation of the reply needs to know of the request.

    Attributes:
        view: The viewport.
        own_functions: Names of the function tools offered.
        call_ids: The ids of all calls so far.
        number: A number no turn so far has.
    """

    view: Viewport
    own_functions: frozenset[str]
    call_ids: frozenset[str]
    number: int


def to_gemini(request: Mapping[str, Any], settings: Settings) -> tuple[Json, Turn]:
    """Translate a request.

    Args:
        request: A Responses request, without the fields that were not set.
        settings: Which model is asked, and how.

    Returns:
        The body to send, and what the translation of the reply needs.

    Raises:
        InvalidRequest: Gemini has nothing like something in it.
    """
    request = {name: value for name, value in request.items() if value is not None}
    check_finite(request, "")
    for name in _UNSUPPORTED:
        if request.get(name):
            raise InvalidRequest(f"{name}: Gemini has no such thing; leave it out")
    if ((request.get("text") or {}).get("format") or {}).get("type", "text") != "text":
        raise InvalidRequest("text.format: only plain text is supported")
    computer, own = _sort_tools(request.get("tools") or [])
    names = frozenset(tool["name"] for tool in own)
    view = _NO_VIEWPORT
    if computer:
        view = Viewport(computer["display_width"], computer["display_height"])
    items = request["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    history = translate_history(items, view, settings, names)
    if not history.contents:
        raise InvalidRequest("input: there is no user message")
    instructions = [request.get("instructions"), *history.instructions]
    system = [{"text": text} for text in instructions if text]
    body = {
        "contents": history.contents,
        "systemInstruction": {"parts": system} if system else None,
        "tools": _tools(computer, own, names, settings),
        "toolConfig": _tool_config(request.get("tool_choice"), computer is not None, names),
        "generationConfig": _generation_config(request, settings),
    }
    turn = Turn(view, names, frozenset(history.call_ids), history.next_turn)
    return {name: value for name, value in body.items() if value}, turn


def _sort_tools(tools: Sequence[Json]) -> tuple[Json | None, list[Json]]:
    """Return the computer tool, if there is one, and the function tools."""
    computer, own = None, []
    for index, tool in enumerate(tools):
        match tool.get("type"):
            case "function":
                own.append(tool)
            case "computer_use_preview" if computer is None:
                if tool.get("environment") != "browser":
                    raise InvalidRequest(f"tools[{index}].environment: only browser is supported")
                for side in ("display_width", "display_height"):
                    if tool[side] < 1:
                        raise InvalidRequest(f"tools[{index}].{side}: give at least 1 pixel")
                computer = tool
            case "computer_use_preview":
                raise InvalidRequest(f"tools[{index}]: there is a computer tool already")
            case kind:
                raise InvalidRequest(
                    f"tools[{index}].type: {kind!r} is not supported; "
                    "give computer_use_preview and function tools"
                )
    return computer, own


def _tools(
    computer: Json | None, own: Sequence[Json], names: frozenset[str], settings: Settings
) -> list[Json]:
    tools: list[Json] = []
    if computer:
        # A function tool takes the place of the predefined function of its name.
        excluded = FUNCTIONS[settings.functions] & (settings.excluded_functions | names)
        tool = {
            "environment": "ENVIRONMENT_BROWSER",
            "excludedPredefinedFunctions": sorted(excluded),
            "enablePromptInjectionDetection": settings.detect_prompt_injection,
            "disabledSafetyPolicies": list(settings.disabled_safety_policies),
        }
        tools.append({"computerUse": {name: value for name, value in tool.items() if value}})
    if own:
        tools.append({"functionDeclarations": [_declaration(tool) for tool in own]})
    return tools


def _declaration(tool: Json) -> Json:
    fields = {
        "name": tool["name"],
        "description": tool.get("description"),
        # JSON Schema as it is; `parameters` would take a subset of OpenAPI's.
        "parametersJsonSchema": tool.get("parameters"),
    }
    return {name: value for name, value in fields.items() if value}


def _tool_config(choice: Any, has_computer: bool, names: frozenset[str]) -> Json | None:
    config: Json
    match choice:
        case None | "auto":
            return None
        case "none":
            config = {"mode": "NONE"}
        case "required":
            config = {"mode": "ANY"}
        case {"type": "function", "name": name} if name in names:
            config = {"mode": "ANY", "allowedFunctionNames": [name]}
        case {"type": "computer_use_preview"} if has_computer and not names:
            config = {"mode": "ANY"}
        case _:
            raise InvalidRequest(
                f"tool_choice: {choice!r} is not supported; give auto, none, required, a function "
                "tool that is offered, or the computer tool where it is the only one"
            )
    return {"functionCallingConfig": config}


def _generation_config(request: Mapping[str, Any], settings: Settings) -> Json:
    config = {
        "temperature": request.get("temperature"),
        "topP": request.get("top_p"),
        "maxOutputTokens": request.get("max_output_tokens"),
        "thinkingConfig": _thinking_config(request.get("reasoning") or {}, settings),
    }
    return {name: value for name, value in config.items() if value is not None}


def _thinking_config(reasoning: Mapping[str, Any], settings: Settings) -> Json | None:
    config: Json = {"includeThoughts": True} if settings.include_thoughts else {}
    effort = reasoning.get("effort")
    if effort is not None:
        has_levels = model_version(settings.model) >= FIRST_SIGNING_VERSION
        field = "thinkingLevel" if has_levels else "thinkingBudget"
        choices: dict[str, Any] = _LEVELS if has_levels else _BUDGETS
        if effort not in choices:
            raise InvalidRequest(
                f"reasoning.effort: {settings.model} has no {effort!r}; "
                f"give one of {', '.join(choices)}"
            )
        config[field] = choices[effort]
    if config.get("thinkingBudget") == 0:
        config.pop("includeThoughts", None)
    return config or None
