"""What Gemini's generateContent refuses in a request's parameters and tools.

Every rule names its source: "SDK" is the google-genai 3.6 package, "guide" is Google's
computer-use guide, "API" is the API reference, "reports" are error texts users published, and
"strict" marks what we refuse although we do not know that the API does. Rules about the contents
live in `gemini_contents`.
"""

import re
from typing import Any

Json = dict[str, Any]

TOP_LEVEL_FIELDS = frozenset(
    {
        "contents",
        "tools",
        "toolConfig",
        "safetySettings",
        "systemInstruction",
        "generationConfig",
        "cachedContent",
        "labels",
    }
)
# SDK: the fields of a generation config that we know a use for.
GENERATION_FIELDS = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "candidateCount",
        "maxOutputTokens",
        "stopSequences",
        "seed",
        "responseMimeType",
        "mediaResolution",
        "thinkingConfig",
    }
)
COMPUTER_USE_FIELDS = frozenset(
    {
        "environment",
        "excludedPredefinedFunctions",
        "enablePromptInjectionDetection",
        "disabledSafetyPolicies",
    }
)
DECLARATION_FIELDS = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
)
FUNCTION_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
SAFETY_POLICIES = frozenset(
    {
        "FINANCIAL_TRANSACTIONS",
        "SENSITIVE_DATA_MODIFICATION",
        "COMMUNICATION_TOOL",
        "ACCOUNT_CREATION",
        "DATA_MODIFICATION",
        "USER_CONSENT_MANAGEMENT",
        "LEGAL_TERMS_AND_AGREEMENTS",
    }
)
THINKING_LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})

# Guide: the browser environment's functions, for Gemini 3.5 and later and for earlier models.
_POINTED = "click double_click triple_click middle_click right_click mouse_down mouse_up move"
_OTHER = "type drag_and_drop wait press_key key_down key_up hotkey take_screenshot scroll"
_SHARED = "go_back go_forward navigate drag_and_drop"
_EARLIER = "open_web_browser wait_5_seconds search click_at hover_at type_text_at scroll_at"
CURRENT = frozenset(f"{_POINTED} {_OTHER} {_SHARED}".split())
LEGACY = frozenset(f"{_EARLIER} key_combination scroll_document {_SHARED}".split())


