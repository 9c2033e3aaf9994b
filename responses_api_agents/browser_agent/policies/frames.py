"""Where a model's coordinates lie on the viewport."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall


@dataclass(frozen=True)
class View:
    """A viewport in a model's units.

    Attributes:
        width: of the viewport in CSS px, which are also the screenshot's px.
        height: likewise.
        columns: the width in the model's units.
        rows: the height in the model's units.
    """

    width: int
    height: int
    columns: float
    rows: float

    def point(self, x: float, y: float) -> dict[str, Any]:
        """Return a point in CSS px; the far edges are the last pixels.

        Args:
            x: in the model's units.
            y: likewise.

        Raises:
            UnusableCall: it lies outside the screen.
        """
        for name, value, end in (("x", x, self.columns), ("y", y, self.rows)):
            if not 0 <= value <= end:
                raise UnusableCall(f"{name} is {value:g}, which is not from 0 to {end:g}")
        return {
            "x": min(x * self.width / self.columns, self.width - 1),
            "y": min(y * self.height / self.rows, self.height - 1),
        }


@dataclass(frozen=True)
class Pixels:
    """Pixels of the screenshot as it is sent."""

    def view(self, width: int, height: int) -> View:
        """Return a viewport of this size (CSS px) in the model's units."""
        return View(width, height, width, height)


@dataclass(frozen=True)
class Grid:
    """A grid laid over the screen.

    Attributes:
        size: of the screen in the grid's units, both ways.
    """

    size: float

    def view(self, width: int, height: int) -> View:
        """Return a viewport of this size (CSS px) in the model's units."""
        return View(width, height, self.size, self.size)


@dataclass(frozen=True)
class Resized:
    """Pixels of the image that the model's own processor makes of the screenshot.

    Attributes:
        factor: both sides are multiples of it, in px.
        min_pixels: the fewest pixels in all.
        max_pixels: the most.
    """

    factor: int
    min_pixels: int
    max_pixels: int

    def view(self, width: int, height: int) -> View:
        """Return a viewport of this size (CSS px) in the model's units."""
        return View(width, height, *self.size(width, height))

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the resized image's width and height in px.

        Each side goes to its nearest multiple of the factor; if that makes too many or too few
        pixels, both sides are scaled first, and then go down or up to one.
        """
        columns, rows = (max(self.factor, self._steps(side, round)) for side in (width, height))
        if columns * rows > self.max_pixels:
            scale = math.sqrt(self.max_pixels / (width * height))
            columns, rows = (
                max(self.factor, self._steps(side * scale, math.floor)) for side in (width, height)
            )
        elif columns * rows < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (width * height))
            columns, rows = (self._steps(side * scale, math.ceil) for side in (width, height))
        return columns, rows

    def _steps(self, side: float, rounding: Any) -> int:
        return rounding(side / self.factor) * self.factor


Frame = Pixels | Grid | Resized

QWEN_25 = Resized(factor=28, min_pixels=4 * 28 * 28, max_pixels=16384 * 28 * 28)
"""The processor of Qwen2.5-VL and of the families trained from it."""
