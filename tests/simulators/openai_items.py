"""What OpenAI's Responses API refuses in the input items and in their order.

Sources are named as in `openai_rules`.
"""

import base64
import binascii
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from openai.types.responses.computer_action import ComputerAction
from PIL import Image, UnidentifiedImageError
from pydantic import Field, TypeAdapter, ValidationError

from tests.simulators.openai_rules import ApiError, check_choice, check_object

Item = dict[str, Any]

# SDK: required and optional fields of each item we accept.
ITEM_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "message": ({"role", "content"}, {"type", "id", "status", "phase"}),
    # SDK requires `pending_safety_checks` here; the general tool's replies may leave it out, and a
    # reply sent back unchanged has to be acceptable (guide).
    "computer_call": (
        {"type", "id", "call_id", "status"},
        {"action", "actions", "pending_safety_checks"},
    ),
    "computer_call_output": (
        {"type", "call_id", "output"},
        {"id", "status", "acknowledged_safety_checks"},
    ),
    "function_call": (
        {"type", "call_id", "name", "arguments"},
        {"id", "status", "namespace"},
    ),
    "function_call_output": ({"type", "call_id", "output"}, {"id", "status"}),
    # The SDK lists a `status`; NeMo Gym's own notes and reports say that the API refuses it.
    "reasoning": ({"type", "id", "summary"}, {"encrypted_content", "content"}),
}
CALL_TYPES = {"computer_call", "function_call"}
OUTPUT_TYPES = {"computer_call_output": "computer_call", "function_call_output": "function_call"}
# Reports: "Expected an ID that begins with 'msg'", and so on.
ID_PREFIXES = {"message": "msg", "computer_call": "cu", "function_call": "fc", "reasoning": "rs"}
MAX_ID_LENGTH = 64

# SDK: content parts. The guide sends `detail` on a screenshot output although the SDK has no field
# for it there.
PART_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "input_text": ({"type", "text"}, set()),
    "input_image": ({"type"}, {"image_url", "file_id", "detail"}),
    "output_text": ({"type", "text"}, {"annotations", "logprobs"}),
    "refusal": ({"type", "refusal"}, set()),
}
SCREENSHOT_FIELDS: tuple[set[str], set[str]] = ({"type"}, {"image_url", "file_id", "detail"})
IMAGE_DETAILS = {"low", "high", "auto", "original"}
IMAGE_DATA_URL = re.compile(r"data:image/(png|jpeg|webp|gif);base64,(.+)", re.DOTALL)

# SDK: fields of each computer action.
ACTION_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "click": ({"type", "button", "x", "y"}, {"keys"}),
    "double_click": ({"type", "x", "y"}, {"keys"}),
    "drag": ({"type", "path"}, {"keys"}),
    "keypress": ({"type", "keys"}, set()),
    "move": ({"type", "x", "y"}, {"keys"}),
    "screenshot": ({"type"}, set()),
    "scroll": ({"type", "x", "y", "scroll_x", "scroll_y"}, {"keys"}),
    "type": ({"type", "text"}, set()),
    "wait": ({"type"}, set()),
}
_ACTION: TypeAdapter[Any] = TypeAdapter(Annotated[ComputerAction, Field(discriminator="type")])


@dataclass
class Ledger:
    """What the API itself remembers: stored responses and every item it has issued."""

    # Response id → the whole conversation up to and with that response; stored ones only.
    conversations: dict[str, list[Item]] = field(default_factory=dict)
    # Item id → the item as issued, and the response that issued it.
    issued: dict[str, Item] = field(default_factory=dict)
    issued_by: dict[str, str] = field(default_factory=dict)
    # Reasoning id → its encrypted content, and the id of the item it led to.
    encrypted: dict[str, str] = field(default_factory=dict)
    led_to: dict[str, str] = field(default_factory=dict)
    stored_ids: set[str] = field(default_factory=set)

    def is_unchanged(self, item: Item) -> bool:
        """Say whether an item is exactly one that was issued (absent and null count as equal)."""
        issued = self.issued.get(str(item.get("id")))
        return issued is not None and _without_nulls(issued) == _without_nulls(item)


def check_input(body: dict[str, Any], ledger: Ledger) -> list[Item]:
    """Check the input items, alone and as a conversation.

    Args:
        body: The parsed request body; `model` and `input` are present.
        ledger: What the API remembers.

    Returns:
        The conversation as the model sees it: the stored items of `previous_response_id`, then
        the new ones.

    Raises:
        ApiError: The API would refuse it.
    """
    history = _history(body.get("previous_response_id"), ledger)
    raw = body["input"]
    items = [{"role": "user", "content": raw}] if isinstance(raw, str) else raw
    if not isinstance(items, list) or not items:
        raise ApiError(
            "Invalid type for 'input': expected a text or a list of items.",
            param="input",
            code="invalid_type",
        )
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]", ledger)
    conversation = history + items
    _check_duplicates(conversation)
    _check_reasoning(conversation, ledger)
    _check_calls(conversation)
    return conversation


