"""The server before the strict simulator: prompts only grow; the rest is as `vllm_model` has it."""

import base64
import io
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from fastapi import Request
from nemo_gym import server_utils
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import SESSION_ID_KEY, GlobalAIOHTTPAsyncClientConfig, ServerClient
from omegaconf import OmegaConf
from PIL import Image
from pydantic import ValidationError
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

from responses_api_models.vllm_exact_model.app import VLLMExactModel, VLLMExactModelConfig
from responses_api_models.vllm_exact_model.engine import Engine
from responses_api_models.vllm_exact_model.exact_chat import ExactChat
from tests.simulators.http_server import serve
from tests.simulators.vllm_api import VllmSimulator
from tests.simulators.vllm_tokens import END, PAD, SPECIALS, encode

Json = dict[str, Any]
Respond = Callable[..., Coroutine[Any, Any, Json]]
SYSTEM = {"role": "system", "content": "You click."}
CLICK = {"type": "function", "name": "click", "parameters": {"type": "object"}, "strict": True}
BASE = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "policy_model"}


def image(size: int) -> Json:
    file = io.BytesIO()
    Image.new("RGB", (size, 40), "red").save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return {"type": "input_image", "image_url": url, "detail": "auto"}


IMAGES = [image(size) for size in (20, 100, 250)]


def user(*parts: str | Json) -> Json:
    content = [p if isinstance(p, dict) else {"type": "input_text", "text": p} for p in parts]
    return {"role": "user", "content": content}


def server(url: str, *, exact: bool = True, **settings: Any) -> VLLMModel:
    config = {**BASE, "base_url": f"{url}/v1", "api_key": "EMPTY", "model": "tiny", **settings}
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = OmegaConf.create({})
    if exact:
        made = VLLMExactModelConfig.model_validate({"max_retries": 0, **config})
        return VLLMExactModel(config=made, server_client=client)
    told = {
        "return_token_id_information": True,
        "request_prompt_and_generation_token_ids": True,
        "uses_reasoning_parser": True,
    }
    stock = VLLMModelConfig.model_validate({**told, **config})
    return VLLMModel(config=stock, server_client=client)


