"""What the Gemini tests share: a served model server, an agent's answers, translations."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import MagicMock

import httpx
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from responses_api_models.gemini_model.app import GeminiModel, GeminiModelConfig
from responses_api_models.gemini_model.settings import Settings
from responses_api_models.gemini_model.translate_reply import from_gemini
from responses_api_models.gemini_model.translate_request import to_gemini
from tests.simulators import gemini_scripts as scripts
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


# The translation alone ---------------------------------------------------------------------------

SETTINGS = config().settings()
LEGACY = config(gemini_model=LEGACY_MODEL).settings()
GEMINI_3 = config(gemini_model="gemini-3-flash-preview").settings()
PARTS = [{"text": "Do it."}, {"inlineData": {"mimeType": "image/png", "data": PIXEL_DATA}}]
CLICK = scripts.call("click", x=500, y=250)


def passed(body: Json) -> Json:
    """What is left of a request after NeMo Gym's validation."""
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
    return params.model_dump(mode="json", exclude_unset=True)


def sent(body: Json, settings: Settings = SETTINGS) -> Json:
    return to_gemini(passed(body), settings)[0]


def reply(
    *parts: Json, finish: str | None = "STOP", settings: Settings = SETTINGS, **body: Any
) -> Json:
    """Translate a reply to a request, and check that NeMo Gym takes it."""
    turn = to_gemini(passed(request(**body)), settings)[1]
    content = {"parts": list(parts), "role": "model"}
    candidate = {"content": content} | ({"finishReason": finish} if finish else {})
    return validated(from_gemini({"candidates": [candidate]}, turn, settings, now=1))


def validated(answer: Json) -> Json:
    return NeMoGymResponse.model_validate(answer).model_dump(mode="json", exclude_unset=True)


def after(
    *parts: Json, settings: Settings = SETTINGS, tools: list[Json] | None = None, **output: Any
) -> list[Json]:
    """The contents sent after a turn whose calls were all answered."""
    body = request(tools=tools or [COMPUTER])
    answer = reply(*parts, settings=settings, **body)
    outputs = [output_of(call, **output) for call in calls(answer)]
    return sent({**body, "input": body["input"] + answer["output"] + outputs}, settings)["contents"]


def responses(contents: list[Json]) -> list[Json]:
    return [part["functionResponse"] for part in contents[-1]["parts"]]
