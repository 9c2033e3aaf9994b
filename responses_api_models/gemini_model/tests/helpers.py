"""What the Gemini tests share: a served model server, an agent's answers, requests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import MagicMock

import httpx
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from responses_api_models.gemini_model.app import GeminiModel, GeminiModelConfig
from tests.simulators.http_server import serve

Json = dict[str, Any]

PIXEL_DATA = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PIXEL = f"data:image/png;base64,{PIXEL_DATA}"
URL = "https://shop.example/cart"
COMPUTER = {
    "type": "computer_use_preview",
    "display_width": 1280,
    "display_height": 720,
    "environment": "browser",
}
SWITCH_TAB = {
    "type": "function",
    "name": "switch_tab",
    "description": "Switch to another tab.",
    "parameters": {
        "type": "object",
        "properties": {"index": {"type": "integer"}},
        "required": ["index"],
        "additionalProperties": False,
    },
    "strict": False,
}
CURRENT_MODEL = "gemini-3.8-flash"
LEGACY_MODEL = "gemini-2.5-computer-use-preview-10-2025"
MODELS = (CURRENT_MODEL, "gemini-3-flash-preview", LEGACY_MODEL)


def config(**settings: Any) -> GeminiModelConfig:
    return GeminiModelConfig(
        **{
            "host": "127.0.0.1",
            "port": 1,
            "entrypoint": "app.py",
            "name": "policy_model",
            "gemini_api_key": "AIza-simulator",
            "gemini_model": CURRENT_MODEL,
            "max_retries": 0,
            "timeout_s": 30,
            **settings,
        }
    )


def server(base_url: str | None, **settings: Any) -> GeminiModel:
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = OmegaConf.create({})
    return GeminiModel(config=config(gemini_base_url=base_url, **settings), server_client=client)


@asynccontextmanager
async def model(base_url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the model server and yield a client of it."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(serve(server(base_url, **settings).setup_webserver()))
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30))


def request(**changes: Any) -> Json:
    content = [
        {"type": "input_text", "text": "Do it."},
        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
    ]
    return {"input": [{"role": "user", "content": content}], "tools": [COMPUTER], **changes}


async def ask(client: httpx.AsyncClient, body: Json) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    NeMoGymResponse.model_validate(reply)
    return reply


async def error(client: httpx.AsyncClient, body: Json, status: int) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == status, response.text
    content = response.json()
    assert set(content) == {"error"}
    assert set(content["error"]) == {"message", "type", "code"}
    return content["error"]


def calls(reply: Json) -> list[Json]:
    return [item for item in reply["output"] if item["type"].endswith("_call")]


def output_of(call: Json, *, image: str = PIXEL, acknowledge: bool = True, **output: Any) -> Json:
    """Answer a call, as an agent does."""
    if call["type"] == "computer_call":
        shot = {"type": "computer_screenshot", "image_url": image, "current_url": URL, **output}
        item = {"type": "computer_call_output", "call_id": call["call_id"], "output": shot}
        checks = call["pending_safety_checks"]
        return item | ({"acknowledged_safety_checks": checks} if checks and acknowledge else {})
    texts = [output.get("text", "ok"), f"current_url: {URL}"]
    parts: list[Json] = [{"type": "input_text", "text": text} for text in texts]
    if image:
        parts.append({"type": "input_image", "image_url": image, "detail": "auto"})
    return {"type": "function_call_output", "call_id": call["call_id"], "output": parts}
