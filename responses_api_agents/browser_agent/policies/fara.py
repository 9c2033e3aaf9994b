"""Fara: Qwen's `computer_use` with actions for the web.

Sources: microsoft/fara, `src/fara/_prompts.py` and `fara_agent.py` for Fara-7B, and
`src/fara/agents/fara/fara15_agent.py` for 1.5. Fara-7B names pixels of the resized image, types at
a coordinate, and presses Enter unless it says otherwise; what it says when it terminates is its
answer. Fara 1.5 writes calls in tags, names coordinates and scroll distances relative to 1000, and
gives the answer with `terminate`. Both see the last three screenshots. `web_search` and an
address with blanks go to Bing. The agent of 7B scrolls by whole pages whatever `pixels` says; here
it counts. `read_page_answer_question` asks a second model there; here the page's text is told.
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote_plus

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import (
    NO_USER,
    Action,
    Answer,
    Policy,
    Reading,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.computer_use import (
    action_of,
    point,
    read_tool_calls,
    shared_action,
    tool_format,
)
from responses_api_agents.browser_agent.policies.frames import QWEN_25, Grid, View

_SEARCH = "https://www.bing.com/search?q="
_BOTH = {
    "key": "key: press the keys of `keys` together",
    "mouse_move": "mouse_move: move the pointer to `coordinate`",
    "left_click": "left_click: click at `coordinate`",
    "scroll": "scroll: turn the wheel by `pixels`, up if positive, down if negative",
    "visit_url": "visit_url: open `url`",
    "web_search": "web_search: search the web for `query`",
    "history_back": "history_back: go back to the page before",
    "pause_and_memorize_fact": "pause_and_memorize_fact: keep `fact` in mind",
    "wait": "wait: let `time` seconds pass",
}


class Fara7BPolicy(Policy):
    """Fara-7B."""

    actions: ClassVar[dict[str, str]] = _BOTH | {
        "type": (
            "type: click at `coordinate` and type `text`; say with `press_enter` and "
            "`delete_existing_text` whether to press Enter after and to empty the field before"
        ),
        "refresh": "refresh: load the page again",
        "terminate": "terminate: end the task with `status` success or failure; the words before "
        "the call are your answer",
    }
    frame = QWEN_25
    screenshots = 3

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        more = {"url": "string", "query": "string", "fact": "string"}
        more |= {"press_enter": "boolean", "delete_existing_text": "boolean"}
        return tool_format(self.actions, view, xml=False, more=more)

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        return Reading(*read_tool_calls(text, xml=False))

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        match action_of(call):
            case "type":
                action: Action = {"type": "type", "text": call.text("text")}
                if call.has("coordinate"):
                    action |= point(call, view)
                action["press_enter"] = call.flag("press_enter", True)
                action["clear_first"] = call.flag("delete_existing_text", False)
                return [action]
            case "refresh":
                return [{"type": "reload"}]
            case "terminate":
                call.text("status")
                return Answer()
        return _web_action(self, call, view)


class Fara15Policy(Policy):
    """Fara 1.5."""

    actions: ClassVar[dict[str, str]] = _BOTH | {
        "type": "type: type `text`",
        "left_click_drag": "left_click_drag: drag from where the pointer is to `coordinate`",
        "right_click": "right_click: click the right button at `coordinate`",
        "double_click": "double_click: click twice at `coordinate`",
        "triple_click": "triple_click: click three times at `coordinate`",
        "hscroll": "hscroll: turn the wheel by `pixels`, right if positive",
        "read_page_answer_question": "read_page_answer_question: get the page's text to answer "
        "`question`",
        "ask_user_question": "ask_user_question: only if the user is needed",
        "terminate": "terminate: end the task with `answer`",
    }
    frame = Grid(1000)
    screenshots = 3

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        more = {"url": "string", "query": "string", "fact": "string"}
        more |= {"question": "string", "answer": "string"}
        return tool_format(self.actions, view, xml=True, more=more)

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        return Reading(*read_tool_calls(text, xml=True))

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        match action_of(call):
            case "type":
                return [{"type": "type", "text": call.text("text")}]
            case "scroll":
                return [{"type": "scroll", "dy": -call.number("pixels") * view.height / view.rows}]
            case "hscroll":
                dx = call.number("pixels") * view.width / view.columns
                return [{"type": "scroll", "dx": dx}]
            case "read_page_answer_question":
                call.text("question")
                return [{"type": "page_text"}]
            case "ask_user_question":
                raise UnusableCall(NO_USER)
            case "terminate":
                return Answer(call.text("answer"))
        return _web_action(self, call, view)


def _web_action(policy: Policy, call: NativeCall, view: View) -> list[Action] | Answer:
    match call.name:
        case "visit_url":
            url = call.text("url").strip()
            return [{"type": "navigate", "url": _search(url) if " " in url else url}]
        case "web_search":
            return [{"type": "navigate", "url": _search(call.text("query"))}]
        case "history_back":
            return [{"type": "go_back"}]
        case "pause_and_memorize_fact":
            call.text("fact")  # it stays in the conversation
            return [{"type": "screenshot"}]
    if call.name not in policy.actions:
        raise policy.unknown(call.name)
    meant = shared_action(call, view, modifiers=False)
    if meant is None:
        raise policy.unknown(call.name)
    return meant


def _search(query: str) -> str:
    return _SEARCH + quote_plus(query)


POLICIES = (Fara7BPolicy("fara_7b"), Fara15Policy("fara_1_5"))