@asynccontextmanager
async def model(simulator: VllmSimulator, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the model server before a simulator."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(serve(simulator.app))
        served = server(url, **settings).setup_webserver()
        await stack.enter_async_context(served.router.lifespan_context(served))
        transport = httpx.ASGITransport(app=served)
        client = httpx.AsyncClient(transport=transport, base_url="http://model", timeout=60)
        yield await stack.enter_async_context(client)


async def ask(client: httpx.AsyncClient, items: list[Json], **changes: Any) -> Json:
    answer = await client.post("/v1/responses", json={"input": items, **changes})
    assert answer.status_code == 200, answer.text
    return answer.json()


class Direct(Engine):
    """An engine without HTTP, for many requests."""

    def __init__(self, simulator: VllmSimulator) -> None:
        self.simulator = simulator

    async def post(self, path: str, body: Json) -> Any:
        return json.loads(json.dumps(self.simulator.answer(path, body)))


def bare(item: Json) -> Json:
    told = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
    return {name: value for name, value in item.items() if name not in told}


def seen(item: Json) -> list[int]:
    return item["prompt_token_ids"] + item["generation_token_ids"]


async def episode(respond: Respond, rng: random.Random) -> tuple[int, int]:
    """Run a random conversation; return how many replies it had and how many prompts drifted."""
    words = ["next", "it says <|im_end|>\n<|im_start|>assistant\n", "<think>", "Zürich\n\n"]
    items = [SYSTEM, user("Click.", *rng.choices(IMAGES, k=rng.randint(0, 2)))]
    tools: Json = {"tools": [CLICK]} if rng.random() < 0.5 else {}
    newest_only = rng.random() < 0.5
    tokens: list[int] = []
    drifted = 0
    turns = rng.randint(2, 7)
    for turn in range(turns):
        limit = rng.choice([3, 12, 200])
        extra = {"extra_body": json.dumps({"seed": rng.randint(1, 10**6)})}
        reply = await respond(items, max_output_tokens=limit, metadata=extra, **tools)
        last = reply["output"][-1]
        drifted += last["prompt_token_ids"][: len(tokens)] != tokens
        assert len(last["generation_token_ids"]) == len(last["generation_log_probs"])
        tokens = seen(last)
        items = [bare(item) for item in items] if newest_only else items
        items += reply["output"]
        for item in reply["output"]:
            if item["type"] == "function_call":
                output = f"done {turn}" + rng.choice(words)
                kind = "function_call_output"
                items.append({"type": kind, "call_id": item["call_id"], "output": output})
        items.append(user(rng.choice(words), *rng.choices(IMAGES, k=rng.randint(0, 3))))
    return turns, drifted


async def test_no_prompt_drifts_in_200_random_episodes(caplog: pytest.LogCaptureFixture) -> None:
    simulator = VllmSimulator()
    exact = server("http://127.0.0.1:1")
    exact._clients = [ExactChat(Direct(simulator))]  # pyright: ignore[reportAttributeAccessIssue]
    request = Request({"type": "http", "headers": [], "session": {SESSION_ID_KEY: "s"}})

    async def respond(items: list[Json], **changes: Any) -> Json:
        body = NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": items, **changes})
        return (await exact.responses(request, body)).model_dump(mode="json")

    results = [await episode(respond, random.Random(seed)) for seed in range(200)]
    turns, drifted = (sum(column) for column in zip(*results, strict=True))
    assert (drifted, len(simulator.prompts)) == (0, turns)
    assert not [entry for entry in caplog.messages if "rendered anew" in entry]
    assert sum(map(len, simulator.parts)) > turns


async def test_prompts_drift_with_the_stock_server() -> None:
    if not server_utils.is_global_aiohttp_client_setup():
        server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    async with model(VllmSimulator(), exact=False) as client:
        results = [await episode(partial(ask, client), random.Random(seed)) for seed in range(5)]
    turns, drifted = (sum(column) for column in zip(*results, strict=True))
    assert drifted > turns / 2


def says(text: str, *, ended: bool = True) -> Callable[[random.Random, int], list[int]]:
    """A model that always says one text."""
    return lambda rng, allowed: (encode(text) + [END] * ended)[:allowed]


def test_settings_that_go_around_the_tokens_are_refused() -> None:
    for name in ("use_completions_api", "is_responses_native", "supply_prefix_token_ids"):
        with pytest.raises(ValidationError, match=name):
            server("http://127.0.0.1:1", **{name: True})
    with pytest.raises(ValidationError, match="return_token_id_information"):
        server("http://127.0.0.1:1", return_token_id_information=False)


async def test_a_reply_with_thoughts_words_and_a_call() -> None:
    text = '<think>Where?</think>I act.<tool_call>\n{"name": "click", "arguments": {"x": 1}}\n'
    simulator = VllmSimulator(sampler=says(text + "</tool_call>"))
    async with model(simulator) as client:
        first = [SYSTEM, user("Click.", IMAGES[1])]
        sampling = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 300}
        extra = {"extra_body": json.dumps({"seed": 7, "top_k": 5, "logit_bias": {"3": 1.0}})}
        reply = await ask(client, first, tools=[CLICK], metadata=extra, **sampling)
    kinds = [item["type"] for item in reply["output"]]
    assert kinds == ["reasoning", "message", "function_call"]
    assert reply["output"][1]["content"][0]["text"] == "I act."
    call = reply["output"][2]
    assert (call["name"], json.loads(call["arguments"])) == ("click", {"x": 1})
    assert call["prompt_token_ids"] == simulator.prompts[0]
    assert call["prompt_token_ids"].count(PAD) == 8
    assert call["generation_token_ids"][-1] == END
    used = reply["usage"]["input_tokens"]
    assert (reply["status"], used) == ("completed", len(simulator.prompts[0]))
    assert simulator.sampling[0] == {
        **{"temperature": 0.5, "top_p": 0.9, "max_tokens": 300, "seed": 7, "top_k": 5},
        **{"logprobs": 0, "logit_bias": {"3": 1.0, str(PAD): -100.0}},
    }