class ApiError(Exception):
    """A request the API refuses, with Google's error body."""

    def __init__(self, message: str, *, status: int = 400, name: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": status, "message": message, "status": name}}


def version_of(model: str) -> tuple[int, int]:
    """Return a model's version.

    Raises:
        ApiError: No model of that name is known (404).
    """
    match = re.fullmatch(r"gemini-(\d+)(?:\.(\d+))?-[a-z0-9-]+", model)
    if match is None or int(match[1]) < 2:
        raise ApiError(
            f"models/{model} is not found for API version v1beta, or is not supported for "
            "generateContent.",
            status=404,
            name="NOT_FOUND",
        )
    return int(match[1]), int(match[2] or 0)


def is_current(model: str) -> bool:
    """Say whether a model has the functions of Gemini 3.5 (guide)."""
    return version_of(model) >= (3, 5)


def signs_calls(model: str) -> bool:
    """Say whether a model's calls need their signatures back (API: Gemini 3 and later)."""
    return version_of(model) >= (3, 0)


def check_fields(value: Any, path: str, known: frozenset[str]) -> Json:
    """Check an object's field names, and return it.

    Source: reports of "Unknown name" and "Cannot find field".

    Raises:
        ApiError: It is no object, or a field is unknown.
    """
    if not isinstance(value, dict):
        raise ApiError(f"Invalid value at '{path}' (not an object)")
    for name in value:
        if name not in known:
            where = f" at '{path}'" if path else ""
            raise ApiError(
                f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
            )
    return value


def check_request(body: Json, model: str) -> frozenset[str]:
    """Check everything but the contents.

    Args:
        body: The parsed request body.
        model: The model asked.

    Returns:
        The predefined functions that are on offer.

    Raises:
        ApiError: The API would refuse it.
    """
    check_fields(body, "", TOP_LEVEL_FIELDS)
    _check_system(body.get("systemInstruction"))
    _check_generation(body.get("generationConfig"), model)
    predefined, declared = _check_tools(body.get("tools") or [], model)
    _check_tool_config(body.get("toolConfig"), predefined, declared)
    return predefined


def _check_system(instruction: Any) -> None:
    if instruction is None:
        return
    check_fields(instruction, "system_instruction", frozenset({"parts", "role"}))
    parts = instruction.get("parts") or []
    if not parts or not all(set(part) == {"text"} and part["text"] for part in parts):
        # API: text only, for now.
        raise ApiError("System instruction should have text parts only.")


def _check_generation(config: Any, model: str) -> None:
    if config is None:
        return
    check_fields(config, "generation_config", GENERATION_FIELDS)
    for name, low, high in (("temperature", 0, 2), ("topP", 0, 1), ("maxOutputTokens", 1, None)):
        value = config.get(name)
        if value is not None and (value < low or (high is not None and value > high)):
            raise ApiError(f"Unable to submit request because {name} {value} is out of range.")
    thinking = config.get("thinkingConfig")
    if thinking is None:
        return
    known = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
    check_fields(thinking, "generation_config.thinking_config", known)
    level = thinking.get("thinkingLevel")
    if level is not None and "thinkingBudget" in thinking:
        raise ApiError("You can only set one of thinking budget and thinking level.")
    if level is not None and not signs_calls(model):
        raise ApiError("Thinking level is not supported for this model.")
    if level is not None and level not in THINKING_LEVELS:
        raise ApiError(f"Invalid value at 'thinking_level': \"{level}\"")


def _check_tools(tools: list[Any], model: str) -> tuple[frozenset[str], set[str]]:
    predefined: frozenset[str] | None = None
    declared: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        check_fields(tool, path, frozenset({"computerUse", "functionDeclarations"}))
        if len(tool) != 1:
            # Guide: custom functions go in a tool of their own.
            raise ApiError(f"{path}: a tool has one kind of content.")
        if "computerUse" in tool:
            if predefined is not None:
                raise ApiError("There can be at most one Computer Use tool.")
            predefined = _check_computer_use(tool["computerUse"], path, model)
        else:
            for declaration in tool["functionDeclarations"]:
                _check_declaration(declaration, path, declared)
    if predefined is None and "computer-use" in model:
        # Reports.
        raise ApiError("This model requires the use of the Computer Use tool.")
    predefined = predefined or frozenset()
    if both := predefined & declared:
        # Strict: two functions of one name cannot be told apart.
        raise ApiError(f"Duplicate function declaration found: {sorted(both)[0]}")
    return predefined, declared


def _check_computer_use(tool: Any, path: str, model: str) -> frozenset[str]:
    check_fields(tool, f"{path}.computer_use", COMPUTER_USE_FIELDS)
    if tool.get("environment") != "ENVIRONMENT_BROWSER":
        raise ApiError("This simulator has the browser environment only.")
    functions = CURRENT if is_current(model) else LEGACY
    excluded = frozenset(tool.get("excludedPredefinedFunctions") or [])
    if unknown := excluded - functions:
        # Strict.
        raise ApiError(f"Unknown predefined function: {sorted(unknown)[0]}")
    if not is_current(model):
        # Guide: for Gemini 3.5 and later.
        for name in ("enablePromptInjectionDetection", "disabledSafetyPolicies"):
            if tool.get(name):
                raise ApiError(f"{name} is not supported for this model.")
    for policy in tool.get("disabledSafetyPolicies") or []:
        if policy not in SAFETY_POLICIES:
            raise ApiError(f"Invalid value at 'disabled_safety_policies': \"{policy}\"")
    return functions - excluded


def _check_declaration(declaration: Any, path: str, declared: set[str]) -> None:
    check_fields(declaration, f"{path}.function_declarations", DECLARATION_FIELDS)
    name = declaration.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        raise ApiError(f"Invalid function name {name!r}. Must start with a letter or underscore.")
    if name in declared:
        raise ApiError(f"Duplicate function declaration found: {name}")
    declared.add(name)
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        # SDK: mutually exclusive.
        raise ApiError("Only one of parameters and parameters_json_schema may be set.")
    _check_openapi(declaration.get("parameters"), path)


def _check_openapi(schema: Any, path: str) -> None:
    """Source: reports; `parameters` takes a subset of OpenAPI's schemas."""
    for name in ("additionalProperties", "$schema", "$ref", "const"):
        if isinstance(schema, dict) and name in schema:
            raise ApiError(
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}.parameters': "
                "Cannot find field."
            )


def _check_tool_config(config: Any, predefined: frozenset[str], declared: set[str]) -> None:
    if config is None:
        return
    check_fields(config, "tool_config", frozenset({"functionCallingConfig"}))
    calling = check_fields(
        config["functionCallingConfig"],
        "tool_config.function_calling_config",
        frozenset({"mode", "allowedFunctionNames"}),
    )
    mode, allowed = calling.get("mode"), calling.get("allowedFunctionNames")
    if mode not in {"AUTO", "ANY", "NONE", "VALIDATED"}:
        raise ApiError(f"Invalid value at 'function_calling_config.mode': \"{mode}\"")
    if mode != "NONE" and not predefined and not declared:
        raise ApiError("Function calling config is set without function_declarations.")
    if allowed is None:
        return
    if mode not in {"ANY", "VALIDATED"}:
        # API.
        raise ApiError("allowed_function_names should be set only when the mode is ANY.")
    if unknown := set(allowed) - declared:
        raise ApiError(f"allowed_function_names names an undeclared function: {sorted(unknown)[0]}")
