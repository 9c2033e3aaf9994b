"""The Anthropic model server in front of the simulator, and an agent that answers every call."""

import base64
import functools
import io
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import MagicMock

import httpx
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from PIL import Image

from responses_api_models.anthropic_model.app import AnthropicModel, AnthropicModelConfig
from tests.simulators.anthropic_api import AnthropicSimulator
from tests.simulators.anthropic_scripts import Policy

Json = dict[str, Any]
NOTE = {
    "type": "function",
    "name": "note",
    "description": "Remember a text.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "strict": True,
}


def server(base_url: str, **settings: Any) -> AnthropicModel:
    config = AnthropicModelConfig(
        **{
            "host": "127.0.0.1",
            "port": 1,
            "entrypoint": "app.py",
            "name": "policy_model",
            "anthropic_api_key": "sk-ant-simulator",
            "anthropic_base_url": base_url,
            "anthropic_model": "claude-opus-5",
            "max_retries": 0,
            **settings,
        }
    )
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = OmegaConf.create({})
    return AnthropicModel(config=config, server_client=client)


@asynccontextmanager
async def model(base_url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Run the model server and yield a client of it."""
    app = server(base_url, **settings).setup_webserver()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://model", timeout=30)
        yield await stack.enter_async_context(client)


@functools.cache
def picture(width: int = 1280, height: int = 720, shade: int = 200, kind: str = "png") -> str:
    """Data URL of an image of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (shade, shade // 2, 0)).save(buffer, kind)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def computer(width: int = 1280, height: int = 720) -> Json:
    return {
        "type": "computer_use_preview",
        "display_width": width,
        "display_height": height,
        "environment": "browser",
    }


def request(*items: Json, **changes: Any) -> Json:
    """A first request with one computer tool."""
    task = {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Do it."},
            {"type": "input_image", "image_url": picture(), "detail": "auto"},
        ],
    }
    return {
        "instructions": "You use a browser.",
        "input": [task, *items],
        "tools": [computer()],
        **changes,
    }


def output_of(item: Json, *, image: str = picture(), text: str = "", failed: bool = False) -> Json:
    """Answer a call, as the generic adapter of the agent does."""
    if item["type"] == "computer_call":
        shown = {"type": "computer_screenshot", "image_url": image, "current_url": "http://a.test/"}
        shown |= {"text": text} if text else {}
        shown |= {"is_error": True} if failed else {}
        return {"type": "computer_call_output", "call_id": item["call_id"], "output": shown}
    parts: list[Json] = [{"type": "input_text", "text": f"error: {text}" if failed else text}]
    if image:
        parts.append({"type": "input_image", "image_url": image, "detail": "auto"})
    return {"type": "function_call_output", "call_id": item["call_id"], "output": parts}


Answer = Callable[[int, Json], Json]


def calls_in(reply: Json) -> list[Json]:
    return [i for i in reply["output"] if i["type"] in ("computer_call", "function_call")]


async def ask(client: httpx.AsyncClient, body: Json) -> Json:
    response = await client.post("/v1/responses", json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    NeMoGymResponse.model_validate(reply)
    return reply


async def converse(
    client: httpx.AsyncClient,
    body: Json,
    *,
    answer: Answer = lambda number, item: output_of(item),
    turns: int = 100,
) -> tuple[list[Json], list[Json]]:
    """Let the model act until it calls nothing; return the replies and the whole history.

    Args:
        client: Of the model server.
        body: The first request.
        answer: Gives the output of a call, by the number of the turn.
        turns: Most replies to ask for.
    """
    replies: list[Json] = []
    history = list(body["input"])
    for number in range(turns):
        reply = await ask(client, body | {"input": history})
        replies.append(reply)
        calls = calls_in(reply)
        history += reply["output"] + [answer(number, call) for call in calls]
        if not calls:
            break
    return replies, history


@asynccontextmanager
async def simulated(
    policy: Policy, **settings: Any
) -> AsyncIterator[tuple[AnthropicSimulator, httpx.AsyncClient]]:
    """A simulator that plays a policy, and a client of a model server in front of it."""
    simulator = AnthropicSimulator(policy)
    with simulator.serve() as base_url:
        async with model(base_url, **settings) as client:
            yield simulator, client


def errors(simulator: AnthropicSimulator) -> list[str]:
    """What the simulator refused."""
    return [request.error for request in simulator.requests if request.error]
