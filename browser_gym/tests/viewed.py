"""Rollout rows to look at, made up like those of `browser_agent`, with screenshots."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

Json = dict[str, Any]
WIDTH, HEIGHT = 1280, 720
# What one reply after another does; long episodes start over.
ACTIONS: list[list[Json]] = [
    [{"type": "click", "x": 320, "y": 180, "button": "right", "count": 2}],
    [{"type": "type", "text": "Book a room"}, {"type": "key", "chords": [["Enter"]]}],
    [{"type": "drag", "path": [{"x": 100, "y": 100}, {"x": 900, "y": 500}]}],
    [{"type": "scroll", "x": 640, "y": 360, "dx": 0, "dy": 600}],
    [{"type": "navigate", "url": "http://127.0.0.1/shop/"}],
    [{"type": "zoom", "region": {"x0": 0, "y0": 0, "x1": 640, "y1": 360}}],
]


def row(task: str, repeat: int = 0, turns: int = 6, **more: Any) -> Json:
    """Return a row whose episode did `ACTIONS`, then answered in words."""
    made = [_turn(f"{task}-{repeat}", index) for index in range(turns)]
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Do {task}."}]},
        "response": {
            "model": "a-model",
            "output": [item for turn in made for item in _items(turn)],
            "usage": {"input_tokens": 1000 * turns, "output_tokens": 10 * turns},
        },
        "reward": 1.0,
        "mask_sample": False,
        "termination_reason": "finished",
        "verification_result": {
            "assertions": [
                {"title": "The card is there", "result": "pass", "expected": 3, "actual": 3},
                {"title": "No other", "result": "fail", "expected": None, "actual": ["C-1"]},
            ]
        },
        "final_url": "http://127.0.0.1/end/",
        "final_answer": f"{task} is done.",
        "final_local_storage": {"board:columns": '{"done": ["C-1"]}'},
        "verifier_metadata": {
            "task_id": task,
            "start_url": "http://127.0.0.1/",
            "category": "drag",
        },
        "agent_ref": {"name": "an_agent"},
        "first_observation": {"url": "http://127.0.0.1/", "screenshot": "artifacts/0.jpg"},
        "turns": made,
        "num_turns": turns,
        "total_seconds": 12.5,
        "model_seconds": 4.0,
        "browser_seconds": 8.0,
        "verify_seconds": 0.5,
        "cost_usd": 0.01,
        "_ng_task_index": sum(task.encode()),
        "_ng_rollout_index": repeat,
    } | more


def _turn(name: str, index: int) -> Json:
    actions = ACTIONS[index % len(ACTIONS)]
    zooms = [{"type": "zoom", "region": one["region"]} for one in actions if "region" in one]
    return {
        "index": index,
        "message": f"I do number {index + 1}.",
        "reasoning": "First I think about what the page shows and what is still to be done. " * 3,
        "calls": [
            {
                "call_id": f"call_{name}_{index}",
                "kind": "computer",
                "native": {"type": "computer_call", "actions": actions},
                "actions": actions,
                "texts": [],
                "results": [{"type": one["type"], "status": "ok"} for one in actions],
                "events": zooms,
                "settled": True,
                "timings_ms": {"act": 47.6, "settle": 436.8, "capture": 95.4},
            }
        ],
        "usage": {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 10},
        "cost_usd": 0.001,
        "timings_ms": {"model": 700.0},
        "url": "http://127.0.0.1/shop/",
        "screenshot": f"artifacts/{index + 1}.jpg",
    }


def _items(turn: Json) -> list[Json]:
    call = turn["calls"][0]
    shot = {"type": "computer_screenshot", "image_url": turn["screenshot"]}
    answer = {"type": "computer_call_output", "call_id": call["call_id"], "output": shot}
    return [call["native"] | {"call_id": call["call_id"]}, answer]


def write(path: Path, rows: Iterable[Json]) -> Path:
    """Write a rollout file, and the screenshots its rows refer to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    with path.open("w") as file:
        for one in rows:
            file.write(json.dumps(one) + "\n")
            names.add(one["first_observation"]["screenshot"])
            names.update(turn["screenshot"] for turn in one["turns"] if turn.get("screenshot"))
    for name in names:
        if name.startswith("artifacts/"):
            (path.parent / name).parent.mkdir(exist_ok=True)
            (path.parent / name).write_bytes(picture(name))
    return path


@cache
def picture(words: str) -> bytes:
    """Return a screenshot that shows some words."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "#f2f4f8")
    draw = ImageDraw.Draw(image)
    for line in range(0, HEIGHT, 48):
        draw.text((40, line), f"{words} line {line} " * 4, fill="#303848")
    stream = BytesIO()
    image.save(stream, "JPEG", quality=85)
    return stream.getvalue()
