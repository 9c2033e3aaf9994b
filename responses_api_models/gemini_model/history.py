"""The conversation so far, from Responses items to Gemini contents.

A turn that came from Gemini is sent back as it came: the `reasoning` item at its start holds the
content, thought signatures included, and the items made from that content are skipped.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from responses_api_models.gemini_model.actions import Action, encode
from responses_api_models.gemini_model.checks import parse_json
from responses_api_models.gemini_model.functions import (
    FIRST_SIGNING_VERSION,
    PREDEFINED,
    FunctionSet,
    Viewport,
    model_version,
)
from responses_api_models.gemini_model.responses import (
    CALL_TYPES,
    OUTPUT_TYPES,
    function_response,
    message_parts,
)
from responses_api_models.gemini_model.settings import InvalidRequest, Settings

Json = dict[str, Any]

PROVIDER = "gemini"
_PACKED_START = json.dumps({"provider": PROVIDER})[:-1]
# Google documents this text as the signature of calls that Gemini did not make itself.
FOREIGN_SIGNATURE = "skip_thought_signature_validator"
_MADE_ID = re.compile(r"call_(\d+)_\d+")


@dataclass
class History:
    """A translated conversation.

    Attributes:
        contents: Gemini contents, user and model in turn.
        instructions: Texts of the system and developer messages.
        call_ids: The ids of all calls in it.
        next_turn: A number no turn in it has, for the ids of the next turn's items.
    """

    contents: list[Json] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    next_turn: int = 0


@dataclass(frozen=True)
class _Call:
    """A call of the latest model turn, which the next user content has to answer."""

    call_id: str
    native: Json
    cut_off: bool
    is_predefined: bool
    is_presumed: bool


def translate_history(
    items: Sequence[Json], view: Viewport, settings: Settings, own_functions: frozenset[str]
) -> History:
    """Return the contents of a conversation.

    Args:
        items: Responses items, in order.
        view: The viewport.
        settings: Which model is asked.
        own_functions: Names of the function tools offered beside it.

    Raises:
        InvalidRequest: An item is unusable, or calls and outputs do not match.
    """
    return _Translation(view, settings, own_functions).run(items)


class _Translation:
    """One pass over the items."""

    def __init__(self, view: Viewport, settings: Settings, own_functions: frozenset[str]) -> None:
        self._view = view
        self._functions: FunctionSet = settings.functions
        self._signs = model_version(settings.model) >= FIRST_SIGNING_VERSION
        self._own = own_functions
        self._history = History()
        self._calls: list[_Call] = []
        self._outputs: dict[str, tuple[str, Json]] = {}
        self._url = "about:blank"

    def run(self, items: Sequence[Json]) -> History:
        at = 0
        while at < len(items):
            item, path = items[at], f"input[{at}]"
            kind = item.get("type") or "message"
            if kind in OUTPUT_TYPES:
                self._add_output(item, path)
                at += 1
            elif kind == "message" and item.get("role") != "assistant":
                self._add_message(item, path)
                at += 1
            elif kind == "reasoning" and (content := _own_content(item, path)) is not None:
                end = _end_of_turn(items, at + 1)
                self._add_turn(content, items[at + 1 : end], path)
                at = end
            elif kind == "reasoning" or kind in CALL_TYPES or kind == "message":
                end = _end_of_turn(items, at + 1)
                self._add_foreign_turn(items[at:end], at)
                at = end
            else:
                raise InvalidRequest(f"{path}.type: Gemini has nothing like a {kind!r} item")
        self._answer_calls()
        numbers = [int(m[1]) for name in self._history.call_ids if (m := _MADE_ID.fullmatch(name))]
        turns = sum(content["role"] == "model" for content in self._history.contents)
        self._history.next_turn = max([turns, *(number + 1 for number in numbers)])
        return self._history

    def _add_message(self, item: Json, path: str) -> None:
        parts = message_parts(item.get("content"), f"{path}.content")
        if item.get("role") == "user":
            self._answer_calls()
            self._add_user_parts(parts)
            return
        if not all(set(part) == {"text"} for part in parts):
            raise InvalidRequest(f"{path}.content: a system message holds text only")
        self._history.instructions += [part["text"] for part in parts]

    def _add_user_parts(self, parts: list[Json]) -> None:
        """Add to the latest content if that is the user's: Gemini wants the roles in turn."""
        contents = self._history.contents
        if contents and contents[-1]["role"] == "user":
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": "user", "parts": parts})

    def _add_turn(self, content: Json, derived: Sequence[Json], path: str) -> None:
        """Add a turn of Gemini's own; `derived` are the items that were made from it."""
        self._answer_calls()
        natives = function_calls(content)
        calls = [item for item in derived if item.get("type") in CALL_TYPES]
        if len(calls) != len(natives):
            raise InvalidRequest(
                f"{path}: the turn has {len(natives)} calls, and {len(calls)} call items follow it"
            )
        for native, call in zip(natives, calls, strict=True):
            self._expect(call, native, path)
        if not content.get("parts"):
            return  # an empty reply: Gemini takes no content without parts
        if not self._history.contents:
            raise InvalidRequest(f"{path}: a conversation starts with a user message")
        self._add_model_content(content if "role" in content else {"role": "model", **content})

    def _add_model_content(self, content: Json) -> None:
        """Add to the latest content if that is the model's: Gemini wants the roles in turn."""
        contents = self._history.contents
        if contents[-1]["role"] == "model":
            last = contents.pop()
            content = {**last, "parts": [*last["parts"], *content["parts"]]}
        contents.append(content)

    def _add_foreign_turn(self, items: Sequence[Json], first: int) -> None:
        """Add a turn that another model made, in Gemini's words where there are any.

        Args:
            items: The turn's items.
            first: The index of the first one, for errors.
        """
        self._answer_calls()
        parts: list[Json] = []
        signs = self._signs
        for index, item in enumerate(items, first):
            kind, path = item.get("type") or "message", f"input[{index}]"
            if kind == "message":
                parts += message_parts(item.get("content"), f"{path}.content")
            elif kind in CALL_TYPES:
                natives = [self._native(action, path) for action in _actions(item, path)]
                self._expect(item, natives[-1], path, before=natives[:-1])
                # The first call of a turn stands for all of them.
                signature = {"thoughtSignature": FOREIGN_SIGNATURE} if signs else {}
                parts.append({"functionCall": natives[0], **signature})
                parts += [{"functionCall": native} for native in natives[1:]]
                signs = False
        if not parts:
            return
        if not self._history.contents:
            raise InvalidRequest(f"input[{first}]: a conversation starts with a user message")
        self._add_model_content({"role": "model", "parts": parts})

    def _native(self, action: Action, path: str) -> Json:
        """Return Gemini's call for an action, or one of the action's own name."""
        if action.kind == "function" and action.name in self._own:
            return {"name": action.name, "args": action.fields}
        try:
            call = encode(action, self._view, self._functions)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidRequest(
                f"{path}: an unusable {action.name!r} action: {error!r}"
            ) from error
        name, args = call or (action.name, action.fields)
        return {"name": name, "args": args}

    def _expect(self, item: Json, native: Json, path: str, before: Sequence[Json] = ()) -> None:
        """Remember a call that has to be answered.

        Args:
            item: The call item.
            native: Gemini's call, which the item's output answers.
            path: Where the item is in the request, for errors.
            before: Calls of the same item before that one. They went well, or there would be no
                output for the whole.
        """
        call_id = item.get("call_id")
        if not isinstance(call_id, str) or call_id in self._history.call_ids:
            raise InvalidRequest(f"{path}: the call id {call_id!r} is missing or there twice")
        self._history.call_ids.add(call_id)
        for call in (*before, native):
            name = call.get("name")
            self._calls.append(
                _Call(
                    call_id=call_id,
                    native=call,
                    cut_off=item.get("status") == "incomplete",
                    is_predefined=name in PREDEFINED and name not in self._own,
                    is_presumed=call is not native,
                )
            )

    def _add_output(self, item: Json, path: str) -> None:
        call_id = str(item.get("call_id"))
        if call_id not in {call.call_id for call in self._calls}:
            raise InvalidRequest(f"{path}.call_id: {call_id!r} is no call of the turn before")
        if call_id in self._outputs:
            raise InvalidRequest(f"{path}.call_id: {call_id!r} has an output already")
        self._outputs[call_id] = (path, item)

    def _answer_calls(self) -> None:
        """Add the responses to the latest turn's calls, in the order of the calls."""
        parts = []
        for call in self._calls:
            path, output = self._outputs.get(call.call_id, ("input", None))
            if output is None and not call.cut_off:
                raise InvalidRequest(f"input: the call {call.call_id!r} has no output")
            if output is not None and call.is_presumed:
                output = {"type": "function_call_output", "output": ""}
            response, url = function_response(
                call.native, output, path, url=self._url, needs_url=call.is_predefined
            )
            self._url = url
            parts.append({"functionResponse": response})
        self._calls, self._outputs = [], {}
        if parts:
            self._add_user_parts(parts)


