"""Parts and function responses, from Responses messages and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from responses_api_models.gemini_model.images import inline_image
from responses_api_models.gemini_model.settings import InvalidRequest

Json = dict[str, Any]

CALL_TYPES = frozenset({"computer_call", "function_call"})
OUTPUT_TYPES = frozenset({"computer_call_output", "function_call_output"})

# NeMo Gym keeps no extra keys on a function's output, so these are texts of their own there.
ERROR_PREFIX = "error: "
URL_PREFIX = "current_url: "
ACKNOWLEDGED_PREFIX = "acknowledged_safety_checks: "

CUT_OFF = "The call was cut off, so it was not run."


def message_parts(content: Any, path: str) -> list[Json]:
    """Return a message's content as Gemini parts, without empty texts: Gemini refuses those.

    Args:
        content: The content: a text, or a list of content parts.
        path: Where it is in the request, for errors.

    Raises:
        InvalidRequest: A part is of an unknown type, or its image is unusable.
    """
    if isinstance(content, str):
        return [{"text": content}] if content else []
    parts = []
    for index, part in enumerate(content or []):
        here = f"{path}[{index}]"
        match part.get("type"):
            case "input_text" | "output_text":
                parts.append({"text": part["text"]})
            case "refusal":
                parts.append({"text": part["refusal"]})
            case "input_image":
                parts.append(inline_image(part.get("image_url"), f"{here}.image_url"))
            case kind:
                raise InvalidRequest(f"{here}.type: {kind!r} is not supported")
    return [part for part in parts if part.get("text") != ""]


def function_response(
    call: Mapping[str, Any], output: Json | None, path: str, *, url: str, needs_url: bool
) -> tuple[Json, str]:
    """Return the response to a call.

    Args:
        call: Gemini's function call.
        output: The output item; None for a call that was cut off and never run.
        path: Where the output is in the request, for errors.
        url: The latest known address of the page.
        needs_url: Whether a response without an address is refused, as for predefined functions.

    Returns:
        The function response, with the screenshot inside it, and the page's address.

    Raises:
        InvalidRequest: The output is unusable.
    """
    if output is None:
        result = _Result(text=CUT_OFF, is_error=True)
    elif output["type"] == "computer_call_output":
        result = _computer_result(output, path)
    else:
        result = _function_result(output, path)
    url = result.url or url
    response: Json = {"url": url} if needs_url or result.url else {}
    if result.text or not response:
        response["error" if result.is_error else "output"] = result.text
    if result.is_acknowledged:
        response["safety_acknowledgement"] = "true"
    named = {name: call[name] for name in ("id", "name") if call.get(name)}
    answer = {**named, "response": response}
    if result.images:
        answer["parts"] = result.images
    return answer, url


@dataclass
class _Result:
    """What an output says."""

    text: str = ""
    is_error: bool = False
    url: str | None = None
    images: list[Json] = field(default_factory=list)
    is_acknowledged: bool = False


def _computer_result(item: Json, path: str) -> _Result:
    output = item.get("output") or {}
    image = output.get("image_url")
    for name in ("text", "current_url"):
        if not isinstance(output.get(name) or "", str):
            raise InvalidRequest(f"{path}.output.{name}: {output[name]!r:.60} is no text")
    return _Result(
        text=output.get("text") or "",
        is_error=bool(output.get("is_error")),
        url=output.get("current_url"),
        images=[inline_image(image, f"{path}.output.image_url")] if image else [],
        is_acknowledged=bool(item.get("acknowledged_safety_checks")),
    )


def _function_result(item: Json, path: str) -> _Result:
    result, texts = _Result(), []
    for part in message_parts(item.get("output"), f"{path}.output"):
        text = part.get("text")
        if text is None:
            result.images.append(part)
        elif text.startswith(URL_PREFIX):
            result.url = text.removeprefix(URL_PREFIX)
        elif text.startswith(ACKNOWLEDGED_PREFIX):
            result.is_acknowledged = text.removeprefix(ACKNOWLEDGED_PREFIX).strip() not in (
                "",
                "[]",
            )
        else:
            texts.append(text)
    result.text = "\n".join(texts)
    if result.text.startswith(ERROR_PREFIX):
        result.text, result.is_error = result.text.removeprefix(ERROR_PREFIX), True
    return result
