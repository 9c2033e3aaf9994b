"""Adapter for open-weight models behind any Responses endpoint, such as NeMo Gym's `vllm_model`.

The model writes its actions in its family's own format (see `policies`), or calls functions if the
server finds them. All that is sent can be expressed as chat: calls of functions are answered in
words, and every screenshot is in a user message. The model's items go back as they came, the newest
with its token ids, and by default nothing is ever taken out of the conversation, so that every
request starts with the whole one before it.
"""

from __future__ import annotations

from typing import Any

from responses_api_agents.browser_agent.adapters.base import (
    Call,
    CallOutcome,
    Item,
    Reply,
    Screen,
    StopReason,
)
from responses_api_agents.browser_agent.adapters.generic import (
    GenericAdapter,
    function_text,
    image_part,
    shown_calls,
)
from responses_api_agents.browser_agent.adapters.responses import (
    reasoning_text,
    taken_apart,
    text_part,
    unforced,
    usage_of,
    user_message,
    visible_text,
)
from responses_api_agents.browser_agent.policies.base import FINISH_ALONE, Parsed, Policy


class PolicyAdapter(GenericAdapter):
    """Speaks with one open-weight model for one episode."""

    def __init__(self, *, policy: Policy, **settings: Any) -> None:
        """Prepare an episode.

        Args:
            policy: the model's family.
            settings: of the generic adapter; `instructions` follow the family's.
        """
        super().__init__(**settings)
        self._family = policy
        self._size = (0, 0)

    def start(self, params: dict[str, Any], screen: Screen) -> dict[str, Any]:
        """Return the first request: the run's own input with the first screenshot."""
        self._size = (screen.width, screen.height)
        own = params.get("instructions") or self._instructions
        told = [self._family.system_prompt(*self._size), *([own] if own else [])]
        super().start({**params, "instructions": "\n\n".join(told)}, screen)
        if not self._params["tools"]:
            del self._params["tools"]
        return self.next()

    def read(self, response: dict[str, Any]) -> Reply:
        """Read a response; one that nothing can be made of is a call with an error."""
        items: list[Item] = response.get("output", [])
        text, refusal = visible_text(items)
        stop = _stop(response, refusal)
        self._history.add_reply(items)
        self._params = unforced(self._params)
        calls, answer = ([], None) if stop else self._read_calls_and_answer(response, items, text)
        return Reply(
            response_id=response["id"],
            items=items,
            calls=calls,
            message=(text or refusal) if answer is None else answer,
            reasoning=reasoning_text(items),
            stop=stop,
            usage=usage_of(response),
        )

    def answer(self, reply: Reply, outcomes: list[CallOutcome]) -> list[Item]:
        """Answer functions in words, and show the screen in a user message behind them."""
        items: list[Item] = []
        told: list[str] = []
        for call, outcome in zip(reply.calls, outcomes, strict=True):
            if call.kind == "text":
                told += outcome.texts
            else:
                text = taken_apart(function_text(outcome))
                items.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": text}
                )
        shown = [outcomes[index].screen for index in sorted(shown_calls(reply.calls, outcomes))]
        told.append(f"The screen is now, at {shown[-1].url}:")
        pictures = [image_part(screen) for screen in shown]
        items.append(user_message(text_part(taken_apart("\n".join(told))), *pictures))
        self._history.add_answers(items)
        return items

    def _tools(self, screen: Screen) -> list[Item]:
        return []

    def _functions(self) -> list[Item]:
        return self._family.tools(*self._size)

    def _read_calls_and_answer(
        self, response: dict[str, Any], items: list[Item], text: str
    ) -> tuple[list[Call], str | None]:
        """Return the calls of a reply, or the answer it ends the task with."""
        functions = [item for item in items if item["type"] == "function_call"]
        if functions:
            parsed = [self._parse_function(item) for item in functions]
        else:
            message = next((item for item in items if item["type"] == "message"), {})
            functions = [message]
            parsed = [self._family.parse(text, *self._size)]
        if len(parsed) == 1 and parsed[0].answer is not None:
            return [], parsed[0].answer or text
        calls = []
        for item, meant in zip(functions, parsed, strict=True):
            call_id = item.get("call_id") or item.get("id") or response["id"]
            kind = "function" if item.get("type") == "function_call" else "text"
            error = meant.error if meant.answer is None else FINISH_ALONE
            calls.append(Call(call_id, kind, item, meant.actions, error))
        return calls, None

    def _parse_function(self, item: Item) -> Parsed:
        if item["name"] in self._foreign:
            name = item["name"]
            return Parsed(error=f"nothing here can run the tool {name!r}; use the browser")
        return self._family.parse_function(item["name"], item["arguments"], *self._size)


def _stop(response: dict[str, Any], refusal: str) -> StopReason | None:
    incomplete = (response.get("incomplete_details") or {}).get("reason")
    if refusal:
        return "refusal"
    if incomplete == "content_filter":
        return "content_filter"
    if incomplete or response.get("status") == "incomplete":
        return "truncated_reply"
    return None