def function_calls(content: Mapping[str, Any]) -> list[Json]:
    """Return the function calls of a content, in order."""
    parts = content.get("parts") or []
    return [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]


def pack_content(content: Json | None) -> str:
    """Return what a `reasoning` item keeps of a turn."""
    return json.dumps({"provider": PROVIDER, "content": content or {}})


def _own_content(item: Json, path: str) -> Json | None:
    """Return the content a `reasoning` item keeps, or None for one that is not Gemini's.

    Raises:
        InvalidRequest: It is Gemini's, and not as `pack_content` made it.
    """
    text, where = item.get("encrypted_content") or "", f"{path}.encrypted_content"
    try:
        packed = parse_json(text, where)
    except InvalidRequest:
        if text.startswith(_PACKED_START):
            raise
        return None
    if not isinstance(packed, dict) or packed.get("provider") != PROVIDER:
        return None
    content = packed.get("content")
    parts = content.get("parts") or [] if isinstance(content, dict) else None
    if (
        not isinstance(content, dict)
        or content.get("role", "model") != "model"
        or not isinstance(parts, list)
        or not all(isinstance(part, dict) for part in parts)
        or len(function_calls(content)) != sum("functionCall" in part for part in parts)
    ):
        raise InvalidRequest(f"{where}: it holds no content of Gemini's; give the item as it came")
    return content


def _end_of_turn(items: Sequence[Json], at: int) -> int:
    """Return where the items of one assistant turn end."""
    while at < len(items):
        kind = items[at].get("type") or "message"
        if kind not in CALL_TYPES and (kind != "message" or items[at].get("role") != "assistant"):
            break
        at += 1
    return at


def _actions(item: Json, path: str) -> list[Action]:
    """Return the actions of a call item: one, or those of a batch."""
    if item["type"] == "function_call":
        return [Action("function", item["name"], _arguments(item, path))]
    listed = item.get("actions") or [item.get("action")]
    actions = [dict(action) for action in listed if isinstance(action, dict) and "type" in action]
    if len(actions) != len(listed):
        raise InvalidRequest(f"{path}.action: a computer call needs an action")
    return [Action("computer", str(action.pop("type")), action) for action in actions]


def _arguments(item: Json, path: str) -> Json:
    arguments = parse_json(item.get("arguments") or "{}", f"{path}.arguments")
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{path}.arguments: not a JSON object")
    return arguments
