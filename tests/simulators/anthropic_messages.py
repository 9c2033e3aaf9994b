"""What Anthropic's Messages API refuses in the messages, alone and as a conversation.

Sources are named as in `anthropic_rules`. Stricter than the API on purpose: roles must alternate
and results must be in the order of their calls, where the API would put up with more.
"""

import base64
import binascii
import functools
import hashlib
import io
import json
import re
from dataclasses import dataclass, field
from typing import Any

from PIL import Image, UnidentifiedImageError

from tests.simulators.anthropic_rules import BINDING_BETA, ApiError, SimModel, check_object

Json = dict[str, Any]

BLOCK_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "text": ({"type", "text"}, {"cache_control", "citations"}),
    "image": ({"type", "source"}, {"cache_control"}),
    "tool_use": ({"type", "id", "name", "input"}, {"cache_control", "toolset_name", "caller"}),
    "tool_result": (
        {"type", "tool_use_id"},
        {"content", "is_error", "cache_control", "toolset_name"},
    ),
    "thinking": ({"type", "thinking", "signature"}, set()),
    "redacted_thinking": ({"type", "data"}, set()),
    "browser_state": ({"type", "tabs"}, {"state_changes", "cache_control"}),
    "compaction": ({"type", "content"}, {"cache_control"}),
}
ROLE_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking", "compaction"},
}
NOT_EXECUTED = {
    "computer": "Not executed: an earlier computer action in this turn failed.",
    "browser": "Not executed: an earlier action in this turn failed.",
}
# Reports: ids of other providers' calls are refused.
TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
TAB_MEMBERS = {"new_tab", "list_tabs", "switch_tab", "close_tab"}
# Docs: vision.
MAX_IMAGES = 100
MANY_IMAGES, MANY_IMAGES_SIDE_PX, MAX_SIDE_PX = 20, 2000, 8000
MAX_IMAGE_CHARS = 5 * 1024 * 1024


