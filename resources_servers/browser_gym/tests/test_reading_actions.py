"""Zoom, reading the page and setting values, in real Chromium on a page of forms."""

import base64
import io
import json
from typing import Any

import PIL.Image
import pytest

from conftest import Client


class Forms:
    """A session on the forms page."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def step(self, *actions: dict[str, Any]) -> dict[str, Any]:
        return await self.client.step(self.env_id, *actions)

    async def do(self, *actions: dict[str, Any]) -> dict[str, Any]:
        answer = await self.step(*actions)
        assert answer["error"] is None, answer["error"]
        return answer

    async def _stored(self, key: str) -> Any:
        dump = json.loads((await self.client.storage(self.env_id))["local_storage_dump"])
        return json.loads(dump[key])

    async def log(self) -> list[str]:
        return await self._stored("log")


@pytest.fixture
async def forms(client: Client, site: str) -> Forms:
    seeded = await client.seed(f"{site}/forms.html", viewport_width=1280, viewport_height=720)
    return Forms(client, seeded["env_id"])


def _image(answer: dict[str, Any]) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"]))).convert("RGB")


def _zoom(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    return {"type": "zoom", "region": {"x0": x0, "y0": y0, "x1": x1, "y1": y1}}


async def test_zoom_shows_the_region_once(forms: Forms) -> None:
    answer = await forms.do(_zoom(1000, 300, 1200, 400))
    image = _image(answer)
    assert image.size == (1280, 640)
    left, right = image.getpixel((600, 320)), image.getpixel((680, 320))
    assert left[0] > 200 > 50 > left[2]
    assert right[2] > 200 > 50 > right[0]
    assert answer["events"] == [
        {"type": "zoom", "region": {"x0": 1000, "y0": 300, "x1": 1200, "y1": 400}}
    ]
    answer = await forms.do({"type": "screenshot"})
    assert (_image(answer).size, answer["events"]) == ((1280, 720), [])
    assert await forms.log() == []  # the page was not resized for it


async def test_zoom_draws_the_page_anew_instead_of_stretching_pixels(forms: Forms) -> None:
    whole = _image(await forms.do({"type": "screenshot"})).crop((1010, 30, 1190, 210)).convert("L")
    zoomed = _image(await forms.do(_zoom(1010, 30, 1190, 210))).convert("L")
    assert zoomed.size == (720, 720)
    darkest, brightest = whole.getextrema()
    assert brightest - darkest < 60
    darkest, brightest = zoomed.getextrema()
    assert darkest < 60
    assert brightest > 195


async def test_zoom_follows_the_scroll_position(forms: Forms) -> None:
    await forms.do({"type": "scroll", "dy": 200})
    image = _image(await forms.do(_zoom(1000.5, 100.5, 1199.5, 199.5)))
    assert image.size == (1280, 637)
    assert image.getpixel((300, 10))[0] > 200
    assert image.getpixel((300, 626))[0] > 200


async def test_only_a_last_zoom_shapes_the_screenshot(forms: Forms) -> None:
    answer = await forms.do(_zoom(1000, 300, 1200, 400), {"type": "move", "x": 5, "y": 5})
    assert (_image(answer).size, answer["events"]) == ((1280, 720), [])


@pytest.mark.parametrize(
    ("region", "fix"),
    [
        ((100, 100, 100, 200), "empty or reversed: give its top left corner as x0, y0"),
        ((200, 100, 100, 200), "empty or reversed"),
        ((-1, 0, 100, 100), "reaches outside the 1280x720 viewport: keep x within 0 and 1280"),
        ((0, 0, 1281, 100), "reaches outside"),
        ((0, 700, 100, 800), "y within 0 and 720"),
        ((0, 0, 9.5, 100), "the region is 9.5x100 px: make it at least 10 px wide and high"),
    ],
)
async def test_a_region_that_cannot_be_shown_is_told(
    forms: Forms, region: tuple[float, float, float, float], fix: str
) -> None:
    answer = await forms.step(_zoom(*region))
    assert answer["error"].startswith("zoom: the region")
    assert fix in answer["error"]
    assert _image(answer).size == (1280, 720)