def _history(previous: str | None, ledger: Ledger) -> list[Item]:
    """Source: reports; an unstored response is as unknown as one that never was."""
    if previous is None:
        return []
    if previous not in ledger.conversations:
        raise ApiError(
            f"Previous response with id '{previous}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    return ledger.conversations[previous]


def _check_item(item: Any, path: str, ledger: Ledger) -> None:
    kind = item_type(item)
    check_choice(kind, path, frozenset(ITEM_FIELDS))
    if ledger.is_unchanged(item):
        if kind == "reasoning":
            _check_reasoning_is_known(item, path, ledger)
        return
    required, optional = ITEM_FIELDS[kind]
    check_object(item, path, required, optional)
    _check_ids(item, kind, path)
    if kind == "message":
        _check_message(item, path)
    elif kind == "computer_call":
        _check_actions(item, path)
    elif kind == "computer_call_output":
        _check_screenshot(item["output"], f"{path}.output")
    elif kind == "function_call_output" and not isinstance(item["output"], str):
        _check_parts(item["output"], f"{path}.output", {"input_text", "input_image"})
    elif kind == "reasoning":
        _check_reasoning_is_known(item, path, ledger)


def item_type(item: Any) -> str:
    """Return an item's type; a bare role and content is a message."""
    if not isinstance(item, dict):
        return type(item).__name__
    return str(item.get("type") or ("message" if "role" in item else None))


def _check_ids(item: Item, kind: str, path: str) -> None:
    for name in ("id", "call_id"):
        value = item.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_LENGTH:
            raise ApiError(
                f"Invalid '{path}.{name}': expected a string of 1 to {MAX_ID_LENGTH} characters.",
                param=f"{path}.{name}",
                code="string_above_max_length",
            )
    prefix = ID_PREFIXES.get(kind)
    if prefix and item.get("id") is not None and not item["id"].startswith(prefix):
        raise ApiError(
            f"Invalid '{path}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'.",
            param=f"{path}.id",
            code="invalid_id_prefix",
        )


def _check_message(item: Item, path: str) -> None:
    roles = {"user", "system", "developer", "assistant"}
    check_choice(item["role"], f"{path}.role", roles)
    if isinstance(item["content"], str):
        return
    # Reports: an assistant's parts are output parts, everyone else's are input parts.
    allowed = (
        {"output_text", "refusal"} if item["role"] == "assistant" else {"input_text", "input_image"}
    )
    _check_parts(item["content"], f"{path}.content", allowed)


def _check_parts(parts: Any, path: str, allowed: set[str]) -> None:
    if not isinstance(parts, list):
        raise ApiError(
            f"Invalid type for '{path}': expected a list.", param=path, code="invalid_type"
        )
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        check_choice(kind, f"{where}.type", allowed)
        required, optional = PART_FIELDS[str(kind)]
        check_object(part, where, required, optional)
        if kind == "input_image":
            _check_image(part, where)


def _check_screenshot(output: Any, path: str) -> None:
    """Source: SDK; the only output of a computer call is a `computer_screenshot`."""
    kind = output.get("type") if isinstance(output, dict) else None
    check_choice(kind, f"{path}.type", {"computer_screenshot"})
    check_object(output, path, *SCREENSHOT_FIELDS)
    _check_image(output, path)


def _check_image(part: Item, path: str) -> None:
    """Check an image part, decoding it.

    Source: reports of "Expected a base64-encoded data URL with an image MIME type". That the
    declared type must be the true one is our own rule: other providers enforce it, and a
    mislabelled image is always a bug on our side.
    """
    if part.get("detail") is not None:
        check_choice(part["detail"], f"{path}.detail", IMAGE_DETAILS)
    url = part.get("image_url")
    if part.get("file_id") is not None:
        raise ApiError(
            f"No such File object: {part['file_id']}", status=404, param=f"{path}.file_id"
        )
    if isinstance(url, str) and re.match(r"https?://\S+$", url):
        return
    param = f"{path}.image_url"
    match = IMAGE_DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        raise ApiError(
            f"Invalid '{param}'. Expected a base64-encoded data URL with an image MIME type "
            "(png, jpeg, webp or gif).",
            param=param,
            code="invalid_value",
        )
    try:
        with Image.open(io.BytesIO(base64.b64decode(match[2], validate=True))) as image:
            image.load()
            actual = str(image.format).lower()
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError) as error:
        raise ApiError(
            f"Invalid '{param}'. The image data does not represent a valid image.",
            param=param,
            code="invalid_image",
        ) from error
    if actual != match[1]:
        raise ApiError(
            f"Invalid '{param}'. It says image/{match[1]} but holds {actual} data.",
            param=param,
            code="invalid_image_format",
        )


