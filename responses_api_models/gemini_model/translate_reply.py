"""From a generateContent reply to a Responses object."""

import json
from typing import Any, Literal

from responses_api_models.gemini_model.actions import Action, decode
from responses_api_models.gemini_model.checks import check_finite
from responses_api_models.gemini_model.functions import PREDEFINED
from responses_api_models.gemini_model.history import pack_content
from responses_api_models.gemini_model.settings import Settings
from responses_api_models.gemini_model.translate_request import Turn

Json = dict[str, Any]

NO_CANDIDATE = "NO_CANDIDATE"
PROMPT_BLOCKED = "PROMPT_BLOCKED"
_NO_REASON = "FINISH_REASON_UNSPECIFIED"
# Why a reply is incomplete, by Gemini's finish reason. Other reasons than these and STOP have no
# counterpart in the Responses API: such a reply is incomplete without a reason of OpenAI's.
_INCOMPLETE: dict[str, Literal["max_output_tokens", "content_filter"]] = {
    "MAX_TOKENS": "max_output_tokens",
    "CONTINUATION": "max_output_tokens",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "ESCALATION",
            "MODEL_ARMOR",
            "PUP_LIMITED_DISABLED",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ),
        "content_filter",
    ),
}
# Calls in these replies are whole. One that is unexpected names a function that was not offered:
# it may be answered with an error, after which the conversation goes on.
_WHOLE_CALLS = frozenset({"STOP", "UNEXPECTED_TOOL_CALL"})
# Decisions of the safety system that ask for nothing.
_HARMLESS = frozenset({"regular", "allowed"})
SAFETY_DECISION = "safety_decision"


class UnusableReply(ValueError):
    """A reply that is no generateContent response at all."""


