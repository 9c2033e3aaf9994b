"""A reply of the Messages API to a Responses object."""

import json
from typing import Any

from responses_api_models.anthropic_model.errors import Untranslatable, UnusableReply
from responses_api_models.anthropic_model.history import PROVIDER, TAB_CALL_SUFFIX
from responses_api_models.anthropic_model.items import call_item, function_item
from responses_api_models.anthropic_model.tools import Offer

Json = dict[str, Any]

# The reply ended before the model was done.
_CUT_OFF_REASONS = ("max_tokens", "model_context_window_exceeded")
_TAB_MEMBERS_WITH_ID = ("switch_tab", "close_tab")


def build_response(reply: Any, offer: Offer, *, now: float) -> Json:
    """Build the Responses object of a reply.

    Args:
        reply: The parsed body of a successful answer.
        offer: What the request offered.
        now: The time in seconds since the epoch.

    Raises:
        UnusableReply: It is no message.
    """
    if not isinstance(reply, dict) or not isinstance(reply.get("content"), list):
        raise UnusableReply("it is not a message: it has no list 'content'")
    content = reply["content"]
    if not all(isinstance(b, dict) and isinstance(b.get("type"), str) for b in content):
        raise UnusableReply("a content block is not an object with a 'type'")
    reason = str(reply.get("stop_reason"))
    reply_id = str(reply.get("id"))
    cut_off = reason in _CUT_OFF_REASONS
    output = [_reasoning(reply_id, content)]
    for index, block in enumerate(content):
        is_last = index == len(content) - 1
        if block["type"] == "text" and block.get("text"):
            part = {"type": "output_text", "text": block["text"], "annotations": []}
            output.append(_message(f"{reply_id}_{index}", part))
        elif block["type"] == "tool_use":
            if not isinstance(block.get("id"), str):
                raise UnusableReply("a tool_use block has no 'id'")
            # Only the last call can be cut off; a refused reply's calls must not be run at all.
            unfinished = (cut_off and is_last) or reason == "refusal"
            output += _call_items(block, offer, cut_off=unfinished)
    if reason == "refusal":
        part = {"type": "refusal", "refusal": _explanation(reply)}
        output.append(_message(f"{reply_id}_refusal", part))
    return {
        "id": reply_id,
        "object": "response",
        "created_at": now,
        "model": str(reply.get("model")),
        "status": "incomplete" if cut_off else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut_off else None,
        "error": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(reply.get("usage")),
        "metadata": _metadata(reply, reason),
    }


def _reasoning(reply_id: str, content: list[Json]) -> Json:
    thoughts = [b.get("thinking") for b in content if b["type"] == "thinking"]
    return {
        "type": "reasoning",
        "id": f"rs_{reply_id}",
        "summary": [{"type": "summary_text", "text": text} for text in thoughts if text],
        # In ASCII: half a surrogate pair has no other form.
        "encrypted_content": json.dumps({"provider": PROVIDER, "content": content}),
    }


def _message(name: str, part: Json) -> Json:
    return {
        "type": "message",
        "id": f"msg_{name}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _call_items(block: Json, offer: Offer, *, cut_off: bool) -> list[Json]:
    call_id, name = block["id"], str(block.get("name"))
    fields = block.get("input")
    if not offer.is_hosted(block):
        return [function_item(name, fields, call_id, cut_off=cut_off)]
    try:
        action = offer.decode(block)
    except Untranslatable as error:
        # Named as the model named it, which is no canonical action with these arguments: whoever
        # runs it finds the text for the model.
        native = fields.get("action", name) if isinstance(fields, dict) else name
        arguments = {"error": f"{native}: {error}", "input": fields}
        return [function_item(str(native), arguments, call_id, cut_off=cut_off)]
    items = [call_item(action, call_id, block, cut_off=cut_off)]
    tab_id = fields.get("tab_id") if isinstance(fields, dict) else None
    if tab_id is not None and name not in _TAB_MEMBERS_WITH_ID:
        tab_call = call_id + TAB_CALL_SUFFIX
        arguments = {"tab_id": tab_id}
        items.insert(0, function_item("switch_tab", arguments, tab_call, cut_off=cut_off))
    return items


def _explanation(reply: Json) -> str:
    details = reply.get("stop_details") or {}
    return str(details.get("explanation") or "The model refused to go on.")


def _usage(usage: Any) -> Json | None:
    if not isinstance(usage, dict):
        return None
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    sent = (usage.get("input_tokens") or 0) + read + written
    received = usage.get("output_tokens") or 0
    # None is unknown, not zero.
    thought = (usage.get("output_tokens_details") or {}).get("thinking_tokens")
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": received,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": sent + received,
    }


def _metadata(reply: Json, reason: str) -> dict[str, str]:
    metadata = {"stop_reason": reason}
    for name in ("stop_sequence", "stop_details", "context_management", "input_transformations"):
        if value := reply.get(name):
            metadata[name] = value if isinstance(value, str) else json.dumps(value)
    return metadata
