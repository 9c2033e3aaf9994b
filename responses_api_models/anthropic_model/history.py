"""Input items of a Responses request to Anthropic's system prompt and messages.

What Anthropic said goes back untouched: a `reasoning` item of ours holds the whole content of a
reply, and the items after it only repeat it. Everything else in a history is translated.
"""

import json
import re
from typing import Any

from responses_api_models.anthropic_model.errors import BadRequest, Untranslatable
from responses_api_models.anthropic_model.images import image_block
from responses_api_models.anthropic_model.items import arguments_of, canonical_actions
from responses_api_models.anthropic_model.results import Output, read_output, result_blocks
from responses_api_models.anthropic_model.tools import Offer

Json = dict[str, Any]

PROVIDER = "anthropic"
# A call for one tab becomes two: this one makes the tab active.
TAB_CALL_SUFFIX = "-tab"
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
# How what this server writes into a `reasoning` item starts, whoever wrote its JSON anew.
_OWN_START = re.compile(rf'\s*{{\s*"provider"\s*:\s*"{PROVIDER}"')
_OUTPUTS = ("computer_call_output", "function_call_output")
_CALLS = ("computer_call", "function_call")


def own_content(item: Json, field: str) -> list[Json] | None:
    """Return the content that a `reasoning` item carries, if it is Anthropic's.

    Args:
        item: The item.
        field: Its place in the request, for messages of errors.

    Raises:
        BadRequest: It says that it is Anthropic's, and is damaged.
    """
    text = item.get("encrypted_content") or ""
    damaged = BadRequest(
        f"{field}.encrypted_content", "it is damaged; send it back as it came, or leave it out"
    )
    try:
        carried = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _OWN_START.match(text):
            raise damaged from error
        return None
    if not isinstance(carried, dict) or carried.get("provider") != PROVIDER:
        return None
    content = carried.get("content")
    if not isinstance(content, list) or not all(map(_is_block, content)):
        raise damaged
    return content


def _is_block(block: Any) -> bool:
    """Say whether something has what is read here of a content block."""
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "tool_use" or isinstance(block.get("id"), str)


def _can_be_said(block: Json) -> bool:
    """Say whether a reply's block can go back: Anthropic may say an empty text, but not hear it."""
    return block["type"] != "text" or bool(str(block.get("text")).strip())


def _sent_back(block: Json) -> Json:
    """Return a reply's block as it goes back: untouched, unless Anthropic would refuse it.

    A call's input that is no object was told to the model as an error, with the input.
    """
    if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}}
    return block


def _block_id(call_id: str) -> str:
    """Return a call id in the characters that Anthropic takes; its own are left as they are."""
    return _NOT_IN_IDS.sub("_", call_id)


