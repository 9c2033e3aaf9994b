"""What is read out of a browser: screenshots and storage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from playwright.async_api import BrowserContext, CDPSession

from resources_servers.browser_gym.actions import Region
from resources_servers.browser_gym.redaction import hide_secrets

ImageFormat = Literal["jpeg", "png", "webp"]
Storage = dict[str, dict[str, str]]
"""localStorage by origin: `{origin: {key: value}}`."""

SCREENSHOT_TIMEOUT_S = 10
STORAGE_TIMEOUT_S = 10
MAX_SHOWN_CHARS = 2_000


@dataclass(frozen=True)
class Image:
    """An encoded screenshot of the viewport, or of a region of it.

    Attributes:
        data: base64 of the encoded image, without a data-URL prefix.
        media_type: `image/jpeg`, `image/png` or `image/webp`.
    """

    data: str
    media_type: str


def valid_unicode(text: str) -> str:
    """Return a page's text with `?` for each unpaired surrogate, which JSON writers refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shown_text(text: str) -> str:
    """Return a page's title, address or message as it is passed on.

    That is valid, not megabytes, and without the secrets of addresses.
    """
    text = hide_secrets(valid_unicode(text))
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


async def take_screenshot(
    cdp: CDPSession,
    image_format: ImageFormat,
    quality: int,
    *,
    region: Region | None = None,
    scale: float = 1,
) -> Image:
    """Capture the viewport at one image pixel per CSS pixel, or a region of it enlarged.

    An enlarged region is not a stretched screenshot: the browser draws the page again at that
    scale, so that text and lines are sharp. The page itself notices nothing.

    Through CDP, because Playwright's own screenshot waits for web fonts that may never come and
    costs a third more. The base64 text that CDP sends is passed on as it is.

    Args:
        cdp: a session attached to the page.
        image_format: `jpeg` is cheapest; `png` uses the speed-optimised encoder.
        quality: 1-100, for jpeg and webp.
        region: what to capture, in CSS px of the viewport; all of it by default.
        scale: image pixels per CSS pixel of the region.

    Raises:
        TimeoutError: the page drew nothing within the bound.
        playwright.async_api.Error: the page crashed or closed.
    """
    params: dict[str, Any] = {"format": image_format, "optimizeForSpeed": True}
    if image_format != "png":
        params["quality"] = quality
    async with asyncio.timeout(SCREENSHOT_TIMEOUT_S):
        if region:
            # The clip is relative to the document, not to what is scrolled into view.
            metrics = await cdp.send("Page.getLayoutMetrics")
            view = metrics["cssVisualViewport"]
            params["clip"] = {
                "x": view["pageX"] + region.x0,
                "y": view["pageY"] + region.y0,
                "width": region.x1 - region.x0,
                "height": region.y1 - region.y0,
                "scale": scale,
            }
        result = await cdp.send("Page.captureScreenshot", params)
    return Image(data=result["data"], media_type=f"image/{image_format}")


async def is_fullscreen(cdp: CDPSession) -> bool:
    """Whether a page fills the screen, which is larger than the viewport, and so is its picture.

    Raises:
        playwright.async_api.Error: the page crashed or closed.
    """
    window = await cdp.send("Browser.getWindowForTarget")
    return window["bounds"].get("windowState") == "fullscreen"


async def read_storage(context: BrowserContext) -> Storage:
    """Return the localStorage of every origin the context touched.

    Raises:
        TimeoutError: it could not be read within the bound.
        playwright.async_api.Error: the browser is gone.
    """
    try:
        state = await asyncio.wait_for(context.storage_state(), STORAGE_TIMEOUT_S)
    except TimeoutError:
        raise TimeoutError(f"localStorage could not be read within {STORAGE_TIMEOUT_S} s") from None
    return {
        origin["origin"]: {item["name"]: item["value"] for item in origin["localStorage"]}
        for origin in state.get("origins", [])
    }
