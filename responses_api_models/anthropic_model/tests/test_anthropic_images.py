"""Image limits: what is sent, and what a conversation with large or many screenshots costs."""

import base64
import io
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from responses_api_models.anthropic_model.errors import BadRequest
from responses_api_models.anthropic_model.images import (
    MAX_IMAGE_CHARS,
    SMALL_IMAGE_CHARS,
    Frame,
    ImageLimits,
    image_block,
)
from responses_api_models.anthropic_model.models import facts_of
from responses_api_models.anthropic_model.results import OMITTED_IMAGE
from responses_api_models.anthropic_model.settings import RequestSettings
from responses_api_models.anthropic_model.tests.anthropic_stack import (
    Json,
    ask,
    calls_in,
    computer,
    converse,
    errors,
    output_of,
    picture,
    request,
    simulated,
)
from responses_api_models.anthropic_model.translate import build_response, to_anthropic
from tests.simulators import anthropic_scripts as scripts

LIMITS = [ImageLimits(1568, 1568), ImageLimits(2576, 4784)]


def test_what_stands_for_a_pruned_screenshot_is_an_image() -> None:
    data = OMITTED_IMAGE.partition(",")[2]
    with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
        image.load()
        assert (image.format, image.size) == ("PNG", (8, 8))


def size_of(block: Json) -> tuple[int, int]:
    with Image.open(io.BytesIO(base64.b64decode(block["source"]["data"]))) as image:
        assert block["source"]["media_type"] == f"image/{(image.format or '').lower()}"
        return image.size


@pytest.mark.parametrize(
    ("model", "viewport", "sent"),
    [
        ("claude-sonnet-4-5", (1280, 720), (1280, 720)),
        ("claude-sonnet-4-5", (1366, 768), (1366, 768)),
        ("claude-sonnet-4-5", (1092, 1092), (1092, 1092)),
        ("claude-sonnet-4-5", (1920, 1080), (1456, 819)),
        ("claude-sonnet-4-5", (3000, 300), (1568, 157)),
        ("claude-opus-5", (1920, 1080), (1920, 1080)),
        ("claude-opus-5", (2560, 1440), (2000, 1125)),
        ("claude-opus-4-7", (800, 2500), (640, 2000)),
    ],
)
def test_the_size_that_is_sent(model: str, viewport: Any, sent: Any) -> None:
    assert facts_of(model).image_limits.fit(*viewport) == sent


@settings(deadline=None)
@given(st.integers(100, 6000), st.integers(100, 6000), st.sampled_from(LIMITS), st.data())
def test_every_sent_pixel_comes_back(width: int, height: int, limits: Any, data: Any) -> None:
    frame = Frame.of(width, height, limits)
    assert limits.allow(frame.sent_width, frame.sent_height)
    assert frame.sent_width <= width
    assert frame.sent_height <= height
    pixel = (
        data.draw(st.integers(0, frame.sent_width - 1)),
        data.draw(st.integers(0, frame.sent_height - 1)),
    )
    x, y = frame.to_css(*pixel)
    assert 0 <= x < width
    assert 0 <= y < height
    assert frame.to_sent(x, y) == pixel


def test_an_image_that_fits_is_sent_as_it_came() -> None:
    for kind in ("png", "jpeg", "webp"):
        url = picture(1280, 720, kind=kind)
        block = image_block(url, LIMITS[0], "input", size=(1280, 720))
        assert f"data:image/{kind};base64,{block['source']['data']}" == url


def test_an_image_is_shrunk_and_stays_the_same_each_time() -> None:
    for kind in ("png", "jpeg"):
        url = picture(2560, 1440, kind=kind)
        first, second = (image_block(url, LIMITS[0], "input") for _ in range(2))
        assert size_of(first) == (1456, 819)
        assert first == second


def test_an_image_of_too_many_bytes_becomes_a_jpeg() -> None:
    width, height = 1600, 1100
    noise = Image.frombytes("RGB", (width, height), random.Random(0).randbytes(3 * width * height))
    buffer = io.BytesIO()
    noise.save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    assert len(url) > MAX_IMAGE_CHARS
    block = image_block(url, ImageLimits(2576, 4784), "input")
    assert size_of(block) == (width, height)
    assert block["source"]["media_type"] == "image/jpeg"
    assert len(block["source"]["data"]) <= MAX_IMAGE_CHARS