class History:
    """Builds system prompt and messages, item by item.

    Attributes:
        system: Texts of the system prompt.
        messages: Messages so far; complete after `end`.
    """

    def __init__(self, offer: Offer) -> None:
        self.system: list[str] = []
        self.messages: list[Json] = []
        self._offer = offer
        self._own_ids: set[str] | None = None  # calls of the reply that the next items repeat
        self._calls: list[Json] = []  # `tool_use` blocks that wait for their results
        self._outputs: dict[str, Output] = {}
        self._answered: set[str] = set()  # calls, those for a tab too, that have had an output
        self._cut_off: set[str] = set()
        self._presumed: dict[str, Output] = {}  # of calls that got none of their own
        self._user: list[Json] = []  # the next user message, without results

    def add(self, item: Json, field: str) -> None:
        """Add an item.

        Args:
            item: The item.
            field: Its place in the request, for messages of errors.

        Raises:
            BadRequest: It cannot be sent.
        """
        kind = item.get("type") or "message"
        if kind == "message" and item["role"] != "assistant":
            self._add_message(item, field)
        elif kind == "message":
            self._add_text(item)
        elif kind == "reasoning":
            self._add_reply(item, field)
        elif kind in _CALLS:
            self._add_call(item, field)
        elif kind in _OUTPUTS:
            self._add_output(item, field)
        else:
            raise BadRequest(field, f"there are no items of type {kind!r} here")

    def end(self) -> None:
        """Finish the last message.

        Raises:
            BadRequest: A call has no output.
        """
        self._end_user_message(answered=True)

    def _add_message(self, item: Json, field: str) -> None:
        content = item["content"]
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        if item["role"] in ("system", "developer") and not self.messages and not self._user:
            self.system += [part["text"] for part in parts if part.get("text")]
            return
        for part in parts:
            if part["type"] == "input_image":
                url = part.get("image_url") or ""
                self._user.append(image_block(url, self._offer.limits, field))
            elif part["type"] != "input_text":
                raise BadRequest(field, f"there are no parts of type {part['type']!r} here")
            elif part["text"].strip():
                self._user.append({"type": "text", "text": part["text"]})

    def _add_reply(self, item: Json, field: str) -> None:
        content = own_content(item, field)
        self._end_user_message(answered=True)
        if content is None:
            self._own_ids = None  # another provider's thoughts mean nothing here
            return
        said = [_sent_back(block) for block in content if _can_be_said(block)]
        calls = [block for block in said if block["type"] == "tool_use"]
        self._own_ids = {call["id"] for call in calls}
        self._append("assistant", said)
        self._calls += calls

    def _add_text(self, item: Json) -> None:
        if self._own_ids is not None and not (self._outputs or self._user):
            return
        self._end_user_message()
        self._own_ids = None
        content = item["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        texts = [part.get("text") or part.get("refusal") or "" for part in parts]
        self._append("assistant", [{"type": "text", "text": t} for t in texts if t.strip()])

    def _add_call(self, item: Json, field: str) -> None:
        call_id = item["call_id"]
        if self._own_ids is not None:
            if call_id.removesuffix(TAB_CALL_SUFFIX) not in self._own_ids:
                raise BadRequest(
                    field, f"the call {call_id!r} is not in the reply that its reasoning item holds"
                )
            if item.get("status") == "incomplete":
                self._cut_off.add(call_id)
            return
        self._end_user_message()
        blocks = self._foreign_call(item)
        # All but the last of a batch went well, or there would be no output for the whole.
        self._presumed |= {block["id"]: Output() for block in blocks[:-1]}
        if item.get("status") == "incomplete":
            self._cut_off.add(blocks[-1]["id"])
        self._append("assistant", blocks)
        self._calls += blocks

    def _foreign_call(self, item: Json) -> list[Json]:
        """Return `tool_use` blocks for a call that this server did not make."""
        offer = self._offer
        call_id = item["call_id"]
        plain = item["type"] == "function_call" and item["name"] in offer.functions
        try:
            if plain or offer.tool is None:
                raise Untranslatable("a plain call")
            inputs = [offer.encode(action) for action in canonical_actions(item)]
        except (
            Untranslatable,
            LookupError,
            TypeError,
            AttributeError,
            ValueError,
            ArithmeticError,
        ):
            inputs = []
        if not inputs:
            is_function = item["type"] == "function_call"
            fields = arguments_of(item) if is_function else {"action": item.get("action")}
            inputs = [{"name": item["name"] if is_function else "action", "input": fields}]
        last = _block_id(call_id)
        ids = [*(f"{last}-{index}" for index in range(len(inputs) - 1)), last]
        return [
            {"type": "tool_use", "id": block_id, **block}
            for block_id, block in zip(ids, inputs, strict=True)
        ]

    def _add_output(self, item: Json, field: str) -> None:
        call_id = _block_id(item["call_id"])
        known = {call["id"] for call in self._calls}
        output = read_output(item)
        if call_id in self._answered:
            raise BadRequest(field, f"the call {call_id!r} has an output already")
        self._answered.add(call_id)
        if call_id not in known:
            whole = call_id.removesuffix(TAB_CALL_SUFFIX)
            if whole == call_id or whole not in known:
                raise BadRequest(field, f"there is no call {call_id!r} that waits for this output")
            if output.failed:  # the tab is not there, so the call itself was not run
                self._outputs[whole] = output
            return
        if not (call_id in self._outputs and self._outputs[call_id].failed):
            self._outputs[call_id] = output

    def _append(self, role: str, content: list[Json]) -> None:
        if not content:
            return  # Anthropic refuses an empty message
        if self.messages and self.messages[-1]["role"] == role:
            last = self.messages[-1]
            self.messages[-1] = {**last, "content": [*last["content"], *content]}
        else:
            self.messages.append({"role": role, "content": content})

    def _end_user_message(self, *, answered: bool = False) -> None:
        """Finish the user message, if there is one.

        Args:
            answered: Whether all calls must have been answered by now.
        """
        blocks = self._user
        if self._calls and (answered or self._outputs or blocks or self._cut_off):
            outputs = self._presumed | self._outputs
            blocks = result_blocks(self._calls, outputs, self._cut_off, self._offer) + blocks
            self._calls, self._outputs, self._presumed = [], {}, {}
            self._cut_off, self._answered = set(), set()
        self._append("user", blocks)
        self._user = []
