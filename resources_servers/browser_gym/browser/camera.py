"""Screenshots of a session's tabs: the viewport, or a region of it enlarged."""

from __future__ import annotations

import asyncio

from playwright.async_api import Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.capture import (
    Image,
    ImageFormat,
    is_fullscreen,
    take_screenshot,
)
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.pulse import PageBusy
from resources_servers.browser_gym.browser.tabs import Tab

_CAPTURE_TRIES = 10
_CAPTURE_PAUSE_S = 0.05


class Camera:
    """Takes a session's screenshots."""

    def __init__(
        self, *, width: int, height: int, image_format: ImageFormat, image_quality: int
    ) -> None:
        """Take pictures of a viewport.

        Args:
            width: in CSS px.
            height: in CSS px.
            image_format: of the pictures.
            image_quality: 1-100, for jpeg and webp.
        """
        self._width, self._height = width, height
        self._format: ImageFormat = image_format
        self._quality = image_quality

    def checked(self, region: act.Region) -> act.Region:
        """Return a region that can be shown enlarged; tell the model what is wrong with another.

        Raises:
            ActionError: it is empty, too small or not within the viewport.
        """
        x0, y0, x1, y1 = region.x0, region.y0, region.x1, region.y1
        if x1 <= x0 or y1 <= y0:
            raise ActionError(
                f"the region from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) is empty or reversed: "
                "give its top left corner as x0, y0 and its bottom right one as x1, y1"
            )
        if x0 < 0 or y0 < 0 or x1 > self._width or y1 > self._height:
            raise ActionError(
                f"the region from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) reaches outside the "
                f"{self._width}x{self._height} viewport: keep x within 0 and {self._width}, "
                f"y within 0 and {self._height}, and scroll to see more"
            )
        if min(x1 - x0, y1 - y0) < act.MIN_ZOOM_PX:
            raise ActionError(
                f"the region is {x1 - x0:g}x{y1 - y0:g} px: make it at least "
                f"{act.MIN_ZOOM_PX} px wide and high"
            )
        return region

    async def capture(self, tab: Tab, zoom: act.Region | None = None) -> Image | None:
        """Return what a tab shows, or the region of it; None if it did not draw in time."""
        if not tab.page.url:
            return None  # a new tab whose first page has not come yet draws nothing
        for _ in range(_CAPTURE_TRIES):
            try:
                return await tab.pulse.unless_busy(lambda: self._take_screenshot(tab, zoom))
            except (TimeoutError, PageBusy):
                return None
            except Error:
                # Refused for the moment in which one document gives way to the next.
                await asyncio.sleep(_CAPTURE_PAUSE_S)
        return None

    async def _take_screenshot(self, tab: Tab, region: act.Region | None) -> Image:
        scale = 1.0
        if region:
            scale = min(
                self._width / (region.x1 - region.x0), self._height / (region.y1 - region.y0)
            )
        elif await is_fullscreen(tab.cdp):
            region = act.Region(x0=0, y0=0, x1=self._width, y1=self._height)
        return await take_screenshot(
            tab.cdp, self._format, self._quality, region=region, scale=scale
        )