def _check_actions(item: Item, path: str) -> None:
    """Source: SDK; `action` or `actions`, of the nine known types and nothing beside."""
    for where, action in actions_of(item, path):
        kind = action.get("type") if isinstance(action, dict) else None
        check_choice(kind, f"{where}.type", frozenset(ACTION_FIELDS))
        required, optional = ACTION_FIELDS[str(kind)]
        check_object(action, where, required, optional)
        try:
            _ACTION.validate_python(action)
        except ValidationError as error:
            first = error.errors()[0]
            raise ApiError(
                f"Invalid value for '{where}.{first['loc'][-1]}': {first['msg']}.", param=where
            ) from error


def actions_of(item: Item, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each action of a computer call."""
    if item.get("action") is not None:
        yield f"{path}.action", item["action"]
    for index, action in enumerate(item.get("actions") or []):
        yield f"{path}.actions[{index}]", action


def _check_reasoning_is_known(item: Item, path: str, ledger: Ledger) -> None:
    """Source: reports; unstored reasoning comes back by its encrypted content, untouched."""
    content = item.get("encrypted_content")
    if content is None:
        if item["id"] not in ledger.stored_ids:
            raise ApiError(
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is "
                "set to false. Try again with `store` set to true, or remove this item from your "
                "input.",
                status=404,
                param="input",
            )
    elif ledger.encrypted.get(item["id"]) != content:
        raise ApiError(
            f"The encrypted content for item {item['id']} could not be verified.",
            param=f"{path}.encrypted_content",
            code="invalid_encrypted_content",
        )


def _check_duplicates(conversation: list[Item]) -> None:
    """Source: reports of "Duplicate item found with id" and "Duplicate 'call_id'"."""
    seen_ids: set[str] = set()
    seen_calls: set[str] = set()
    for item in conversation:
        item_id = item.get("id")
        if item_id is not None and item_id in seen_ids:
            raise ApiError(
                f"Duplicate item found with id {item_id}. Remove duplicate items from your input "
                "and try again.",
                param="input",
            )
        seen_ids.add(str(item_id))
        if item_type(item) in CALL_TYPES:
            if item["call_id"] in seen_calls:
                raise ApiError(f"Duplicate 'call_id': {item['call_id']}", param="input")
            seen_calls.add(item["call_id"])


def _check_reasoning(conversation: list[Item], ledger: Ledger) -> None:
    """Source: reports; reasoning and the item it led to travel together, in that order."""
    led_by = {follower: reasoning for reasoning, follower in ledger.led_to.items()}
    for index, item in enumerate(conversation):
        kind, item_id = item_type(item), str(item.get("id"))
        if kind == "reasoning":
            following = conversation[index + 1] if index + 1 < len(conversation) else {}
            if not _is_generated(following) or following.get("id") not in (
                None,
                ledger.led_to.get(item_id),
            ):
                raise ApiError(
                    f"Item '{item_id}' of type 'reasoning' was provided without its required "
                    "following item.",
                    param="input",
                )
        elif item_id in led_by:
            before = conversation[index - 1] if index else {}
            if before.get("id") != led_by[item_id]:
                raise ApiError(
                    f"Item '{item_id}' of type '{kind}' was provided without its required "
                    f"'reasoning' item: '{led_by[item_id]}'.",
                    param="input",
                )


def _is_generated(item: Item) -> bool:
    kind = item_type(item)
    return kind in CALL_TYPES | {"reasoning"} or item.get("role") == "assistant"


def _check_calls(conversation: list[Item]) -> None:
    """Source: reports of "No tool output found", and the guide's safety-check rule."""
    open_calls: dict[str, Item] = {}
    answered: set[str] = set()
    for item in conversation:
        kind = item_type(item)
        if kind in CALL_TYPES:
            open_calls[item["call_id"]] = item
        elif kind in OUTPUT_TYPES:
            call_id = item["call_id"]
            noun = OUTPUT_TYPES[kind].replace("_", " ")
            if call_id in answered:
                raise ApiError(
                    f"Duplicate output found for {noun} with call_id {call_id}.", param="input"
                )
            call = open_calls.pop(call_id, None)
            if call is None or item_type(call) != OUTPUT_TYPES[kind]:
                raise ApiError(
                    f"No tool call found for {noun} output with call_id {call_id}.", param="input"
                )
            answered.add(call_id)
            _check_acknowledged(call, item)
    for call_id, call in open_calls.items():
        noun = item_type(call).replace("_", " ")
        raise ApiError(f"No tool output found for {noun} {call_id}.", param="input")


def _check_acknowledged(call: Item, output: Item) -> None:
    pending = {check["id"] for check in call.get("pending_safety_checks") or []}
    echoed = {check["id"] for check in output.get("acknowledged_safety_checks") or []}
    if pending - echoed:
        raise ApiError(
            f"Computer call {call['call_id']} has pending safety checks that were not "
            f"acknowledged: {', '.join(sorted(pending - echoed))}.",
            param="input",
            code="unacknowledged_safety_checks",
        )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _without_nulls(entry) for name, entry in value.items() if entry is not None}
    return value