def from_gemini(reply: Any, turn: Turn, settings: Settings, *, now: int) -> Json:
    """Translate a reply.

    Args:
        reply: The parsed body of a successful answer.
        turn: What the translation of the request gave.
        settings: Which model was asked.
        now: The time in seconds since the epoch.

    Returns:
        A Responses object.

    Raises:
        UnusableReply: The reply is not what generateContent answers.
    """
    candidate, stop_reason, stop_message = _outcome(reply)
    content = candidate.get("content") or {}
    try:
        check_finite(content, "content")  # it has to go back as JSON
        output, checks = _Output(turn, settings, whole=stop_reason in _WHOLE_CALLS).items(content)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise UnusableReply(f"the candidate's content is malformed: {error!r}") from error
    status = "completed" if stop_reason == "STOP" else "incomplete"
    incomplete = "content_filter" if _is_blocked(stop_reason) else _INCOMPLETE.get(stop_reason)
    metadata = {
        "stop_reason": stop_reason,
        "stop_message": stop_message,
        # NeMo Gym keeps no extra keys on a function call.
        "pending_safety_checks": json.dumps(checks, ensure_ascii=False) if checks else None,
    }
    return {
        "id": str(reply.get("responseId") or f"resp_{turn.number}"),
        "object": "response",
        "created_at": now,
        "model": str(reply.get("modelVersion") or settings.model),
        "status": status,
        "incomplete_details": {"reason": incomplete} if status == "incomplete" else None,
        "output": output,
        "usage": _usage(reply.get("usageMetadata")),
        "metadata": {name: value for name, value in metadata.items() if value},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _outcome(reply: Any) -> tuple[Json, str, str | None]:
    """Return the candidate, why it ended, and what Gemini says about that."""
    if not isinstance(reply, dict):
        raise UnusableReply("the reply is not a JSON object")
    candidates = reply.get("candidates") or []
    if candidates:
        candidate = candidates[0] if isinstance(candidates, list) else None
        if not isinstance(candidate, dict):
            raise UnusableReply("'candidates' is not a list of objects")
        message = candidate.get("finishMessage")
        return candidate, str(candidate.get("finishReason") or _NO_REASON), message
    feedback = reply.get("promptFeedback")
    if isinstance(feedback, dict) and (blocked := feedback.get("blockReason")):
        return {}, f"{PROMPT_BLOCKED}:{blocked}", feedback.get("blockReasonMessage")
    if feedback is None and "usageMetadata" not in reply:
        raise UnusableReply("it has neither 'candidates' nor 'promptFeedback'")
    return {}, NO_CANDIDATE, None


def _is_blocked(stop_reason: str) -> bool:
    return stop_reason.startswith(PROMPT_BLOCKED)


class _Output:
    """The output items of one reply."""

    def __init__(self, turn: Turn, settings: Settings, *, whole: bool) -> None:
        self._turn = turn
        self._settings = settings
        self._status = "completed" if whole else "incomplete"
        self._ids = set(turn.call_ids)
        self._calls = 0
        self._items: list[Json] = []
        self._checks: dict[str, list[Json]] = {}

    def items(self, content: Json) -> tuple[list[Json], dict[str, list[Json]]]:
        """Return the items, and the safety checks of function calls by call id."""
        thoughts = []
        for part in content.get("parts") or []:
            text = part.get("text")
            if "functionCall" in part:
                self._add_call(part["functionCall"])
            elif text and part.get("thought"):
                thoughts.append({"type": "summary_text", "text": text})
            elif text:
                self._add_text(text)
        reasoning = {
            "id": f"rs_{self._turn.number}",
            "type": "reasoning",
            "summary": thoughts,
            "encrypted_content": pack_content(content),
        }
        return [reasoning, *self._items], self._checks

    def _add_text(self, text: str) -> None:
        """Add text to the message it goes on with, if there is one."""
        if self._items and self._items[-1]["type"] == "message":
            self._items[-1]["content"][0]["text"] += text
            return
        self._items.append(
            {
                "id": f"msg_{self._turn.number}_{len(self._items)}",
                "type": "message",
                "role": "assistant",
                "status": self._status,
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        )

    def _add_call(self, call: Json) -> None:
        if not isinstance(call.get("name"), str):
            raise ValueError("a functionCall has no name")
        call_id = self._call_id(call)
        args = dict(call.get("args") or {})
        checks = _safety_checks(args.pop(SAFETY_DECISION, None), call_id)
        action = self._action(call["name"], args)
        item: Json = {"id": f"item_{call_id}", "call_id": call_id, "status": self._status}
        if action.kind == "computer":
            item |= {
                "type": "computer_call",
                "action": {"type": action.name, **action.fields},
                "pending_safety_checks": checks,
                "native": call,
            }
        else:
            arguments = json.dumps(action.fields)
            item |= {"type": "function_call", "name": action.name, "arguments": arguments}
            if checks:
                self._checks[call_id] = checks
        self._items.append(item)

    def _action(self, name: str, args: Json) -> Action:
        if name in self._turn.own_functions or name not in PREDEFINED:
            return Action("function", name, args)
        return decode(name, args, self._turn.view, self._settings.defaults)

    def _call_id(self, call: Json) -> str:
        """Return Gemini's id if it is a new one; older models give none."""
        made = f"call_{self._turn.number}_{self._calls}"
        self._calls += 1
        given = call.get("id")
        call_id = given if isinstance(given, str) and given and given not in self._ids else made
        self._ids.add(call_id)
        return call_id


def _safety_checks(decision: Any, call_id: str) -> list[Json]:
    if decision is None:
        return []
    fields = decision if isinstance(decision, dict) else {"decision": str(decision)}
    code = str(fields.get("decision") or "")
    if code.lower() in _HARMLESS:
        return []
    message = fields.get("explanation")
    return [{"id": f"safety_{call_id}", "code": code, "message": message and str(message)}]


def _usage(usage: Any) -> Json | None:
    """Return the token counts. Gemini leaves out those that are zero."""
    if not isinstance(usage, dict):
        return None

    def count(name: str) -> int:
        return int(usage.get(name) or 0)

    thoughts = count("thoughtsTokenCount")
    input_tokens = count("promptTokenCount") + count("toolUsePromptTokenCount")
    output_tokens = count("candidatesTokenCount") + thoughts
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": count("cachedContentTokenCount")},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": thoughts},
        "total_tokens": count("totalTokenCount") or input_tokens + output_tokens,
    }
