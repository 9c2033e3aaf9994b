"""A rollout's steps: one per reply of the model, with what it saw and what came of it."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from browser_gym.exporting.items import CALLS, OUTPUTS, image_urls, is_of_model, parts_of
from browser_gym.viewer.actions import Pointer, describe, region
from browser_gym.viewer.texts import joined_text, number, record, records, shown
from resources_servers.browser_gym.event_text import event_text

Json = dict[str, Any]


class Gallery:
    """The distinct images of a row, by number."""

    def __init__(self) -> None:
        """Start without images."""
        self.references: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, reference: Any) -> int | None:
        """Return an image's number, None if there is no reference."""
        if not isinstance(reference, str) or not reference:
            return None
        if reference not in self._numbers:
            self._numbers[reference] = len(self.references)
            self.references.append(reference)
        return self._numbers[reference]


def steps_of(row: Json, gallery: Gallery) -> list[Json]:
    """Return the steps of a rollout; images are numbers in the gallery.

    A step's `pictures` are in order: the first is what the model saw, each has the `marks` of what
    was done on it and, if it shows only a `region`, that; the last is how it looked afterwards.
    """
    turns = records(row.get("turns"))
    if not turns:
        turns = _turns_of_items(records(record(row.get("response")).get("output")))
    shots = _shots(row)
    first = record(row.get("first_observation"))
    view = _View(first.get("screenshot"), first.get("url"))
    pointer = Pointer()
    return [_step(turn, view, pointer, shots, gallery) for turn in turns]


class _View:
    """What is on the screen: an image, the region it shows if not all, the address."""

    def __init__(self, image: Any, url: Any) -> None:
        self.image = image
        self.url = url
        self.region: list[float] | None = None


def _step(
    turn: Json, view: _View, pointer: Pointer, shots: dict[str, str], gallery: Gallery
) -> Json:
    calls = records(turn.get("calls"))
    url = view.url
    pictures = [_picture(view, gallery)]
    for index, call in enumerate(calls):
        marks = [pointer.marks(action) for action in records(call.get("actions"))]
        pictures[-1]["marks"] += [mark for group in marks for mark in group]
        last = index == len(calls) - 1
        after = shots.get(str(call.get("call_id")))
        if last:
            after = turn.get("screenshot") or after
        _see(view, after, call)
        if after:
            pictures.append(_picture(view, gallery))
    if calls:
        view.url = turn.get("url") or view.url
    return {
        "message": shown(turn.get("message") or ""),
        "reasoning": shown(turn.get("reasoning") or ""),
        "url": shown(url or ""),
        "url_after": shown(view.url or ""),
        "pictures": pictures,
        "calls": [_call(call) for call in calls],
        "usage": {name: number(tokens) for name, tokens in record(turn.get("usage")).items()},
        "cost": number(turn.get("cost_usd")),
        "model_ms": number(record(turn.get("timings_ms")).get("model")),
        "nudged": bool(turn.get("nudged")),
    }


def _see(view: _View, image: Any, call: Json) -> None:
    if image:
        view.image = image
    zooms = [event for event in records(call.get("events")) if event.get("type") == "zoom"]
    if image or zooms:
        view.region = region(zooms[-1].get("region")) if zooms else None


def _picture(view: _View, gallery: Gallery) -> Json:
    return {"image": gallery.add(view.image), "region": view.region, "marks": []}


def _call(call: Json) -> Json:
    actions = records(call.get("actions"))
    results = records(call.get("results"))
    told = [_action(*pair) for pair in zip_longest(actions, results[: len(actions)], fillvalue={})]
    answers = {one["answer"] for one in told if one["answer"]}
    texts = call.get("texts")
    said = [shown(text) for text in texts] if isinstance(texts, list) else []
    return {
        "actions": told,
        "error": shown(call.get("error") or ""),
        "texts": [text for text in said if text not in answers],
        "events": [_event(event) for event in records(call.get("events"))],
        "tabs": [_tab(tab) for tab in records(call.get("tabs"))],
        "settled": call.get("settled") is not False,
        "timings_ms": {
            str(name): number(ms) for name, ms in record(call.get("timings_ms")).items()
        },
        "safety": [shown(check) for check in records(call.get("safety_checks"))],
        "safety_policy": shown(call.get("safety_policy") or ""),
        "native": shown(call.get("native") or {}, 5000),
    }


def _action(action: Json, result: Json) -> Json:
    return {
        "text": describe(action),
        "status": shown(result.get("status") or ""),
        "error": shown(result.get("error") or ""),
        "answer": shown(result.get("text") or ""),
    }


def _event(event: Json) -> Json:
    try:
        words = event_text(event)
    except (KeyError, TypeError, AttributeError):  # of another version
        words = None
    rest = {key: value for key, value in event.items() if key != "type"}
    return {"type": shown(event.get("type") or ""), "text": shown(words or rest)}


def _tab(tab: Json) -> Json:
    return {
        "title": shown(tab.get("title") or "", 200),
        "url": shown(tab.get("url") or "", 500),
        "active": bool(tab.get("active")),
    }


def _shots(row: Json) -> dict[str, str]:
    """Return the image of each call that was answered with one of its own."""
    output = records(record(row.get("response")).get("output"))
    answers = [item for item in output if item.get("type") in OUTPUTS]
    return {str(item.get("call_id")): urls[-1] for item in answers if (urls := image_urls([item]))}


def _turns_of_items(items: list[Json]) -> list[Json]:
    """Return turns, as far as the items of a conversation tell of them: other agents keep none."""
    turns: list[Json] = []
    calls: dict[str, Json] = {}
    answered = True
    for item in items:
        if is_of_model(item):
            if answered:
                turns.append({"message": "", "reasoning": "", "calls": []})
            answered = False
            _add(item, turns[-1], calls)
        elif turns:
            answered = True
            texts = [part["text"] for part in parts_of(item) if part.get("text")]
            call = calls.get(str(item.get("call_id")))
            if call is not None:
                call["texts"] += texts
            if urls := image_urls([item]):
                turns[-1]["screenshot"] = urls[-1]
    return turns


def _add(item: Json, turn: Json, calls: dict[str, Json]) -> None:
    if item.get("type") in CALLS:
        actions = item.get("actions") or [item.get("action")]
        if item["type"] == "function_call":
            actions = [{"type": item.get("name"), "arguments": item.get("arguments")}]
        call = {"call_id": item.get("call_id"), "native": item, "actions": actions, "texts": []}
        calls[str(item.get("call_id"))] = call
        turn["calls"].append(call)
    elif item.get("type") == "reasoning":
        content = item.get("summary") or item.get("content")
        turn["reasoning"] = "\n".join(filter(None, (turn["reasoning"], joined_text(content))))
    else:
        turn["message"] = "\n".join(
            filter(None, (turn["message"], joined_text(item.get("content"))))
        )
