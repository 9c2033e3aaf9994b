"""Chat messages of Responses items; without verl."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from recipes.verl.messages import chat_messages, images_of
from responses_api_agents.browser_agent.adapters.base import Screen
from responses_api_agents.browser_agent.adapters.generic import image_part


def _screen() -> Screen:
    data = io.BytesIO()
    Image.new("RGBA", (4, 3), "red").save(data, "PNG")
    image = base64.b64encode(data.getvalue()).decode()
    return Screen(image, "image/png", 4, 3, "http://127.0.0.1/")


def test_items_become_chat_messages() -> None:
    said = {"type": "output_text", "text": "hello"}
    look = {"type": "input_text", "text": "Look:"}
    messages = chat_messages(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [look, image_part(_screen())]},
            {"type": "message", "role": "assistant", "content": [said]},
        ]
    )
    (image,) = images_of(messages)
    assert (image.size, image.mode, image.getpixel((0, 0))) == ((4, 3), "RGB", (255, 0, 0))
    assert messages == [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look:"}, {"type": "image", "image": image}],
        },
        {"role": "assistant", "content": "hello"},
    ]


def test_nothing_is_fetched() -> None:
    part = {"type": "input_image", "image_url": "http://127.0.0.1/a.png"}
    with pytest.raises(ValueError, match="must be a data URL, not 'http"):
        chat_messages([{"role": "user", "content": [part]}])
