"""What Gemini's generateContent refuses in the contents of a conversation.

Sources are named as in `gemini_rules`.
"""

import base64
import binascii
import functools
import io
import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from PIL import Image, UnidentifiedImageError

from tests.simulators.gemini_rules import ApiError, check_fields, signs_calls

Json = dict[str, Any]

# What Google's own tools did in a turn of the model.
HOSTED_DATA = frozenset({"executableCode", "codeExecutionResult"})
PART_DATA = HOSTED_DATA | {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
PART_FIELDS = PART_DATA | {"thought", "thoughtSignature", "mediaResolution"}
CALL_FIELDS = frozenset({"id", "name", "args"})
RESPONSE_FIELDS = frozenset({"id", "name", "response", "parts", "willContinue", "scheduling"})
RESPONSE_PART_FIELDS = frozenset({"inlineData", "fileData"})
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
HEIF_TYPES = frozenset({"image/heic", "image/heif"})
# API: stands in for the signature of a call that Gemini did not make.
FOREIGN_SIGNATURES = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)


@dataclass
class Ledger:
    """What the API can tell about what it issued: every content, and every signature."""

    contents: set[str] = field(default_factory=set)
    signed: dict[str, str] = field(default_factory=dict)  # signature → the part it is for

    def issue(self, content: Json) -> None:
        """Remember a content."""
        self.contents.add(json.dumps(content))
        for part in content.get("parts", []):
            if signature := part.get("thoughtSignature"):
                self.signed[signature] = _unsigned(part)

    def is_issued(self, content: Json) -> bool:
        """Say whether a content is one that was issued, byte for byte."""
        return json.dumps(content) in self.contents


def check_contents(body: Json, model: str, predefined: frozenset[str], ledger: Ledger) -> None:
    """Check the contents, alone and as a conversation.

    Args:
        body: The parsed request body.
        model: The model asked.
        predefined: The predefined functions on offer.
        ledger: What was issued so far.

    Raises:
        ApiError: The API would refuse them.
    """
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise ApiError("* GenerateContentRequest.contents: contents is not specified")
    for index, content in enumerate(contents):
        _check_content(content, f"contents[{index}]", ledger)
    _check_roles(contents)
    for index, content in enumerate(contents):
        if content["role"] == "model":
            _check_answers(content, contents[index + 1], predefined)
        elif _parts_of(content, "functionResponse") and index == 0:
            raise ApiError(_TURN_ORDER)
    if signs_calls(model):
        _check_signatures(contents, ledger)


