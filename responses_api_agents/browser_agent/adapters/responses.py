"""Reading and writing Responses objects, for all adapters. Pure functions."""

from __future__ import annotations

from typing import Any

from responses_api_agents.browser_agent.adapters.base import Item, Usage

CALL_TYPES = ("computer_call", "function_call")

NUDGE = (
    "Your last reply held neither an action nor an answer. Go on with the task; when it is done, "
    "or cannot be done, say so in words."
)


def visible_text(items: list[Item]) -> tuple[str, str]:
    """Return the text and the refusal of a reply's messages, each empty if there is none."""
    parts = [
        part for item in items if item["type"] == "message" for part in item.get("content", [])
    ]
    text = "\n".join(part["text"] for part in parts if part["type"] == "output_text")
    refusal = "\n".join(part["refusal"] for part in parts if part["type"] == "refusal")
    return text, refusal


def reasoning_text(items: list[Item]) -> str:
    """Return the summaries of a reply's reasoning, empty if there are none."""
    return "\n".join(
        summary["text"]
        for item in items
        if item["type"] == "reasoning"
        for summary in item.get("summary") or []
    )


def has_cut_off_call(items: list[Item]) -> bool:
    """Whether a call was cut off: it can be neither run nor answered."""
    return any(
        item["type"] in CALL_TYPES and item.get("status") not in (None, "completed")
        for item in items
    )


def usage_of(response: dict[str, Any]) -> Usage:
    """Return a response's token counts; those not reported are 0."""
    usage = response.get("usage") or {}
    read = usage.get("input_tokens_details") or {}
    written = read.get("cache_write_tokens")
    if written is None:
        written = (response.get("metadata") or {}).get("cache_write_tokens")
    written = str(written)  # in metadata it is a text, and NeMo Gym checks it nowhere
    return Usage(
        input_tokens=usage.get("input_tokens", 0),
        cached_tokens=read.get("cached_tokens") or 0,
        cache_write_tokens=int(written) if written.isdecimal() else 0,
        output_tokens=usage.get("output_tokens", 0),
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )


def taken_apart(text: str) -> str:
    """Return what a page may have said without the marks that templates put around messages.

    Engines make tokens of those wherever they stand: a page could end the user's message, speak as
    another, or have a place for an image that there is none for.
    """
    return text.replace("<|", "< |")


def user_message(*parts: Item) -> Item:
    """Return a user message."""
    return {"type": "message", "role": "user", "content": list(parts)}


def text_part(text: str) -> Item:
    """Return a text part of a message or a function's output."""
    return {"type": "input_text", "text": text}


def with_screenshot(given: str | list[Item], image: Item) -> list[Item]:
    """Return a run's input with the screenshot at the end of its last user message."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items = list(given)
    for index in reversed(range(len(items))):
        if items[index].get("role") == "user":
            content = items[index]["content"]
            parts = [text_part(content)] if isinstance(content, str) else content
            items[index] = {**items[index], "content": [*parts, image]}
            return items
    return [*items, {"role": "user", "content": [image]}]


def with_functions(tools: list[Item], functions: list[Item]) -> list[Item]:
    """Return the tools and those functions whose names are free."""
    taken = {tool.get("name") for tool in tools}
    return [*tools, *(tool for tool in functions if tool["name"] not in taken)]


def unforced(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters for a second reply: a forced call could never end the run."""
    if params.get("tool_choice") in ("auto", "none"):
        return params
    return {name: value for name, value in params.items() if name != "tool_choice"}
