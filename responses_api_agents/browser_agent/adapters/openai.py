"""Adapter for OpenAI models with the GA `computer` tool or the older `computer_use_preview`.

Rules that come from the Responses API: every call is answered once, in one request; a
`computer_call_output` holds one `computer_screenshot`; pending safety checks are echoed as
acknowledged or the request is refused; without `store`, reasoning items are replayed with their
encrypted content and in their place.
"""

from __future__ import annotations

from typing import Any, Literal

from responses_api_agents.browser_agent.adapters.base import (
    Call,
    CallOutcome,
    Item,
    Reply,
    Screen,
    StopReason,
)
from responses_api_agents.browser_agent.adapters.history import (
    History,
    HistoryPolicy,
    image_sizes,
    without_images,
)
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    action_to_canonical,
    browser_function_tools,
    function_to_canonical,
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

ComputerTool = Literal["auto", "computer", "computer_use_preview"]
State = Literal["previous_response_id", "stateless"]

_ENCRYPTED_REASONING = "reasoning.encrypted_content"
# Stands for a screenshot that was left out, where OpenAI wants an image: 8×8 px of grey.
_OMITTED_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR4"
    "2mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg=="
)


class OpenAIAdapter:
    """Speaks with one OpenAI model for one episode."""

    def __init__(
        self,
        *,
        model: str,
        computer_tool: ComputerTool,
        state: State,
        instructions: str | None,
        browser_functions: bool | list[str],
        history: HistoryPolicy,
    ) -> None:
        """Prepare an episode.

        Args:
            model: the model's name, which decides the tool when `computer_tool` is `auto`.
            computer_tool: the tool to offer.
            state: whether the provider keeps the conversation (`previous_response_id`) or every
                request carries all of it (`stateless`, for zero data retention).
            instructions: system prompt for runs that bring none of their own.
            browser_functions: offer function tools for addresses, history and tabs: all, none,
                or those named.
            history: what is sent of the conversation when it is `stateless`; otherwise only the
                limit of bytes has a meaning, for what answers one reply.
        """
        self._model = model
        preview = model.startswith("computer-use-preview")
        self._preview = preview if computer_tool == "auto" else computer_tool != "computer"
        self._stateless = state == "stateless"
        self._instructions = instructions
        self._browser_functions = browser_functions
        self._params: dict[str, Any] = {}
        self._policy = history
        self._history = History(history, [], {})
        self._new: list[Item] = []
        self._previous: str | None = None

    def start(self, params: dict[str, Any], screen: Screen) -> dict[str, Any]:
        """Return the first request: the run's own input with the first screenshot."""
        params = {k: v for k, v in params.items() if v is not None}
        # A conversation that the provider does not store cannot be continued by its id.
        self._stateless = self._stateless or params.get("store") is False
        image = self._image(screen)
        self._new = with_screenshot(params.pop("input"), image)
        self._history = History(self._policy, self._new, image, omitted_image=_OMITTED_IMAGE)
        tools = [self._tool(screen), *params.pop("tools", [])]
        tools = with_functions(tools, browser_function_tools(self._browser_functions))
        self._params = {"model": self._model, **params, "tools": tools}
        if self._instructions:
            self._params.setdefault("instructions", self._instructions)
        if self._preview:
            self._params["truncation"] = "auto"  # the preview tool is refused without it
        if self._stateless:
            include = set(self._params.get("include", [])) | {_ENCRYPTED_REASONING}
            self._params |= {"store": False, "include": sorted(include)}
        return self.next()

    def read(self, response: dict[str, Any]) -> Reply:
        """Read a response: calls in order, visible text, and why it stopped."""
        items: list[Item] = response.get("output", [])
        calls = [call for item in items if (call := _read_call(item))]
        message, refusal = visible_text(items)
        stop = _stop_reason(response, items, message, refusal)
        if stop != "empty_reply":
            # An empty reply is forgotten: its reasoning may not be replayed without what follows.
            self._previous = response["id"]
            self._history.add_reply(items)
            self._new = []
            self._params = unforced(self._params)
        return Reply(
            response_id=response["id"],
            items=items,
            calls=calls,
            message=message or refusal,
            reasoning=reasoning_text(items),
            stop=stop,
            usage=usage_of(response),
        )

    def answer(self, reply: Reply, outcomes: list[CallOutcome]) -> list[Item]:
        """Answer each call with one output, and what a screenshot cannot say with a message."""
        items: list[Item] = []
        texts: list[str] = []
        for call, outcome in zip(reply.calls, outcomes, strict=True):
            if call.kind == "computer":
                items.append(self._computer_output(call, outcome))
                texts += outcome.texts
            else:
                items.append(self._function_output(call, outcome))
        if texts:
            items.append(user_message(text_part("\n".join(texts))))
        self._history.add_answers(items)
        self._new = items
        return items

    def nudge(self) -> list[Item]:
        """Ask again what was asked, with a word on what is wanted."""
        item = user_message(text_part(NUDGE))
        self._history.add_answers([item])
        self._new = [*self._new, item]
        return [item]

    def next(self) -> dict[str, Any]:
        """Return the request that carries what is new, or everything when stateless."""
        if self._stateless:
            return {**self._params, "input": self._history.items()}
        limit = HistoryPolicy(max_image_bytes=self._policy.max_image_bytes)
        to_drop = limit.screenshots_dropped(image_sizes(self._new))
        new = without_images(self._new, to_drop, _OMITTED_IMAGE)
        request = {**self._params, "input": new}
        if self._previous:
            request["previous_response_id"] = self._previous
        return request

    def _tool(self, screen: Screen) -> dict[str, Any]:
        if not self._preview:
            return {"type": "computer"}
        return {
            "type": "computer_use_preview",
            "display_width": screen.width,
            "display_height": screen.height,
            "environment": "browser",
        }

    @property
    def _detail(self) -> str:
        """`original` keeps the GA models from rescaling what they aim at."""
        return "auto" if self._preview else "original"

    def _image(self, screen: Screen) -> Item:
        return {"type": "input_image", "image_url": screen.data_url, "detail": self._detail}

    def _computer_output(self, call: Call, outcome: CallOutcome) -> Item:
        output = {"type": "computer_screenshot", "image_url": outcome.screen.data_url}
        if not self._preview:
            output["detail"] = self._detail
        item: Item = {"type": "computer_call_output", "call_id": call.call_id, "output": output}
        if call.safety_checks:
            item["acknowledged_safety_checks"] = call.safety_checks
        return item

    def _function_output(self, call: Call, outcome: CallOutcome) -> Item:
        text = "\n".join(outcome.texts) or f"ok, now at {outcome.screen.url}"
        return {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": [text_part(text), self._image(outcome.screen)],
        }


def _read_call(item: Item) -> Call | None:
    if item.get("status") not in (None, "completed"):
        return None  # cut off: it must not be run
    if item["type"] == "computer_call":
        call = Call(
            item["call_id"],
            "computer",
            item,
            safety_checks=list(item.get("pending_safety_checks") or []),
        )
        natives = item.get("actions") or ([item["action"]] if item.get("action") else [])
        convert = [lambda native=native: action_to_canonical(native) for native in natives]
    elif item["type"] == "function_call":
        call = Call(item["call_id"], "function", item)
        convert = [lambda: function_to_canonical(item["name"], item["arguments"])]
    else:
        return None
    for convert_one in convert:
        try:
            call.actions.append(convert_one())
        except UnusableCall as error:
            call.error = str(error)
            break
    return call


def _stop_reason(
    response: dict[str, Any], items: list[Item], message: str, refusal: str
) -> StopReason | None:
    incomplete = (response.get("incomplete_details") or {}).get("reason")
    if incomplete:
        return "content_filter" if incomplete == "content_filter" else "truncated_reply"
    if refusal:
        return "refusal"
    if has_cut_off_call(items):
        return "truncated_reply"
    if not message and not any(item["type"] in CALL_TYPES for item in items):
        return "empty_reply"
    return None