def test_a_shrunk_image_is_no_longer_than_it_came() -> None:
    noise = Image.frombytes("L", (80, 45), random.Random(0).randbytes(80 * 45))
    buffer = io.BytesIO()
    # Few colours and large blocks: shrunk to fractions of a block, it compresses far less.
    noise.quantize(16).resize((2560, 1440), Image.Resampling.NEAREST).save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    block = image_block(url, LIMITS[0], "input")
    assert size_of(block) == (1456, 819)
    assert len(block["source"]["data"]) <= max(len(url), SMALL_IMAGE_CHARS)


@pytest.mark.parametrize(
    "url", ["http://a.test/a.png", "data:text/plain;base64,AA", "data:image/png;base64,AAAA", ""]
)
def test_what_is_no_image_is_named(url: str) -> None:
    with pytest.raises(BadRequest, match=r"^input\.3: "):
        image_block(url, LIMITS[0], "input.3")


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-opus-5"])
async def test_large_screenshots_over_a_long_history(name: str) -> None:
    """Neither refused, nor scaled by Anthropic, nor does the size change at the 21st image."""
    shot = picture(2560, 1440)
    body = request(tools=[computer(2560, 1440)])
    body["input"][0]["content"][1]["image_url"] = shot

    async with simulated(scripts.clicks(24), anthropic_model=name) as (simulator, client):
        await converse(client, body, answer=lambda number, item: output_of(item, image=shot))
    assert errors(simulator) == []
    assert simulator.ledger.downscaled == 0
    messages = simulator.requests[-1].body["messages"]
    shown = [message["content"][0]["content"][-1] for message in messages[2::2]]
    assert len(shown) == 24
    sizes = {size_of(block) for block in shown} | {size_of(messages[0]["content"][1])}
    assert sizes == {(1456, 819) if name == "claude-sonnet-4-5" else (2000, 1125)}


async def test_a_zoom_keeps_its_own_shape() -> None:
    policy = scripts.script([scripts.member("zoom", region=[0, 0, 100, 200])])
    tall = picture(360, 720)
    async with simulated(policy) as (simulator, client):
        await converse(client, request(), answer=lambda number, item: output_of(item, image=tall))
    assert errors(simulator) == []
    content = simulator.requests[1].body["messages"][2]["content"][0]["content"]
    assert size_of(content[-1]) == (360, 720)


async def test_a_screenshot_of_another_size_is_made_the_declared_one() -> None:
    dense = picture(2560, 1440)  # two device pixels a CSS pixel
    async with simulated(scripts.clicks(1)) as (simulator, client):
        body = request()
        reply = await ask(client, body)
        history = [*body["input"], *reply["output"], output_of(calls_in(reply)[0], image=dense)]
        await ask(client, body | {"input": history})
    content = simulator.requests[1].body["messages"][2]["content"][0]["content"]
    assert size_of(content[-1]) == (1280, 720)


def long_request(turns: int, url: str) -> Json:
    """A request with that many screenshots in its history."""
    body = request(tools=[computer()])
    configured = RequestSettings(anthropic_model="claude-opus-5")
    for number in range(turns):
        offered = to_anthropic(body, configured).offer
        block = scripts.member("left_click", coordinate=[number, 1]) | {"id": f"toolu_{number}"}
        reply = {"id": f"msg_{number}", "model": "m", "content": [block]}
        output = build_response(reply, offered, now=0)["output"]
        body["input"] += [*output, output_of(output[1], image=url)]
    return body


@pytest.mark.parametrize("viewport", [(1280, 720), (2560, 1440)])
def test_translating_ten_screenshots_is_cheap(viewport: tuple[int, int]) -> None:
    """Prints CPU time; asserts only that nothing is drawn again in the next turn."""
    page = Image.new("RGB", viewport, "white")
    page.paste(Image.effect_noise((640, 360), 60), (100, 100))  # as a photo in a page
    buffer = io.BytesIO()
    page.save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    body = long_request(10, url)
    body["tools"] = [computer(*viewport)]
    configured = RequestSettings(anthropic_model="claude-opus-5")
    to_anthropic(body, configured)
    start = time.process_time()
    for _ in range(10):
        to_anthropic(body, configured)
    took = (time.process_time() - start) / 10
    start = time.process_time()
    with Image.open(io.BytesIO(buffer.getvalue())) as image:
        image.resize((1000, 562))
    once = time.process_time() - start
    told = f"{took * 1000:.2f} ms CPU a turn with ten screenshots of {len(url) // 1024} KB"
    print(f"\n{viewport}: {told}; decoding one takes {once * 1000:.2f} ms")  # noqa: T201
    assert took < 10 * once
