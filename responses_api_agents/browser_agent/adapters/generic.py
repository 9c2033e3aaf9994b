"""Adapter for model servers that translate for a provider which keeps no conversation.

Every request carries the history. The model server gives a `reasoning` item that stands for the
whole turn in the provider's own words, so turns are kept, sent and dropped whole. Calls come as
computer calls, or as functions named after canonical actions.
"""

from __future__ import annotations

import json
from typing import Any

from responses_api_agents.browser_agent.adapters.base import (
    Call,
    CallOutcome,
    Item,
    Reply,
    Screen,
    StopReason,
)
from responses_api_agents.browser_agent.adapters.history import History, HistoryPolicy
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    action_to_canonical,
    browser_function_tools,
    parse_arguments,
    parse_canonical,
)
from responses_api_agents.browser_agent.adapters.responses import (
    CALL_TYPES,
    NUDGE,
    has_cut_off_call,
    reasoning_text,
    text_part,
    unforced,
    usage_of,
    user_message,
    visible_text,
    with_functions,
    with_screenshot,
)
from responses_api_agents.browser_agent.token_trace import newest_with_tokens, without_tokens

# Providers' stop reasons, in lower case, that end an episode or say that a reply is unusable.
_STOPS: dict[str, StopReason] = {
    "refusal": "refusal",
    "max_tokens": "truncated_reply",
    "model_context_window_exceeded": "context_window",
    "safety": "content_filter",
    "image_safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "model_armor": "content_filter",
    "jailbreak": "content_filter",
    "malformed_function_call": "empty_reply",
    "malformed_response": "empty_reply",
    "unexpected_tool_call": "empty_reply",
}
# The provider took a break, or put a summary in place of the conversation so far.
_PAUSES = ("pause_turn", "compaction")
_LOOKS = ("screenshot", "zoom")
_TAB_ACTIONS = ("new_tab", "list_tabs", "switch_tab", "close_tab")


