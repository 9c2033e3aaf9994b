"""Scripts of the scripted model: reading them, and finding the place of a request in one.

The model remembers nothing. Where a conversation stands is written into the ids it hands out:
`resp_<task id>_<turn>_<token>` for a response, `<kind>_<turn>_<token>_<n>` for its items, and
`call_<turn>_<token>_<n>` for the calls to be answered.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from openai.types.responses.computer_action import ComputerAction
from pydantic import Field, TypeAdapter, ValidationError

_ACTION: TypeAdapter[Any] = TypeAdapter(Annotated[ComputerAction, Field(discriminator="type")])
_RESPONSE_ID = re.compile(r"resp_(?P<task_id>.*)_(?P<turn>\d+)_(?P<token>[0-9a-f]+)")
_ITEM_ID = re.compile(r"[a-z]+_(?P<turn>\d+)_[0-9a-f]+_\d+")
_CALL_TYPES = ("computer_call", "function_call")
_OUTPUT_TYPES = ("computer_call_output", "function_call_output")


class InvalidScript(Exception):
    """A scripts file that cannot be followed. The text names the task, the turn and the field."""


class UnplaceableRequest(Exception):
    """A request that is at no place of a script. The text says why."""


@dataclass(frozen=True)
class Turn:
    """One reply: actions and a function call, each optional, or the answer that ends it all."""

    actions: tuple[dict[str, Any], ...] = ()
    message: str | None = None
    function: dict[str, Any] | None = None
    answer: str | None = None

    @property
    def calls(self) -> int:
        """How many calls the reply makes."""
        return bool(self.actions) + (self.function is not None)


@dataclass(frozen=True)
class Script:
    """What the model does for one task."""

    task_id: str
    prompt: str
    turns: tuple[Turn, ...]

    def single_actions(self) -> "Script":
        """Return the script with one action per reply, as the preview tool has it.

        A `screenshot` within a batch does nothing (every call is answered with one), so it is
        left out; one that is alone stays.
        """
        return replace(self, turns=tuple(one for turn in self.turns for one in _split(turn)))


@dataclass(frozen=True)
class Place:
    """Where a request stands: the script, if its task has one, and the turn to be given next."""

    script: Script | None
    turn: int


def parse_scripts(document: Any) -> dict[str, Script]:
    """Read the scripts of a parsed scripts file.

    Args:
        document: `{task id: {"prompt": text, "turns": [turn, …]}}`.

    Returns:
        The scripts by task id.

    Raises:
        InvalidScript: Something in it is wrong.
    """
    if not isinstance(document, dict):
        raise InvalidScript("the scripts file must hold an object {task id: script}")
    scripts: dict[str, Script] = {}
    prompts: dict[str, str] = {}
    for task_id, raw in document.items():
        if not isinstance(raw, dict) or not isinstance(raw.get("turns"), list):
            raise InvalidScript(f"{task_id}: needs a 'prompt' and a list of 'turns'")
        prompt = raw.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidScript(f"{task_id}: 'prompt' must be the task's text")
        if prompt in prompts:
            raise InvalidScript(
                f"{task_id}: has the same 'prompt' as {prompts[prompt]}; scripts are "
                "told apart by it"
            )
        prompts[prompt] = task_id
        turns = tuple(
            _parse_turn(turn, f"{task_id}: turn {index}", last=index == len(raw["turns"]) - 1)
            for index, turn in enumerate(raw["turns"])
        )
        scripts[task_id] = Script(task_id, prompt, turns)
    return scripts


def find_place(
    request: Mapping[str, Any], scripts: Mapping[str, Script], *, single_actions: bool
) -> Place:
    """Find where in a script a request stands.

    Args:
        request: A Responses request.
        scripts: The scripts by task id.
        single_actions: Whether replies hold one action each, as with the preview tool.

    Returns:
        The place. A task text without a script has a place without a script.

    Raises:
        UnplaceableRequest: The previous response or a call is not this model's, or a call has no
            output or an output no call.
    """
    given = request.get("input")
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    outputs = {item.get("call_id") for item in items if item.get("type") in _OUTPUT_TYPES}
    previous = request.get("previous_response_id")
    if previous is not None:
        place, calls = _after(previous, scripts, single_actions)
    else:
        script = _script_for(_user_texts(given), scripts)
        place = Place(script and _shaped(script, single_actions), _next_turn(items))
        calls = {item.get("call_id") for item in items if item.get("type") in _CALL_TYPES}
    if calls - outputs:
        raise UnplaceableRequest(f"No tool output found for call {_first(calls - outputs)}.")
    if outputs - calls:
        raise UnplaceableRequest(f"No tool call found for output of {_first(outputs - calls)}.")
    return place


def item_id(kind: str, turn: int, token: str, index: int) -> str:
    """Make the id of an item or of a call.

    Args:
        kind: Prefix that says what it is: `msg`, `cu`, `fc` or `call`.
        turn: The turn of the reply that holds it.
        token: Random hexadecimal text, one per reply.
        index: Position in the reply.
    """
    return f"{kind}_{turn}_{token}_{index}"


def _parse_turn(raw: Any, where: str, *, last: bool) -> Turn:
    fields = {"actions", "message", "function", "answer"}
    if not isinstance(raw, dict) or not raw.keys() <= fields:
        raise InvalidScript(f"{where}: must be an object with the fields {sorted(fields)}")
    if "answer" in raw:
        if len(raw) > 1 or not last or not isinstance(raw["answer"], str):
            raise InvalidScript(f"{where}: 'answer' must be a text, alone, and in the last turn")
        return Turn(answer=raw["answer"])
    actions, function = raw.get("actions", []), raw.get("function")
    if not isinstance(actions, list) or not (actions or function):
        raise InvalidScript(f"{where}: needs 'actions' (a list), 'function' or 'answer'")
    if function is not None and (
        not isinstance(function, dict)
        or not isinstance(function.get("name"), str)
        or not isinstance(function.get("arguments"), dict)
        or len(function) > 2
    ):
        raise InvalidScript(f"{where}: 'function' needs a 'name' and an object of 'arguments'")
    if not isinstance(raw.get("message", ""), str):
        raise InvalidScript(f"{where}: 'message' must be a text")
    for index, action in enumerate(actions):
        _check_action(action, f"{where}: action {index}")
    return Turn(tuple(actions), raw.get("message"), function)


def _check_action(action: Any, where: str) -> None:
    try:
        parsed = _ACTION.validate_python(action)
    except ValidationError as error:
        first = error.errors()[0]
        field = f"'{first['loc'][-1]}': " if first["loc"] else ""
        raise InvalidScript(f"{where} is no computer action: {field}{first['msg']}") from error
    if parsed.model_extra:
        raise InvalidScript(f"{where}: unknown field '{_first(parsed.model_extra)}'")


def _split(turn: Turn) -> list[Turn]:
    if len(turn.actions) < 2:
        return [turn]
    actions = [action for action in turn.actions if action["type"] != "screenshot"]
    actions = actions or [turn.actions[0]]
    singles = [Turn(actions=(action,)) for action in actions]
    singles[0] = replace(singles[0], message=turn.message)
    singles[-1] = replace(singles[-1], function=turn.function)
    return singles


def _shaped(script: Script, single_actions: bool) -> Script:
    return script.single_actions() if single_actions else script


def _after(
    response_id: str, scripts: Mapping[str, Script], single_actions: bool
) -> tuple[Place, set[Any]]:
    """Return the place after a response of ours, and the call ids that response had."""
    match = _RESPONSE_ID.fullmatch(response_id)
    if match is None or (match["task_id"] and match["task_id"] not in scripts):
        raise UnplaceableRequest(f"Previous response with id '{response_id}' not found.")
    turn = int(match["turn"])
    if not match["task_id"]:
        return Place(None, turn + 1), set()
    script = _shaped(scripts[match["task_id"]], single_actions)
    if turn >= len(script.turns):
        return Place(script, turn + 1), set()
    given = script.turns[turn]
    first = given.message is not None  # a message comes before the calls
    calls = range(first, first + given.calls)
    return Place(script, turn + 1), {item_id("call", turn, match["token"], n) for n in calls}


def _user_texts(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    texts: list[str] = []
    for item in given or []:
        if not isinstance(item, dict) or item.get("role") != "user":
            continue
        content = item.get("content")
        if isinstance(content, str):
            texts.append(content)
        else:
            texts += [part["text"] for part in content or [] if part.get("type") == "input_text"]
    return texts


def _script_for(texts: list[str], scripts: Mapping[str, Script]) -> Script | None:
    by_prompt = {script.prompt: script for script in scripts.values()}
    return next((by_prompt[text] for text in texts if text in by_prompt), None)


def _next_turn(items: list[dict[str, Any]]) -> int:
    """Return the turn after the latest one in a history.

    The turn is read from the ids, so a history whose older turns were left out still fits.
    """
    latest = -1
    for item in items:
        is_call = item.get("type") in _CALL_TYPES
        # A message that is not ours is part of the task, not a reply.
        match = _ITEM_ID.fullmatch(str(item.get("call_id" if is_call else "id")))
        if is_call and match is None:
            raise UnplaceableRequest(
                f"Call {item.get('call_id')} was not made by the scripted model."
            )
        if match and (is_call or item.get("role") == "assistant"):
            latest = max(latest, int(match["turn"]))
    return latest + 1


def _first(names: Any) -> Any:
    return sorted(names, key=str)[0]
