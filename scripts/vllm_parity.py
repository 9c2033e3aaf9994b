"""Whether the exact model server says what vLLM's own chat endpoint says: same seed, same reply."""

import itertools
import json
from typing import Any
from unittest.mock import MagicMock

import httpx
from nemo_gym import server_utils
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient
from omegaconf import OmegaConf

from responses_api_models.vllm_exact_model.app import (
    VLLMExactModel,
    VLLMExactModelConfig,
    VLLMModel,
    VLLMModelConfig,
)
from responses_api_models.vllm_exact_model.engine import Engine
from responses_api_models.vllm_exact_model.exact_chat import PLACEHOLDER_IMAGE

SCREEN = {"type": "input_image", "image_url": PLACEHOLDER_IMAGE, "detail": "auto"}
CLICK = {
    "type": "function",
    "name": "click",
    "description": "Click.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    },
}
# The tools of a request, and whether the model must call one.
TOOLS: dict[str, dict[str, Any]] = {
    "none": {},
    "offered": {"tools": [CLICK]},
    "required": {"tools": [CLICK], "tool_choice": "required"},
}
TEMPERATURES = (0.0, 1.0)
SEEDS = range(3)

Json = dict[str, Any]


async def parity(url: str, model: str) -> Json:
    """Ask both servers the same first requests.

    Args:
        url: vLLM's base URL, with `/v1`.
        model: Its model.

    Returns:
        How many replies were compared, how many called a function, and how those that differ do.
    """
    if not server_utils.is_global_aiohttp_client_setup():
        server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    settings = {
        **{"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "policy_model"},
        **{"base_url": url, "api_key": "EMPTY", "model": model, "uses_reasoning_parser": True},
        "return_token_id_information": True,
    }
    server_client = MagicMock(spec=ServerClient)
    server_client.global_config_dict = OmegaConf.create({})
    stock = VLLMModelConfig.model_validate(
        settings | {"request_prompt_and_generation_token_ids": True}
    )
    servers = (
        VLLMExactModel(
            config=VLLMExactModelConfig.model_validate(settings), server_client=server_client
        ),
        VLLMModel(config=stock, server_client=server_client),
    )
    # The exact server never lets it be sampled.
    bias = {str(await placeholder_token(url, model)): -100.0}
    different: list[Json] = []
    compared = calls = 0
    for (name, tools), temperature, seed in itertools.product(TOOLS.items(), TEMPERATURES, SEEDS):
        said = [
            await _said(
                server.setup_webserver(),
                {**tools, "temperature": temperature},
                {"seed": seed, "logit_bias": bias},
            )
            for server in servers
        ]
        compared += 1
        calls += any(item["type"] == "function_call" for item in said[0]["items"])
        if said[0] != said[1]:
            different.append({"tools": name, "temperature": temperature, "said": said})
    await server_utils.get_global_aiohttp_client().close()
    return {"compared": compared, "with_a_call": calls, "different": different}


async def placeholder_token(url: str, model: str) -> int:
    """Return the token that stands for an image."""
    engine = Engine(url, "EMPTY", headers={}, timeout_s=600, max_retries=0)
    try:
        content = [{"type": "image_url", "image_url": {"url": PLACEHOLDER_IMAGE}}]
        chat = {"model": model, "messages": [{"role": "user", "content": content}]}
        form = await engine.render(chat)
    finally:
        await engine.close()
    return form["token_ids"][form["features"]["mm_placeholders"]["image"][0]["offset"]]


async def _said(app: Any, changes: Json, extra: Json) -> Json:
    """Return a reply without what is made up for each."""
    content = [{"type": "input_text", "text": "Click the red box."}, SCREEN]
    body = {
        "input": [{"role": "user", "content": content}],
        "max_output_tokens": 200,
        "metadata": {"extra_body": json.dumps(extra)},
        **changes,
    }
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        answer = await client.post("/v1/responses", json=body, timeout=600)
    answer.raise_for_status()
    reply = answer.json()
    made_up = {"id", "call_id", "generation_log_probs"}
    items = [
        {name: value for name, value in item.items() if name not in made_up}
        for item in reply["output"]
    ]
    used = [reply["usage"][name] for name in ("input_tokens", "output_tokens")]
    return {"items": items, "status": reply["status"], "used": used}
