"""Outputs of calls to `tool_result` blocks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from responses_api_models.anthropic_model.browser_actions import TAB_MEMBERS
from responses_api_models.anthropic_model.errors import BadRequest
from responses_api_models.anthropic_model.images import image_block
from responses_api_models.anthropic_model.tools import Offer, action_of

Json = dict[str, Any]

ERROR_PREFIX = "error: "
NOT_EXECUTED = {
    "computer": "Not executed: an earlier computer action in this turn failed.",
    None: "Not executed: an earlier action in this turn failed.",
}
CUT_OFF = "Not executed: the reply was cut off."
# Stands for a screenshot that was pruned, where Anthropic wants an image: 8×8 px of grey.
OMITTED_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR4"
    "2mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg=="
)


@dataclass
class Output:
    """What came of a call.

    Attributes:
        text: For the model; may be empty.
        images: Data URLs.
        failed: Whether it failed.
        url: Of the active tab, if told.
        tabs: The open tabs, if told: `tab_id`, `title`, `url` and, for one, `active`.
    """

    text: str = ""
    images: list[str] = field(default_factory=list)
    failed: bool = False
    url: str | None = None
    tabs: list[Json] | None = None


def read_output(item: Json) -> Output:
    """Read a `computer_call_output` or a `function_call_output`.

    NeMo Gym keeps no further fields of the latter, so a first text that starts with `error: ` says
    that it failed, and a text that is a JSON object with `tabs` says which tabs are open.

    Raises:
        BadRequest: It has a part that is neither text nor image.
    """
    output = item["output"]
    if item["type"] == "computer_call_output":
        image = output.get("image_url")
        return Output(
            text=str(output.get("text") or ""),
            images=[image] if image else [],
            failed=bool(output.get("is_error")),
            url=output.get("current_url"),
            tabs=output.get("tabs"),
        )
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    result = Output()
    texts: list[str] = []
    for part in parts:
        if part["type"] == "input_image":
            result.images.append(part.get("image_url") or "")
        elif part["type"] != "input_text":
            raise BadRequest("input", f"there are no outputs with parts of type {part['type']!r}")
        elif (tabs := _tabs_in(part["text"])) is not None:
            result.tabs = tabs
        elif part["text"]:
            texts.append(part["text"])
    result.images = [image for image in result.images if image]
    result.failed = bool(texts) and texts[0].startswith(ERROR_PREFIX)
    result.text = "\n".join(texts)
    return result


def _tabs_in(text: str) -> list[Json] | None:
    if not text.startswith('{"tabs"'):
        return None
    try:
        tabs = json.loads(text)["tabs"]
    except (ValueError, KeyError, TypeError):
        return None
    return tabs if isinstance(tabs, list) else None


def result_blocks(
    calls: Sequence[Json], outputs: dict[str, Output], cut_off: set[str], offer: Offer
) -> list[Json]:
    """Return the blocks that answer a turn's calls: one result each, in order, then leftovers.

    A failed result may hold text alone; its screenshot, the last of the turn, follows the results.

    Args:
        calls: The turn's `tool_use` blocks.
        outputs: By call id. Those after a failed one may be missing: they were not run.
        cut_off: Ids of calls in which the reply ended.
        offer: What the request offers.

    Raises:
        BadRequest: A call has no output.
    """
    blocks: list[Json] = []
    after: list[Json] = []
    failed = False
    last_hosted = next((call["id"] for call in reversed(calls) if offer.is_hosted(call)), None)
    for call in calls:
        output = outputs.get(call["id"])
        family = call.get("toolset_name")
        if output is None:
            if not cut_off and not failed:
                raise BadRequest("input", f"the call {call['id']!r} has no output")
            output = Output(NOT_EXECUTED.get(family, NOT_EXECUTED[None]), failed=True)
            if not failed:
                output.text = CUT_OFF
        elif output.failed and failed and family is not None:
            # A batch ends at its first failure, and this is how Anthropic wants the rest answered.
            output = Output(NOT_EXECUTED.get(family, NOT_EXECUTED[None]), output.images, True)
        failed = failed or output.failed
        result: Json = {"type": "tool_result", "tool_use_id": call["id"]}
        if family is not None:
            result["toolset_name"] = family
        if output.failed:
            result |= _failure(output.text)
            after = [_image(output.images[-1], offer, call)] if output.images else after
        elif not offer.is_hosted(call):
            result["content"] = _content(output.text, output.images, offer, call)
        else:
            result |= _hosted(call, output, offer, is_last=call["id"] == last_hosted)
        blocks.append(result)
    if after:
        blocks += [{"type": "text", "text": "The screen after the failure:"}, *after]
    return blocks


def _failure(text: str) -> Json:
    return {"is_error": True, "content": [{"type": "text", "text": text or "The action failed."}]}


def _hosted(call: Json, output: Output, offer: Offer, *, is_last: bool) -> Json:
    """Return content, and more, of the result of a computer or browser call that went well."""
    action, _ = action_of(call)
    family = call.get("toolset_name")
    state = _browser_state(output.tabs) if family == "browser" else None
    if family == "browser" and action in TAB_MEMBERS:
        if state is None:
            # Only a state may answer these, unless they failed.
            return _failure(f"The ids of the tabs are not known. {output.text}".strip())
        return {"content": [state]}
    must_show = action in ("screenshot", "zoom")
    # A toolset wants one more picture at most, with the last result.
    images = output.images if must_show or is_last or family is None else []
    if must_show and not images:
        images = [OMITTED_IMAGE]
    text = output.text
    if is_last and output.url:
        text = f"{text}\nCurrent URL: {output.url}".strip()
    content = _content(text, images, offer, call)
    return {"content": content + ([state] if state is not None else [])}


def _content(text: str, images: Sequence[str], offer: Offer, call: Json) -> list[Json]:
    content: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
    content += [_image(image, offer, call) for image in images]
    return content or [{"type": "text", "text": "OK"}]


def _image(data_url: str, offer: Offer, call: Json) -> Json:
    """Return an image block, in the frame's size unless it shows another part of the page."""
    whole = offer.tool is not None and offer.is_hosted(call)
    if data_url == OMITTED_IMAGE or action_of(call)[0] == "zoom":
        whole = False
    size = (offer.frame.sent_width, offer.frame.sent_height) if whole else None
    return image_block(data_url, offer.limits, f"input: output of {call['id']}", size=size)


def _browser_state(tabs: list[Json] | None) -> Json | None:
    if tabs is None:
        return None
    entries = []
    for tab in tabs:
        entry = {name: str(tab.get(name) or "") for name in ("tab_id", "title", "url")}
        entries.append(entry | ({"active": True} if tab.get("active") else {}))
    return {"type": "browser_state", "tabs": entries}