async def test_texts_hold_no_special_tokens_and_may_be_empty() -> None:
    simulator = VllmSimulator(sampler=says(f"a{SPECIALS[3]}b"))
    async with model(simulator) as client:
        reply = await ask(client, [user("Click.")])
        assert reply["output"][0]["content"][0]["text"] == "ab"
        simulator.sampler = says("")
        for tools in ([], [CLICK]):
            reply = await ask(client, [user("Click.")], **({"tools": tools} if tools else {}))
            assert reply["output"][0]["content"][0]["text"] == ""
            assert reply["output"][0]["generation_token_ids"] == [END]


async def test_a_window_begins_a_prompt_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Without token ids nothing is continued; with those of other messages there is a warning."""
    async with model(VllmSimulator(sampler=says("hello"))) as client:
        first = [user("Click.", IMAGES[0])]
        items = [*first, *(await ask(client, first))["output"], user("Next.", IMAGES[1])]
        items += (await ask(client, items))["output"]
        later = [*map(bare, items), user("More.", IMAGES[2])]
        assert (await ask(client, later))["output"][0]["prompt_token_ids"]
        assert "rendered anew" not in caplog.text
        windowed = [user("[screenshot omitted]"), *items[1:], user("More.", IMAGES[2])]
        reply = await ask(client, windowed)
        assert reply["output"][0]["prompt_token_ids"][: len(seen(items[-1]))] != seen(items[-1])
        assert "the tokens hold 2 images and the messages 1" in caplog.text


async def test_a_reply_that_is_cut_off_or_does_not_fit() -> None:
    simulator = VllmSimulator(sampler=says("a" * 90, ended=False), max_model_len=80)
    async with model(simulator) as client:
        items = [user("Click.")]
        reply = await ask(client, items, max_output_tokens=5)
        assert reply["status"] == "incomplete"
        assert reply["output"][0]["content"][0]["text"] == "aaaaa"
        items += [*reply["output"], user("Next.")]
        reply = await ask(client, items, max_output_tokens=5000)
        assert reply["incomplete_details"] == {"reason": "max_output_tokens"}
        assert len(seen(reply["output"][0])) == 80
        for full in ([*items, *reply["output"], user("Next.")], [user("word " * 50)]):
            answer = await client.post("/v1/responses", json={"input": full})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")


async def test_what_vllm_refuses_and_what_passes() -> None:
    simulator = VllmSimulator(sampler=says("hello"), max_images=1)
    async with model(simulator, max_retries=1) as client:
        simulator.failing = [503]
        assert await ask(client, [user("Click.")])
        simulator.failing = [500, 500]
        answer = await client.post("/v1/responses", json={"input": [user("Click.")]})
        assert (answer.status_code, simulator.failing) == (500, [])
        refused: list[tuple[Json, str]] = [
            ({"input": [user(*IMAGES)]}, "At most 1 image"),
            ({"input": [user("a")], "truncation": "auto"}, "truncation"),
            (
                {
                    "input": [user("a")],
                    "metadata": {"extra_body": '{"mm_processor_kwargs": {"a": 1}}'},
                },
                "mm_processor_kwargs is not supported",
            ),
        ]
        for body, why in refused:
            answer = await client.post("/v1/responses", json=body)
            assert answer.status_code == 400
            assert why in answer.json()["error"]["message"]


async def test_an_engine_that_cannot_be_reached() -> None:
    served = server("http://127.0.0.1:1").setup_webserver()
    transport = httpx.ASGITransport(app=served)
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        answer = await client.post("/v1/responses", json={"input": [user("Click.")]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "connection_failed")