@dataclass
class Ledger:
    """What the API knows without being told: the replies it has issued, by their seals."""

    # Reply id → its content.
    issued: dict[str, list[Json]] = field(default_factory=dict)
    # Signature, redacted data or tool_use id → reply id.
    seals: dict[str, str] = field(default_factory=dict)
    # Reply id → hash of what came before it; whether it paused.
    prefixes: dict[str, str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    # Images that a model would have seen smaller than they were sent.
    downscaled: int = 0


def seal_of(block: Json) -> str | None:
    """Return what identifies an issued block."""
    return block.get("signature") or block.get("data") or block.get("id")


class Prefixes:
    """Hashes of a request up to each of its messages, without cache breakpoints."""

    def __init__(self, body: Json) -> None:
        self._hashes = [_digest("", [body.get("system"), body.get("tools")])]
        for message in body["messages"]:
            self._hashes.append(_digest(self._hashes[-1], message))

    def before(self, index: int, blocks: list[Json]) -> str:
        """Return the hash of what is before a message, and the first blocks of that message."""
        if not blocks:
            return self._hashes[index]
        return _digest(self._hashes[index], {"role": "assistant", "content": blocks})

    @property
    def whole(self) -> str:
        """The hash of all messages."""
        return self._hashes[-1]


def _digest(before: str, value: Any) -> str:
    text = before + json.dumps(_without_breakpoints(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_breakpoints(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_breakpoints(entry) for entry in value]
    if isinstance(value, dict):
        return {k: _without_breakpoints(v) for k, v in value.items() if k != "cache_control"}
    return value


def check_messages(body: Json, model: SimModel, betas: set[str], ledger: Ledger) -> list[Json]:
    """Check the messages.

    Returns:
        What was done to them: `input_transformations` of the reply.

    Raises:
        ApiError: The API would refuse them.
    """
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        raise ApiError("messages: at least one message is required")
    expected = "user"
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        check_object(message, path, {"role", "content"}, set())
        if message["role"] != expected:
            raise ApiError(f"{path}: roles must alternate between 'user' and 'assistant'")
        expected = "assistant" if expected == "user" else "user"
        if not message["content"]:
            raise ApiError(f"{path}: all messages must have non-empty content")
        if not isinstance(message["content"], list):
            continue
        for number, block in enumerate(message["content"]):
            _check_block(block, f"{path}.content.{number}", ROLE_BLOCKS[message["role"]])
    if messages[-1]["role"] == "assistant" and not _ends_paused(messages[-1], ledger):
        raise ApiError("This model does not support assistant message prefill.")
    _check_pairs(messages)
    _check_images(messages, body, model, ledger)
    return _check_thinking(body, model, betas, ledger)


def _ends_paused(message: Json, ledger: Ledger) -> bool:
    content = message["content"]
    return any(content[-len(ledger.issued[r]) :] == ledger.issued[r] for r in ledger.paused)


def _check_block(block: Any, path: str, allowed: set[str]) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in allowed:
        raise ApiError(
            f"{path}: Input tag '{kind}' found using 'type' does not match any of {allowed}"
        )
    check_object(block, path, *BLOCK_FIELDS[kind])
    if kind == "text" and not block["text"].strip():
        raise ApiError(f"{path}: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not TOOL_USE_ID.fullmatch(block["id"]):
        raise ApiError(f"{path}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "tool_use" and not isinstance(block["input"], dict):
        raise ApiError(f"{path}.input: Input should be a valid dictionary")
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for number, part in enumerate(block["content"]):
            parts = {"text", "image", "browser_state"}
            _check_block(part, f"{path}.content.{number}", parts)


def _check_pairs(messages: list[Json]) -> None:
    seen: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        content = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "assistant":
            ids = [block["id"] for block in content if block["type"] == "tool_use"]
            if len(set(ids)) != len(ids) or seen & set(ids):
                raise ApiError(f"{path}: `tool_use` ids must be unique")
            seen |= set(ids)
            following = messages[index + 1]["content"] if index + 1 < len(messages) else []
            answered = [b.get("tool_use_id") for b in following if isinstance(b, dict)]
            if missing := [call for call in ids if call not in answered]:
                raise ApiError(
                    f"{path}: `tool_use` ids were found without `tool_result` blocks immediately "
                    f"after: {', '.join(missing)}."
                )
            continue
        before = messages[index - 1]["content"] if index else []
        calls = [b for b in before if isinstance(b, dict) and b["type"] == "tool_use"]
        results = [block for block in content if block["type"] == "tool_result"]
        if content[: len(results)] != results:
            raise ApiError(f"{path}: tool_result blocks must come first")
        for result in results:
            if result["tool_use_id"] not in [call["id"] for call in calls]:
                raise ApiError(
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{result['tool_use_id']}."
                )
        if [result["tool_use_id"] for result in results] != [call["id"] for call in calls]:
            raise ApiError(f"{path}: each tool_use must have a single result, in its order")
        _check_results(calls, results, path)


def _check_results(calls: list[Json], results: list[Json], path: str) -> None:
    failed = False
    for call, result in zip(calls, results, strict=True):
        where = f"{path}: result of {call['id']}"
        family = call.get("toolset_name")
        if result.get("toolset_name") != family:
            raise ApiError(f"{where}: toolset_name must be {family!r}")
        content = result.get("content") or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [part["type"] for part in parts]
        if "browser_state" in kinds and family != "browser":
            raise ApiError(f"{where}: browser_state answers browser tools only")
        if result.get("is_error"):
            if not kinds or set(kinds) != {"text"}:
                raise ApiError(f"{where}: all content must be type `text` if `is_error` is true")
            if failed and family and parts[0]["text"] != NOT_EXECUTED[family]:
                raise ApiError(f"{where}: expected {NOT_EXECUTED[family]!r}")
            failed = True
            continue
        if failed and family:
            raise ApiError(f"{where}: an earlier action of this turn failed")
        if family and call["name"] in ("screenshot", "zoom") and "image" not in kinds:
            raise ApiError(f"{where}: {call['name']} must return an image")
        if family == "browser" and call["name"] in TAB_MEMBERS and kinds != ["browser_state"]:
            raise ApiError(f"{where}: {call['name']} must return one browser_state")
        for part in parts:
            if part["type"] == "browser_state":
                _check_state(part, where)
        if kinds.count("browser_state") > 1:
            raise ApiError(f"{where}: at most one browser_state")


def _check_state(state: Json, where: str) -> None:
    for tab in state["tabs"]:
        check_object(tab, where, {"tab_id"}, {"title", "url", "active"})
    if state["tabs"] and sum(bool(tab.get("active")) for tab in state["tabs"]) != 1:
        raise ApiError(f"{where}: exactly one tab must be active")
    if len({tab["tab_id"] for tab in state["tabs"]}) != len(state["tabs"]):
        raise ApiError(f"{where}: tab ids must be unique")


def _check_images(messages: list[Json], body: Json, model: SimModel, ledger: Ledger) -> None:
    images = [image for message in messages for image in _images(message["content"])]
    if len(images) > MAX_IMAGES:
        raise ApiError(f"messages: too many images: {len(images)} > {MAX_IMAGES}")
    side = MANY_IMAGES_SIDE_PX if len(images) > MANY_IMAGES else MAX_SIDE_PX
    toolset = any("toolset" in tool.get("type", "") for tool in body.get("tools") or [])
    for image in images:
        width, height = _size(image)
        if max(width, height) > side:
            many = " for many-image requests" if side == MANY_IMAGES_SIDE_PX else ""
            raise ApiError(
                f"At least one of the image dimensions exceed max allowed size{many}: {side} pixels"
            )
        longest, patches = model.image_limits
        if max(width, height) > longest or -(-width // 28) * -(-height // 28) > patches:
            if toolset:
                raise ApiError(f"an image of {width}x{height} is too large for this toolset")
            ledger.downscaled += 1


def _images(content: Any) -> list[Json]:
    if not isinstance(content, list):
        return []
    found = [block for block in content if block["type"] == "image"]
    return found + [i for b in content if b["type"] == "tool_result" for i in _images(b["content"])]


def _size(image: Json) -> tuple[int, int]:
    source = check_object(image["source"], "source", {"type", "media_type", "data"}, set())
    if len(source["data"]) > MAX_IMAGE_CHARS:
        raise ApiError("image exceeds 5 MB maximum")
    try:
        actual, size = _decoded(source["data"])
    except (binascii.Error, UnidentifiedImageError, OSError) as error:
        raise ApiError("Could not process image") from error
    if actual != source["media_type"]:
        raise ApiError(f"Image does not match the provided media type {source['media_type']}")
    return size


# A conversation sends its screenshots again each turn.
@functools.lru_cache(maxsize=256)
def _decoded(data: str) -> tuple[str, tuple[int, int]]:
    """Return media type and size of an image all of whose pixels can be read."""
    with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as opened:
        opened.load()
        return f"image/{(opened.format or '').lower()}", opened.size


def _check_thinking(body: Json, model: SimModel, betas: set[str], ledger: Ledger) -> list[Json]:
    """Source: docs, thinking; prefix checks."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    drops = BINDING_BETA in betas and binding.get("prefix_mismatch_behavior") == "drop_block"
    prefixes = Prefixes(body)
    transformations: list[Json] = []
    for index, message in enumerate(body["messages"]):
        content = message["content"]
        if message["role"] != "assistant" or isinstance(content, str):
            continue
        _check_replies_are_whole(content, f"messages.{index}", ledger)
        for number, block in enumerate(content):
            path = f"messages.{index}.content.{number}"
            if block["type"] not in ("thinking", "redacted_thinking"):
                continue
            reply_id = ledger.seals.get(str(seal_of(block)))
            if reply_id is None or block not in ledger.issued[reply_id]:
                raise ApiError(f"{path}: Invalid `signature` in `thinking` block")
            if not model.binds or block != ledger.issued[reply_id][0]:
                continue
            if ledger.prefixes[reply_id] == prefixes.before(index, content[:number]):
                continue
            if not drops:
                raise ApiError(
                    f"{path}: Invalid `signature` in `thinking` block. The block is bound to a "
                    "different conversation."
                )
            transformations.append({"type": "thinking_dropped", "path": path})
    return transformations


def _check_replies_are_whole(content: list[Json], path: str, ledger: Ledger) -> None:
    """Refuse thinking that was left out of, or changed in, the turn of a known call."""
    for block in content:
        reply_id = ledger.seals.get(str(seal_of(block)))
        if reply_id is None:
            continue
        kinds = ("thinking", "redacted_thinking")
        if any(b not in content for b in ledger.issued[reply_id] if b["type"] in kinds):
            raise ApiError(
                f"{path}: `thinking` or `redacted_thinking` blocks in an assistant message cannot "
                "be modified. These blocks must remain as they were in the original response."
            )
