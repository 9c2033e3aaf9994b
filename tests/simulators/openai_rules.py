"""What OpenAI's Responses API refuses in a request's parameters and tools.

Every rule names its source: "SDK" is the openai 2.44.0 package, "guide" is OpenAI's computer-use
guide, "reports" are error texts users published. Rules about the input items live in
`openai_items`.
"""

import re
from typing import Any, get_args, get_type_hints

from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.responses.response_includable import ResponseIncludable

# SDK: the request schema. `stream` is in it only as `false`.
TOP_LEVEL_FIELDS = frozenset(get_type_hints(ResponseCreateParamsNonStreaming))
INCLUDABLE = frozenset(get_args(ResponseIncludable))

# SDK: required and optional fields of the tools we use. `computer` takes no fields at all (guide:
# the screen's size is read from the screenshot).
TOOL_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "computer": ({"type"}, set()),
    "computer_use_preview": ({"type", "display_width", "display_height", "environment"}, set()),
    "function": ({"type", "name"}, {"parameters", "strict", "description", "defer_loading"}),
}
PREVIEW_ENVIRONMENTS = {"windows", "mac", "linux", "ubuntu", "browser"}
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ApiError(Exception):
    """A request the API refuses, with the parts of OpenAI's error body."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": param,
                "code": code,
            }
        }


def check_object(
    value: Any, path: str, required: set[str] | frozenset[str], optional: set[str] | frozenset[str]
) -> dict[str, Any]:
    """Check an object's field names against a whitelist, and return it.

    Source: reports of "Unknown parameter" and "Missing required parameter".

    Raises:
        ApiError: It is no object, a required field is missing, or a field is unknown.
    """
    if not isinstance(value, dict):
        raise ApiError(
            f"Invalid type for '{path}': expected an object.", param=path, code="invalid_type"
        )
    for name in value:
        if name not in required | optional:
            where = f"{path}.{name}" if path else name
            raise ApiError(f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")
    for name in sorted(required):
        if value.get(name) is None:
            where = f"{path}.{name}" if path else name
            raise ApiError(
                f"Missing required parameter: '{where}'.",
                param=where,
                code="missing_required_parameter",
            )
    return value


def check_choice(value: Any, path: str, choices: set[str] | frozenset[str]) -> None:
    """Check that a value is one of a closed list.

    Raises:
        ApiError: It is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise ApiError(
            f"Invalid value: '{value}'. Supported values are: "
            f"{', '.join(repr(choice) for choice in sorted(choices))}.",
            param=path,
            code="invalid_value",
        )


def check_request(body: dict[str, Any]) -> None:
    """Check everything but the input items.

    Args:
        body: The parsed request body.

    Raises:
        ApiError: The API would refuse it.
    """
    check_object(body, "", {"model", "input"}, TOP_LEVEL_FIELDS)
    if body.get("stream"):
        raise ApiError("This simulator does not stream.", param="stream")
    if body.get("conversation") is not None:
        raise ApiError("This simulator holds no conversations.", param="conversation")
    _check_number(body, "temperature", 0, 2)
    _check_number(body, "top_p", 0, 1)
    # Reports: "integer_below_min_value" for fewer than 16 tokens.
    _check_number(body, "max_output_tokens", 16, None)
    for value in body.get("include") or []:
        check_choice(value, "include", INCLUDABLE)
    if body.get("truncation") is not None:
        check_choice(body["truncation"], "truncation", {"auto", "disabled"})
    _check_tools(body)
    _check_tool_choice(body)


def computer_tool_of(model: str) -> str | None:
    """Return the computer tool that a model takes, or None for a model that takes neither.

    Source: guide. The preview models take only the preview tool; gpt-5.4 and later take only the
    general one, except their chat and instant variants.

    Raises:
        ApiError: No model of that name is known (404).
    """
    if re.fullmatch(r"computer-use-preview(-\d{4}-\d{2}-\d{2})?", model):
        return "computer_use_preview"
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?(?=-|$)", model)
    if version is None:
        raise ApiError(
            f"The model `{model}` does not exist or you do not have access to it.",
            status=404,
            param="model",
            code="model_not_found",
        )
    number = (int(version[1]), int(version[2] or 0))
    if number < (5, 4) or re.search(r"-(chat|instant)\b", model):
        return None
    return "computer"


def _check_number(body: dict[str, Any], name: str, low: int, high: int | None) -> None:
    value = body.get(name)
    if value is None:
        return
    kind = "integer" if name == "max_output_tokens" else "decimal"
    allowed = (int,) if kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise ApiError(
            f"Invalid type for '{name}': expected {kind}, got {type(value).__name__}.",
            param=name,
            code="invalid_type",
        )
    if value < low:
        raise ApiError(
            f"Invalid '{name}': {kind} below minimum value. "
            f"Expected a value >= {low}, but got {value} instead.",
            param=name,
            code=f"{kind}_below_min_value",
        )
    if high is not None and value > high:
        raise ApiError(
            f"Invalid '{name}': {kind} above maximum value. "
            f"Expected a value <= {high}, but got {value} instead.",
            param=name,
            code=f"{kind}_above_max_value",
        )


def _check_tools(body: dict[str, Any]) -> None:
    supported = computer_tool_of(body["model"])
    for index, tool in enumerate(body.get("tools") or []):
        path = f"tools[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        check_choice(kind, f"{path}.type", frozenset(TOOL_FIELDS))
        required, optional = TOOL_FIELDS[str(kind)]
        check_object(tool, path, required, optional)
        if kind == "function":
            _check_function(tool, path)
            continue
        # Reports: the preview tool on a general model, and the reverse.
        if kind != supported:
            raise ApiError(f"Tool '{kind}' is not supported with {body['model']}.", param="tools")
        if kind == "computer_use_preview":
            check_choice(tool["environment"], f"{path}.environment", PREVIEW_ENVIRONMENTS)
            # Guide: the preview tool needs automatic truncation.
            if body.get("truncation") != "auto":
                raise ApiError(
                    "The computer_use_preview tool requires 'truncation' to be 'auto'.",
                    param="truncation",
                )


def _check_function(tool: dict[str, Any], path: str) -> None:
    if not FUNCTION_NAME.fullmatch(str(tool["name"])):
        raise ApiError(
            f"Invalid '{path}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            param=f"{path}.name",
            code="invalid_value",
        )
    if tool.get("strict"):
        _check_strict_schema(tool.get("parameters") or {}, tool["name"], path)


def _check_strict_schema(schema: dict[str, Any], name: str, path: str) -> None:
    """Source: reports; a strict schema closes every object and requires all its properties."""
    properties = schema.get("properties") or {}
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required") or []) != set(properties):
            raise ApiError(
                f"Invalid schema for function '{name}': a strict schema needs "
                "'additionalProperties' to be false and every property in 'required'.",
                param=f"{path}.parameters",
                code="invalid_function_parameters",
            )
    for child in properties.values():
        _check_strict_schema(child, name, path)


def _check_tool_choice(body: dict[str, Any]) -> None:
    """Source: SDK (ToolChoice): a word, or an object that names one of the tools sent."""
    choice = body.get("tool_choice")
    if choice is None or choice in ("none", "auto", "required"):
        return
    wanted = (choice.get("type"), choice.get("name")) if isinstance(choice, dict) else None
    offered = [(tool["type"], tool.get("name")) for tool in body.get("tools") or []]
    if wanted not in offered:
        raise ApiError(
            f"Tool choice '{choice}' not found in 'tools' parameter.", param="tool_choice"
        )
