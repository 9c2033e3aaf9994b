"""What the model servers' translations cost per turn: CPU, without a browser or a network."""

from __future__ import annotations

import base64
import io
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import orjson
from PIL import Image

from benchmarks.measure import Figures, figure
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.translate import build_response, to_anthropic
from responses_api_models.gemini_model.functions import function_set_of
from responses_api_models.gemini_model.settings import Settings
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from responses_api_models.openai_computer_model.translate import from_openai, to_openai
from responses_api_models.whole_text import whole

Json = dict[str, Any]
Turn = Callable[[Json, int], tuple[bytes, Json]]
"""Translates a Responses request to JSON for a provider, and back the reply of this number."""

SCREENSHOTS = 10
WIDTH, HEIGHT = 1280, 720
# Rows of noise, which does not compress: a screenshot of a page with pictures is of such a size.
NOISY_ROWS = 50
GEMINI_MODEL = "gemini-3.8-flash"
COMPUTER = {
    "type": "computer_use_preview",
    "display_width": WIDTH,
    "display_height": HEIGHT,
    "environment": "browser",
}
# The bodies of answers as they come, each a click, with # for their number.
_OPENAI_REPLY = json.dumps(
    {
        "id": "resp_#",
        "created_at": 1,
        "model": "gpt-5.4",
        "output": [
            {
                "type": "computer_call",
                "id": "cu_#",
                "call_id": "call_#",
                "status": "completed",
                "pending_safety_checks": [],
                "actions": [{"type": "click", "button": "left", "x": 100.5, "y": 200}],
            }
        ],
    }
)
_ANTHROPIC_REPLY = json.dumps(
    {
        "id": "msg_#",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "stop_reason": "tool_use",
        "content": [
            {
                "type": "tool_use",
                "id": "toolu_#",
                "name": "left_click",
                "input": {"coordinate": [100, 200]},
                "toolset_name": "computer",
            }
        ],
    }
)
_GEMINI_CALL = {"functionCall": {"name": "click", "args": {"x": 100, "y": 200}}}
_GEMINI_REPLY = json.dumps(
    {
        "responseId": "#",
        "modelVersion": GEMINI_MODEL,
        "candidates": [
            {"finishReason": "STOP", "content": {"role": "model", "parts": [_GEMINI_CALL]}}
        ],
    }
)


def translators(rounds: int) -> Figures:
    """CPU milliseconds of each translator's turn, with ten screenshots in the history.

    Without NeMo Gym's own validation. JSON is written as the server (OpenAI, Anthropic) or the
    provider's SDK (Gemini) writes it.
    """
    turns: dict[str, Turn] = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}
    pictures = [_screenshot(number) for number in range(SCREENSHOTS)]
    requests = {name: _request(turn, pictures) for name, turn in turns.items()}
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, turn in turns.items():
            started = time.process_time()
            turn(requests[name], SCREENSHOTS)
            times[name].append((time.process_time() - started) * 1000)
    figures: Figures = {}
    for name, values in times.items():
        figures |= figure(f"translator_{name}_cpu_ms", values)
    return figures


def _openai(request: Json, number: int) -> tuple[bytes, Json]:
    body = to_openai(request, model="gpt-5.4")
    return orjson.dumps(body), whole(from_openai(_numbered(_OPENAI_REPLY, number)))


def _anthropic(request: Json, number: int) -> tuple[bytes, Json]:
    translated = to_anthropic(request, RequestSettings(anthropic_model="claude-opus-5"))
    sent = orjson.dumps(translated.body)
    reply = build_response(_numbered(_ANTHROPIC_REPLY, number), translated.offer, now=time.time())
    return sent, whole(reply)


def _gemini(request: Json, number: int) -> tuple[bytes, Json]:
    settings = Settings(GEMINI_MODEL, function_set_of(GEMINI_MODEL))
    body, turn = to_gemini(request, settings)
    sent = json.dumps(body).encode()
    reply = from_gemini(_numbered(_GEMINI_REPLY, number), turn, settings, now=int(time.time()))
    return sent, whole(reply)


def _numbered(reply: str, number: int) -> Json:
    return json.loads(reply.replace("#", str(number)))


def _request(turn: Turn, pictures: list[str]) -> Json:
    """Return the request after as many turns as there are screenshots, each one answered."""
    task = {"role": "user", "content": [{"type": "input_text", "text": "Click on the button."}]}
    request: Json = {"input": [task], "tools": [COMPUTER]}
    for number, picture in enumerate(pictures):
        _, reply = turn(request, number)
        [call] = [item for item in reply["output"] if item["type"] == "computer_call"]
        shot = {
            "type": "computer_screenshot",
            "image_url": picture,
            "current_url": "https://shop.example/cart",
        }
        answer = {"type": "computer_call_output", "call_id": call["call_id"], "output": shot}
        request["input"] += [*reply["output"], answer]
    # A translator that loses a screenshot must not look fast.
    sent, _ = turn(request, SCREENSHOTS)
    missing = [p for p in pictures if p.partition(",")[2].encode() not in sent]
    if missing:
        raise AssertionError(f"{len(missing)} screenshots were not sent")
    return request


def _screenshot(number: int) -> str:
    """Return the data URL of a PNG, another one for each number."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    noise = random.Random(number).randbytes(WIDTH * NOISY_ROWS * 3)
    image.paste(Image.frombytes("RGB", (WIDTH, NOISY_ROWS), noise))
    buffer = io.BytesIO()
    image.save(buffer, "png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