class GenericAdapter:
    """Speaks with one translated model for one episode."""

    def __init__(
        self,
        *,
        model: str,
        instructions: str | None,
        browser_functions: bool | list[str],
        history: HistoryPolicy,
    ) -> None:
        """Prepare an episode.

        Args:
            model: the model's name; the model server asks its own.
            instructions: system prompt for runs that bring none of their own.
            browser_functions: offer function tools for addresses, history and tabs: all, none,
                or those named.
            history: what is sent of the conversation.
        """
        self._model = model
        self._instructions = instructions
        self._browser_functions = browser_functions
        self._policy = history
        self._params: dict[str, Any] = {}
        self._foreign: set[str] = set()
        self._history = History(history, [], {})
        self._sent: list[Item] = []
        self._changed = 0

    def start(self, params: dict[str, Any], screen: Screen) -> dict[str, Any]:
        """Return the first request: the run's own input with the first screenshot."""
        params = {name: value for name, value in params.items() if value is not None}
        image = image_part(screen)
        self._history = History(self._policy, with_screenshot(params.pop("input"), image), image)
        own = params.pop("tools", [])
        self._foreign = {tool["name"] for tool in own if tool.get("type") == "function"}
        tools = with_functions([*own], self._functions())
        self._params = {"model": self._model, **params, "tools": self._tools(screen) + tools}
        if self._instructions:
            self._params.setdefault("instructions", self._instructions)
        return self.next()

    def read(self, response: dict[str, Any]) -> Reply:
        """Read a response: calls in order, visible text, and why it stopped."""
        items: list[Item] = response.get("output", [])
        message, refusal = visible_text(items)
        stop, paused = _stop(response, items, message, refusal)
        if stop != "empty_reply":
            # An empty turn is not one a provider takes back.
            self._history.add_reply(items)
            self._params = unforced(self._params)
        return Reply(
            response_id=response["id"],
            items=items,
            calls=self._read_calls(response, items),
            message=message or refusal,
            reasoning=reasoning_text(items),
            stop=stop,
            usage=usage_of(response),
            paused=paused,
        )

    def answer(self, reply: Reply, outcomes: list[CallOutcome]) -> list[Item]:
        """Answer each call; the last one that was run shows the screen, and those that ask to."""
        shown = shown_calls(reply.calls, outcomes)
        items = [
            computer_output(call, outcome, picture=index in shown)
            if call.kind == "computer"
            else _function_output(call, outcome, picture=index in shown)
            for index, (call, outcome) in enumerate(zip(reply.calls, outcomes, strict=True))
        ]
        self._history.add_answers(items)
        return items

    def nudge(self) -> list[Item]:
        """Ask again what was asked, with a word on what is wanted."""
        item = user_message(text_part(NUDGE))
        self._history.add_answers([item])
        return [item]

    def next(self) -> dict[str, Any]:
        """Return the request that carries the history.

        Only the newest reply has its token ids, which are those of all before it too: on each
        they would grow with the square of the turns. If something was left out since, they are not
        those of what is sent, and none has them, so that no model server puts them in its place.
        """
        items = self._history.items()
        if items[: len(self._sent)] != self._sent:
            self._changed = len(items)
        self._sent = items
        newest = newest_with_tokens(items[self._changed :])
        sent = [item if item is newest else without_tokens(item) for item in items]
        return {**self._params, "input": sent}

    def _tools(self, screen: Screen) -> list[Item]:
        return [
            {
                "type": "computer_use_preview",
                "display_width": screen.width,
                "display_height": screen.height,
                "environment": "browser",
            }
        ]

    def _functions(self) -> list[Item]:
        return browser_function_tools(self._browser_functions)

    def _canonical(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the canonical action of a function call.

        Raises:
            UnusableCall: there is no such action, or a field is unusable.
        """
        return parse_canonical(name, fields)

    def _read_calls(self, response: dict[str, Any], items: list[Item]) -> list[Call]:
        checks = _function_checks(response)
        calls = []
        for item in items:
            if item["type"] not in CALL_TYPES or item.get("status") not in (None, "completed"):
                continue  # cut off: it must not be run
            computer = item["type"] == "computer_call"
            call = Call(item["call_id"], "computer" if computer else "function", item)
            pending = item.get("pending_safety_checks") if computer else checks.get(call.call_id)
            call.safety_checks = list(pending or [])
            try:
                if computer:
                    for action in item.get("actions") or [item.get("action") or {}]:
                        call.actions.append(_standard(action))
                else:
                    call.actions.append(self._read_function(item["name"], item["arguments"]))
            except UnusableCall as error:
                call.error = str(error)
            calls.append(call)
        return calls

    def _read_function(self, name: str, arguments: str) -> dict[str, Any]:
        if name in self._foreign:
            raise UnusableCall(f"nothing here can run the tool {name!r}; use the browser")
        fields = parse_arguments(name, arguments)
        if "error" in fields:  # the model server could make no action of the provider's call
            raise UnusableCall(str(fields["error"]))
        return self._canonical(name, fields)


def _standard(action: dict[str, Any]) -> dict[str, Any]:
    # What a model server keeps of the provider's call is not an action of OpenAI's.
    return action_to_canonical({name: value for name, value in action.items() if name != "native"})


def _function_checks(response: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the pending safety checks of function calls, by call id.

    NeMo Gym keeps no extra keys on a function call, so they come as JSON in the metadata.
    """
    text = (response.get("metadata") or {}).get("pending_safety_checks")
    return json.loads(text) if text else {}


def shown_calls(calls: list[Call], outcomes: list[CallOutcome]) -> set[int]:
    """Return which calls' outputs get a picture: the last that was run, and those that look.

    The model chose the calls of one reply together, so what lies between them tells it nothing
    that the last picture does not, and each picture is paid for in every later request.
    """
    last = next((i for i, outcome in enumerate(outcomes) if outcome.failed), len(outcomes) - 1)
    looking = {
        index
        for index, call in enumerate(calls[: last + 1])
        if call.actions and call.actions[-1]["type"] in _LOOKS
    }
    return looking | {last}


def computer_output(call: Call, outcome: CallOutcome, *, picture: bool) -> Item:
    """Return the output of a computer call, with a screenshot or in words alone."""
    output: Item = {
        "type": "computer_screenshot",
        "image_url": outcome.screen.data_url if picture else "",
        "current_url": outcome.screen.url,
    }
    text = "\n".join(outcome.texts) or ("" if picture else "ok")
    if text:
        output["text"] = text
    if outcome.failed:
        output["is_error"] = True
    item: Item = {"type": "computer_call_output", "call_id": call.call_id, "output": output}
    if call.safety_checks:
        item["acknowledged_safety_checks"] = call.safety_checks
    return item


def _function_output(call: Call, outcome: CallOutcome, *, picture: bool) -> Item:
    # NeMo Gym keeps no extra keys here, so all there is to say are texts.
    texts = [function_text(outcome), f"current_url: {outcome.screen.url}"]
    if call.safety_checks:
        texts.append(f"acknowledged_safety_checks: {json.dumps(call.safety_checks)}")
    if call.native["name"] in _TAB_ACTIONS and not outcome.failed:
        texts.append(json.dumps({"tabs": outcome.screen.tabs}))
    parts = [text_part(text) for text in texts]
    if picture:
        parts.append(image_part(outcome.screen))
    return {"type": "function_call_output", "call_id": call.call_id, "output": parts}


def function_text(outcome: CallOutcome) -> str:
    """Return what a function call's output says."""
    text = "\n".join(outcome.texts) or "ok"
    return f"error: {text}" if outcome.failed else text


def image_part(screen: Screen) -> Item:
    """Return a screenshot as a part of a message or a function's output."""
    return {"type": "input_image", "image_url": screen.data_url, "detail": "auto"}


def _stop(
    response: dict[str, Any], items: list[Item], message: str, refusal: str
) -> tuple[StopReason | None, bool]:
    """Return why the episode ends, if it does, and whether the reply is only a pause."""
    metadata = response.get("metadata") or {}
    stop_reason = str(metadata.get("stop_reason") or "").lower()
    calls = any(item["type"] in CALL_TYPES for item in items)
    incomplete = (response.get("incomplete_details") or {}).get("reason")
    cut_off = has_cut_off_call(items) or response.get("status") == "incomplete"
    stop = _STOPS.get(stop_reason)
    if refusal:
        return "refusal", False
    if stop == "empty_reply" and calls and not has_cut_off_call(items):
        return None, False  # the calls are whole; whatever is wrong with them can be answered
    if stop:
        return stop, False
    if incomplete == "content_filter":
        return "content_filter", False
    if incomplete or (cut_off and (calls or message)):
        return "truncated_reply", False
    if stop_reason in _PAUSES and not calls:
        return None, True
    return (None if calls or message else "empty_reply"), False