_TURN_ORDER = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def _check_content(content: Any, path: str, ledger: Ledger) -> None:
    check_fields(content, path, frozenset({"role", "parts"}))
    if content.get("role") not in ("user", "model"):
        # Reports.
        raise ApiError("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        # Reports.
        raise ApiError(f"* GenerateContentRequest.{path}.parts: contents.parts must not be empty.")
    for index, part in enumerate(parts):
        where = f"{path}.parts[{index}]"
        check_fields(part, where, PART_FIELDS)
        _check_part(part, where, content["role"])
        empty = part.get("text") == "" and "thoughtSignature" not in part
        if empty and not ledger.is_issued(content):
            # Reports of Vertex AI; the Gemini API has been seen to take it. The model may say one.
            raise ApiError(f"{where}.text: the text must not be empty.")


def _check_part(part: Json, path: str, role: str) -> None:
    data = set(part) & PART_DATA
    # API: exactly one; a thought signature may also come with an empty text.
    if len(data) != 1:
        raise ApiError(f"{path}.data: required oneof field 'data' must have one initialized field")
    kind = data.pop()
    if kind == "text" and not isinstance(part["text"], str):
        raise ApiError(f"Invalid value at '{path}.text' (TYPE_STRING)")
    if kind == "inlineData":
        _check_image(part["inlineData"], path)
    elif kind == "functionCall":
        call = check_fields(part["functionCall"], f"{path}.function_call", CALL_FIELDS)
        if not call.get("name"):
            raise ApiError(f"{path}.function_call.name: Name cannot be empty.")
    elif kind == "functionResponse":
        _check_response(part["functionResponse"], f"{path}.function_response")
    wrong = {"user": {"functionCall", *HOSTED_DATA}, "model": {"functionResponse", "inlineData"}}[
        role
    ]
    if kind in wrong:
        raise ApiError(f"{path}: a {kind} is not allowed in a turn of role '{role}'.")
    if role == "user" and {"thought", "thoughtSignature"} & set(part):
        # Strict.
        raise ApiError(f"{path}: a user turn has no thoughts.")


def _check_image(blob: Any, path: str) -> None:
    check_fields(blob, f"{path}.inline_data", frozenset({"mimeType", "data"}))
    if blob.get("mimeType") in HEIF_TYPES:
        return  # nothing here can read them
    if blob.get("mimeType") not in IMAGE_TYPES:
        raise ApiError(f"Unsupported MIME type: {blob.get('mimeType')}")
    try:
        kind = _format(str(blob.get("data") or ""))
    except binascii.Error:
        raise ApiError(f"Invalid value at '{path}.inline_data.data' (TYPE_BYTES)") from None
    except (UnidentifiedImageError, OSError):
        raise ApiError("Unable to process input image. Please retry or report.") from None
    if f"image/{str(kind).lower()}" != blob["mimeType"]:
        # Strict.
        raise ApiError(f"The image is {kind}, and declared as {blob['mimeType']}.")


# A conversation sends its screenshots again each turn.
@functools.lru_cache(maxsize=256)
def _format(data: str) -> str | None:
    """Return the format of an image all of whose pixels can be read."""
    plain = data.replace("-", "+").replace("_", "/")  # the API takes both alphabets
    with Image.open(io.BytesIO(base64.b64decode(plain, validate=True))) as image:
        image.load()
        return image.format


def _check_response(response: Any, path: str) -> None:
    check_fields(response, path, RESPONSE_FIELDS)
    if not response.get("name"):
        raise ApiError(f"{path}.name: Name cannot be empty.")
    if not isinstance(response.get("response"), dict) or not response["response"]:
        raise ApiError(f"Invalid value at '{path}.response' (type.googleapis.com/Struct)")
    for index, part in enumerate(response.get("parts") or []):
        where = f"{path}.parts[{index}]"
        check_fields(part, where, RESPONSE_PART_FIELDS)
        _check_image(part.get("inlineData"), where)


def _check_roles(contents: list[Json]) -> None:
    if contents[0]["role"] != "user" or contents[-1]["role"] != "user":
        # Reports.
        raise ApiError("Please ensure that the conversation starts and ends with a user role.")
    for before, after in pairwise(contents):
        if before["role"] == after["role"]:
            # Reports.
            raise ApiError(
                "Please ensure that multiturn requests alternate between user and model."
            )


def _check_answers(content: Json, answer: Json, predefined: frozenset[str]) -> None:
    calls = _parts_of(content, "functionCall")
    responses = _parts_of(answer, "functionResponse")
    if responses and not calls:
        raise ApiError(_TURN_ORDER)
    if len(calls) != len(responses):
        raise ApiError(_COUNT)
    if responses and _parts_of(answer, "inlineData"):
        # Guide: the screenshot is a part of the function response.
        raise ApiError("The screenshot must be inside the function response.")
    for call, response in zip(calls, responses, strict=True):
        if (call["name"], call.get("id")) != (response["name"], response.get("id")):
            # Strict about the order; the API refuses a name or id that no call has.
            raise ApiError(
                f"The function response {response['name']} ({response.get('id')}) does not match "
                f"the function call {call['name']} ({call.get('id')})."
            )
        _check_state(call, response, predefined)


def _check_state(call: Json, response: Json, predefined: frozenset[str]) -> None:
    said = response["response"]
    if call["name"] in predefined and not isinstance(said.get("url"), str):
        # Guide; reports of a 400 for a response without it.
        raise ApiError(f"The response of {call['name']} must have the current 'url'.")
    decision = (call.get("args") or {}).get("safety_decision") or {}
    if (
        decision.get("decision") == "require_confirmation"
        and said.get("safety_acknowledgement") != "true"
    ):
        # Reports, word for word.
        raise ApiError(
            f"The safety decision from function call {call['name']} must be acknowledged in the "
            "corresponding function response."
        )


def _check_signatures(contents: list[Json], ledger: Ledger) -> None:
    """Source: API; signatures are checked in the turn since the user's latest own words."""
    start = max(
        (
            index
            for index, content in enumerate(contents)
            if content["role"] == "user" and not _parts_of(content, "functionResponse")
        ),
        default=0,
    )
    for index, content in enumerate(contents):
        if content["role"] != "model":
            continue
        for part in content["parts"]:
            signature = part.get("thoughtSignature")
            if signature is None or signature in FOREIGN_SIGNATURES:
                continue
            if ledger.signed.get(signature) != _unsigned(part):
                raise ApiError("Corrupted thought signature.")
        calls = [part for part in content["parts"] if "functionCall" in part]
        if index > start and calls and "thoughtSignature" not in calls[0]:
            raise ApiError(
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly. Additional data, function call "
                f"`{calls[0]['functionCall']['name']}`, position {index}."
            )


def _parts_of(content: Json, kind: str) -> list[Any]:
    return [part[kind] for part in content["parts"] if kind in part]


def _unsigned(part: Json) -> str:
    return json.dumps({name: value for name, value in part.items() if name != "thoughtSignature"})
