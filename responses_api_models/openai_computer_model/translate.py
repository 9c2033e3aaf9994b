"""Between NeMo Gym's Responses items and OpenAI's own, without losing anything.

NeMo Gym validates replies more strictly than OpenAI writes them. `from_openai` makes a reply
valid and keeps the original of whatever it had to change under the key `native`; `to_openai` puts
the original back, so a history sent to OpenAI is what OpenAI said.
"""

import copy
import math
from typing import Any, cast

from openai.types.responses import Response
from openai.types.responses.computer_action import ComputerAction
from pydantic import TypeAdapter, ValidationError

NATIVE = "native"

_ACTION: TypeAdapter[Any] = TypeAdapter(ComputerAction)
_COORDINATES = ("x", "y", "scroll_x", "scroll_y")

# What is acted on, and must be as openai 2.44.0 knows it. The other fields of a reply only repeat
# the request or explain the status: a value that it does not know must not end an episode.
_READ = frozenset(
    ("id", "object", "created_at", "model", "status", "output", "parallel_tool_calls", "usage")
)
_REPLACEABLE: dict[str, Any] = {
    **{name: None for name in Response.model_fields if name not in _READ},
    "error": {"code": "server_error", "message": ""},
    "incomplete_details": {"reason": None},
    "tool_choice": "auto",
    "tools": [],
}
_REPLACEABLE_TYPES: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(cast(Any, Response.model_fields[name].annotation)) for name in _REPLACEABLE
}


class UnusableReply(ValueError):
    """A reply that is no Responses object at all."""


def to_openai(request: dict[str, Any], *, model: str) -> dict[str, Any]:
    """Build the body to send to OpenAI.

    Only what was set is sent. NeMo Gym writes out every optional field of a reply as null on the
    way to the agent, which replays it; OpenAI means "absent" by most of them and refuses some.

    Args:
        request: A Responses request, without the fields that were not set.
        model: The model to ask, whatever the request names.

    Returns:
        The request body. The argument is left as it is.
    """
    body = {name: value for name, value in request.items() if value is not None}
    body["model"] = model
    if isinstance(body.get("input"), list):
        body["input"] = [_item_to_openai(item) for item in body["input"]]
    return body


def from_openai(reply: dict[str, Any]) -> dict[str, Any]:
    """Make a raw reply valid for NeMo Gym.

    Args:
        reply: The parsed body of a successful answer.

    Returns:
        The reply with these changes, and no others:

        - A `computer_call` without `pending_safety_checks` gets an empty list. The general
          computer tool may leave it out.
        - Coordinates become integers, and the pairs of a drag path become objects; an action that
          OpenAI's schema still does not know (a new type, a missing field) becomes a `screenshot`.
          A changed action has the original under `native`, and only a changed one: whoever runs
          the action reads `native` first, and tells the model if it cannot run that.
        - Missing lists and statuses that NeMo Gym requires are filled in. Token details that are
          not reported are null, which means unknown, not zero; so is a usage without its counts.
        - A top-level field with a value openai 2.44.0 does not know gets its default, and the
          original goes to the top-level `native` object.

    Raises:
        UnusableReply: The reply is not an object with a list of output items.
    """
    if not isinstance(reply, dict) or not isinstance(reply.get("output"), list):
        raise UnusableReply("the reply is not a Responses object: it has no list 'output'")
    result = copy.deepcopy(reply)
    result["output"] = [_item_from_openai(item) for item in result["output"]]
    for name, default in (
        ("object", "response"),
        ("parallel_tool_calls", True),
        ("tool_choice", "auto"),
        ("tools", []),
    ):
        if result.get(name) is None:
            result[name] = default
    result["usage"] = _complete_usage(result.get("usage"))
    _replace_unknown_values(result)
    return result


def _item_to_openai(item: dict[str, Any]) -> dict[str, Any]:
    item = _without_nulls(item)
    # OpenAI adds it to replies and refuses it in requests (openai's own tool runner drops it).
    item.pop("created_by", None)
    return item


def _without_nulls(value: Any) -> Any:
    """Drop nulls at every depth, and put the originals of changed actions back, untouched."""
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if NATIVE in value:
        return value[NATIVE]
    return {name: _without_nulls(entry) for name, entry in value.items() if entry is not None}


def _item_from_openai(item: Any) -> Any:
    if not isinstance(item, dict):
        raise UnusableReply(f"an output item is not an object: {item!r:.100}")
    kind = item.get("type")
    if kind == "computer_call":
        _fill(item, pending_safety_checks=[], status="completed")
        if item.get("action") is not None:
            item["action"] = _action_from_openai(item["action"])
        if isinstance(item.get("actions"), list):
            item["actions"] = [_action_from_openai(action) for action in item["actions"]]
    elif kind == "message":
        _fill(item, content=[], status="completed")
        for part in item["content"]:
            if isinstance(part, dict) and part.get("type") == "output_text":
                _fill(part, annotations=[])
    elif kind == "reasoning":
        _fill(item, summary=[])
    return item


def _fill(fields: dict[str, Any], **defaults: Any) -> None:
    for name, default in defaults.items():
        if fields.get(name) is None:
            fields[name] = default


def _action_from_openai(raw: Any) -> dict[str, Any]:
    action: dict[str, Any] = _with_integers(raw) if isinstance(raw, dict) else {}
    try:
        _ACTION.validate_python(action)
    except ValidationError:
        action = {"type": "screenshot"}
    if action != raw:
        action[NATIVE] = raw
    return action


def _with_integers(raw: dict[str, Any]) -> dict[str, Any]:
    action: dict[str, Any] = {
        name: _rounded(value) if name in _COORDINATES else value for name, value in raw.items()
    }
    if isinstance(raw.get("path"), list):
        action["path"] = [_point(point) for point in raw["path"]]
    return action


def _point(point: Any) -> Any:
    if isinstance(point, list) and len(point) == 2:
        point = {"x": point[0], "y": point[1]}
    if isinstance(point, dict):
        return {name: _rounded(value) for name, value in point.items()}
    return point


def _rounded(value: Any) -> Any:
    return round(value) if isinstance(value, float) and math.isfinite(value) else value


def _complete_usage(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    sent, received = usage.get("input_tokens"), usage.get("output_tokens")
    if not isinstance(sent, int) or not isinstance(received, int):
        return None
    _fill(usage, total_tokens=sent + received)
    for details, count in (
        ("input_tokens_details", "cached_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ):
        _fill(usage, **{details: {}})
        usage[details].setdefault(count, None)
    return usage


def _replace_unknown_values(reply: dict[str, Any]) -> None:
    for name, default in _REPLACEABLE.items():
        if name not in reply:
            continue
        try:
            _REPLACEABLE_TYPES[name].validate_python(reply[name])
        except ValidationError:
            original = reply[name]
            reply.setdefault(NATIVE, {})[name] = original
            reply[name] = copy.deepcopy(default)
            if name == "error" and isinstance(original, dict):
                reply[name]["message"] = str(original.get("message") or "")
