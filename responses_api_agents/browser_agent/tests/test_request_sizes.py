"""Screenshots that hardly compress never make a request larger than its provider takes."""

import base64
import functools
import io
import random
from collections.abc import Callable
from typing import Any

import pytest
from omegaconf import OmegaConf
from PIL import Image

from responses_api_agents.browser_agent.adapters.base import CallOutcome, Screen
from responses_api_agents.browser_agent.configuration import BrowserAgentConfig, new_adapter
from responses_api_agents.browser_agent.tests.providers import AGENTS
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.translate import build_response, to_anthropic
from responses_api_models.gemini_model.functions import function_set_of
from responses_api_models.gemini_model.settings import Settings
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from responses_api_models.openai_computer_model.translate import from_openai, to_openai
from tests.simulators import anthropic_api, anthropic_scripts, openai_api

Json = dict[str, Any]

WIDTH, HEIGHT = 1280, 720
TURNS = 16
GEMINI_MODEL = "gemini-3.8-flash"
GEMINI_REQUEST_BYTES = 20_000_000


@functools.cache
def noise(number: int) -> str:
    """Base64 of a PNG of the largest size there is, another one for each number."""
    pixels = random.Random(number).randbytes(3 * WIDTH * HEIGHT)
    buffer = io.BytesIO()
    Image.frombytes("RGB", (WIDTH, HEIGHT), pixels).save(buffer, "png", compress_level=0)
    return base64.b64encode(buffer.getvalue()).decode()


def openai(request: Json, number: int) -> tuple[Json, Json]:
    call = {"type": "computer_call", "id": f"cu_{number}", "call_id": f"call_{number}"}
    reply = {"id": f"resp_{number}", "output": [call | {"actions": [{"type": "screenshot"}]}]}
    return to_openai(request, model="gpt-5.4"), from_openai(reply)


def functions(request: Json, number: int) -> tuple[Json, Json]:
    call = {"type": "function_call", "call_id": f"call_{number}", "name": "screenshot"}
    reply = {"id": f"resp_{number}", "output": [call | {"arguments": "{}"}]}
    return to_openai(request, model="gpt-5.4"), from_openai(reply)


def anthropic(request: Json, number: int) -> tuple[Json, Json]:
    sent = to_anthropic(request, RequestSettings(anthropic_model="claude-opus-5-5"))
    block = anthropic_scripts.member("screenshot") | {"id": f"toolu_{number}"}
    reply = {"id": f"msg_{number}", "stop_reason": "tool_use", "content": [block]}
    return sent.body, build_response(reply, sent.offer, now=0)


def gemini(request: Json, number: int) -> tuple[Json, Json]:
    settings = Settings(GEMINI_MODEL, function_set_of(GEMINI_MODEL))
    sent, turn = to_gemini(request, settings)
    part = {"functionCall": {"name": "take_screenshot", "args": {}}}
    candidate = {"finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
    reply = {"responseId": str(number), "modelVersion": "m", "candidates": [candidate]}
    return sent, from_gemini(reply, turn, settings, now=0)


def strings(value: Any) -> list[str]:
    """Return all texts in a JSON value, without their copies in other forms."""
    if isinstance(value, dict):
        return [text for entry in value.values() for text in strings(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in strings(entry)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    ("agent", "translate", "changes", "limit"),
    [
        ("browser_openai_agent", openai, {}, openai_api.MAX_REQUEST_BYTES),
        ("browser_openai_agent", openai, {"state": "stateless"}, openai_api.MAX_REQUEST_BYTES),
        ("browser_functions_agent", functions, {}, GEMINI_REQUEST_BYTES),
        ("browser_anthropic_sonnet_agent", anthropic, {}, anthropic_api.MAX_REQUEST_BYTES),
        ("browser_anthropic_opus_agent", anthropic, {}, anthropic_api.MAX_REQUEST_BYTES),
        ("browser_gemini_agent", gemini, {}, GEMINI_REQUEST_BYTES),
    ],
)
def test_long_conversations_of_noise_stay_far_below_the_limit(
    agent: str, translate: Callable[[Json, int], tuple[Json, Json]], changes: Json, limit: int
) -> None:
    document: Any = OmegaConf.load(AGENTS / f"{agent}.yaml")
    settings: Any = OmegaConf.to_container(
        document[agent].responses_api_agents.browser_agent, resolve=True
    )
    server = {"host": "127.0.0.1", "port": 1, "name": agent}
    adapter = new_adapter(BrowserAgentConfig.model_validate(settings | server | changes))
    screens = [Screen(noise(n), "image/png", WIDTH, HEIGHT, "http://a.test/") for n in range(TURNS)]
    request = adapter.start({"input": "Do it."}, screens[0])
    prunings, before = 0, []
    for number, screen in enumerate(screens):
        sent, response = translate(request, number)
        texts = strings(sent)
        assert sum(map(len, texts)) < 0.9 * limit
        assert any(text.endswith(screen.image) for text in texts)
        prunings += request["input"][: len(before)] != before
        before = request["input"]
        reply = adapter.read(response)
        adapter.answer(reply, [CallOutcome(screens[(number + 1) % TURNS])])
        request = adapter.next()
    if changes or agent != "browser_openai_agent":  # else a request holds only what is new
        assert 1 <= prunings <= TURNS / 2


def test_many_screenshots_for_one_reply_stay_below_the_limit() -> None:
    config = {"max_image_bytes": 10_000_000}
    server = {"host": "127.0.0.1", "port": 1, "name": "agent", "entrypoint": "app.py"}
    refs = {
        "resources_server": {"type": "resources_servers", "name": "browser_gym"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    settings = server | refs | {"model": "gpt-5.4", "history": config}
    adapter = new_adapter(BrowserAgentConfig.model_validate(settings))
    screen = Screen(noise(0), "image/png", WIDTH, HEIGHT, "http://a.test/")
    adapter.start({"input": "Do it."}, screen)
    call = {"type": "computer_call", "status": "completed", "actions": [{"type": "screenshot"}]}
    items = [call | {"id": f"cu_{n}", "call_id": f"call_{n}"} for n in range(4)]
    reply = adapter.read({"id": "resp_1", "output": items})
    adapter.answer(reply, [CallOutcome(screen)] * 4)
    outputs = adapter.next()["input"]
    shown = [screen.image in item["output"]["image_url"] for item in outputs]
    assert shown == [False, False, True, True]
    assert all(item["output"]["image_url"].startswith("data:image/png;") for item in outputs)
