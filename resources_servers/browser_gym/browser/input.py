"""Mouse and keyboard input in the active tab, arriving as a person's would."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from playwright.async_api import Error, Page

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.page_clock import PageClock
from resources_servers.browser_gym.browser.reading import fill_focused
from resources_servers.browser_gym.browser.tabs import Tabs
from resources_servers.browser_gym.keys import HIGH_FUNCTION_KEYS, is_on_keyboard, normalize_chord

# A drag library starts after a small move and needs several moves to notice a target
# (jQuery UI sortable does nothing on one move and works on ten).
_DRAG_MOVES_PER_LEG = 12
_DRAG_FIRST_MOVE_PX = 4
_EXTRA_BUTTONS = {"back": 8, "forward": 16}  # bits of the DOM's MouseEvent.buttons
# What has keys is typed in short pieces, since Playwright finishes one even after the action's
# time is up. What has none comes together, as from an input method: an emoji is several characters.
_PIECES = re.compile(r"[\t\n]|[ -~]{1,20}|[^\t\n -~]{1,20}")
# A key takes some 5 ms, as long as inserting a piece does: the rest of a long text is inserted.
_MAX_KEYED = 500
_FRAME_TIMEOUT_S = 0.2
_DRAWN_SCRIPT = """
() => new Promise(resolve => {
  const browser = window[Symbol.for("browser-gym.clock")]?.native ?? window;
  browser.requestAnimationFrame(() => browser.setTimeout(resolve, 0));
})
"""
_KEY_CODE_OF_F1 = 112  # of the DOM's KeyboardEvent.keyCode
_MODIFIER_BITS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}  # CDP Input.dispatchMouseEvent


class Input:
    """Sends input to the active tab and remembers where the pointer is."""

    def __init__(
        self,
        tabs: Tabs,
        clock: PageClock,
        pass_time: Callable[[float], Awaitable[None]],
        answered: Callable[[], None],
        *,
        width: int,
        height: int,
    ) -> None:
        """Send input to `tabs`.

        Args:
            tabs: the session's.
            clock: how time passes for their pages.
            pass_time: lets that many ms pass for them.
            answered: is called whenever the page has taken an event.
            width: viewport width in CSS px.
            height: viewport height in CSS px.
        """
        self._tabs = tabs
        self._clock = clock
        self._pass_time = pass_time
        self._answered = answered
        self._width, self._height = width, height
        self.cursor: tuple[float, float] | None = None
        self._cursor_in: Page | None = None  # each tab has a pointer of its own

    @property
    def _page(self) -> Page:
        return self._tabs.active.page

    async def _taken(self, event: Awaitable[None]) -> None:
        """Wait until the page has taken an event, which gives the next one its full time."""
        await event
        self._answered()

    async def _move_to(self, x: float | None, y: float | None) -> tuple[float, float]:
        """Move the pointer, or leave it where it is; return where it is then."""
        if x is None or y is None:
            if self.cursor is None:
                raise ActionError("the pointer has not been placed yet: give x and y")
            if self._cursor_in is self._page:
                return self.cursor
            x, y = self.cursor
        self.check_inside(x, y)
        await self._taken(self._page.mouse.move(x, y))
        self.cursor, self._cursor_in = (x, y), self._page
        return self.cursor

    def check_inside(self, x: float, y: float) -> None:
        """Raise ActionError for a point, in CSS px, that is not in the viewport."""
        if not (0 <= x < self._width and 0 <= y < self._height):
            raise ActionError(
                f"({x:g}, {y:g}) is outside the {self._width}x{self._height} viewport"
            )

    async def move(self, action: act.Move) -> None:
        """Move the pointer."""
        async with self._held(action.modifiers):
            await self._move_to(action.x, action.y)

    async def click(self, action: act.Click) -> None:
        """Click one to three times, with any button, holding modifiers."""
        x, y = await self._move_to(action.x, action.y)
        async with self._held(action.modifiers):
            if action.hold_ms or action.button in _EXTRA_BUTTONS:
                for count in range(1, action.count + 1):
                    hold_ms = action.hold_ms if count == action.count else 0
                    await self._press_for(hold_ms, action, x, y, count)
            else:
                button = _playwright_button(action.button)
                await self._page.mouse.click(x, y, button=button, click_count=action.count)

    async def _press_for(
        self, hold_ms: float, action: act.Click, x: float, y: float, count: int
    ) -> None:
        """Press, hold and release a button; it is up afterwards in any case."""
        mouse = self._page.mouse
        if action.button in _EXTRA_BUTTONS:
            down = self._side_button("mousePressed", action, x, y, count)
            up = self._side_button("mouseReleased", action, x, y, count)
        else:
            button = _playwright_button(action.button)
            down = mouse.down(button=button, click_count=count)
            up = mouse.up(button=button, click_count=count)
        try:
            await self._taken(down)
            if hold_ms:
                await self._pass_time(hold_ms)
        finally:
            await _despite_timeout(up)

    async def press_or_release(self, action: act.MouseDown | act.MouseUp) -> None:
        """Press a button and leave it down, or release it."""
        x, y = await self._move_to(action.x, action.y)
        down = isinstance(action, act.MouseDown)
        if action.button in _EXTRA_BUTTONS:
            await self._side_button("mousePressed" if down else "mouseReleased", action, x, y, 1)
        elif down:
            await self._page.mouse.down(button=_playwright_button(action.button))
        else:
            await self._page.mouse.up(button=_playwright_button(action.button))

    async def _side_button(
        self,
        event: Literal["mousePressed", "mouseReleased"],
        action: act.Click | act.MouseDown | act.MouseUp,
        x: float,
        y: float,
        count: int,
    ) -> None:
        """Send a back or forward button event, which Playwright's mouse does not know."""
        modifiers = action.modifiers if isinstance(action, act.Click) else []
        await self._tabs.active.cdp.send(
            "Input.dispatchMouseEvent",
            {
                "type": event,
                "x": x,
                "y": y,
                "button": action.button,
                "buttons": _EXTRA_BUTTONS[action.button] if event == "mousePressed" else 0,
                "clickCount": count,
                "modifiers": _bits(modifiers),
            },
        )

    async def drag(self, action: act.Drag, settle: Callable[[], Awaitable[object]]) -> None:
        """Drag along a path with moves in between; the button is up afterwards in any case.

        Args:
            action: where to.
            settle: waits until the page is quiet; called once, before the button is released.
        """
        points = action.points
        for point in points:
            self.check_inside(point.x, point.y)
        if action.button in _EXTRA_BUTTONS:
            raise ActionError(f"dragging with the {action.button} button is not possible")
        button = _playwright_button(action.button)
        mouse = self._page.mouse
        async with self._held(action.modifiers):
            if action.path[0] is None:
                x, y = await self._move_to(None, None)
                points = [act.Point(x=x, y=y), *points]
            else:
                await self._move_to(points[0].x, points[0].y)
            try:
                await self._taken(mouse.down(button=button))
                for previous, point in itertools.pairwise(points):
                    await self._drag_leg(previous, point)
                end = points[-1]
                self.cursor = (end.x, end.y)
                # Lists that make room with an animation look away until it ends, and libraries
                # that watch for a target react to the second event over it.
                await settle()
                self._answered()
                await self._taken(mouse.move(end.x, end.y))
            finally:
                # Also when the drag timed out: a button left down spoils every later action.
                await _despite_timeout(mouse.up(button=button))

    async def _drag_leg(self, start: act.Point, end: act.Point) -> None:
        dx, dy = end.x - start.x, end.y - start.y
        distance = max(abs(dx), abs(dy))
        if distance > _DRAG_FIRST_MOVE_PX:
            share = _DRAG_FIRST_MOVE_PX / distance
            await self._taken(self._page.mouse.move(start.x + dx * share, start.y + dy * share))
        for number in range(1, _DRAG_MOVES_PER_LEG + 1):
            share = number / _DRAG_MOVES_PER_LEG
            await self._taken(self._page.mouse.move(start.x + dx * share, start.y + dy * share))
            await self._clock.draw()  # libraries that follow the pointer do so once a frame

    async def scroll(self, action: act.Scroll) -> None:
        """Turn the wheel over a point (by default the pointer, else the middle of the page)."""
        if action.x is None and self.cursor is None:
            await self._move_to(self._width / 2, self._height / 2)
        else:
            await self._move_to(action.x, action.y)
        async with self._held(action.modifiers):
            await self._page.mouse.wheel(action.dx, action.dy)

    async def type(self, action: act.Type) -> None:
        """Type text: key events for what has a key and is not too long, insertion for the rest.

        A whole ISO value is not typed into a date or time input, nor #rrggbb into a color input,
        but set.
        """
        keyboard = self._page.keyboard
        if action.x is not None:
            x, y = await self._move_to(action.x, action.y)
            await self._taken(self._page.mouse.click(x, y))
        if action.clear_first:
            await self._taken(keyboard.press("ControlOrMeta+A"))
            await self._taken(keyboard.press("Delete"))
        text = action.text.replace("\r\n", "\n").replace("\r", "\n")  # one press of Enter each
        value = text.rstrip("\n")
        if await fill_focused(self._tabs.active, value):
            text = text[len(value) :]
        keyed = 0
        body = text.rstrip("\n")
        for piece in _PIECES.findall(body):
            if key := {"\n": "Enter", "\t": "Tab"}.get(piece):
                await self._taken(keyboard.press(key))
            elif piece.isascii() and keyed < _MAX_KEYED:
                await self._taken(keyboard.type(piece))
                keyed += len(piece)
            else:
                await self._taken(keyboard.insert_text(piece))
        last = len(text) - len(body) + action.press_enter
        if last:
            await self._let_draw()
        for _ in range(last):
            await self._taken(keyboard.press("Enter"))

    async def _let_draw(self) -> None:
        """Let the page draw a frame, as it does before a person's Enter comes after the text.

        Some take over what was typed in the next frame or task, and lose one of the two if both
        come first.
        """
        with contextlib.suppress(Error, TimeoutError):
            await asyncio.wait_for(self._page.evaluate(_DRAWN_SCRIPT), _FRAME_TIMEOUT_S)
        await self._clock.draw()

    async def key(self, action: act.Key) -> None:
        """Press chords one after another; nothing is pressed if one of them is unknown."""
        chords = [normalize_chord(chord) for chord in action.chords]
        for chord in chords * action.repeat:
            if not is_on_keyboard(chord[-1]):
                await self._taken(self._page.keyboard.insert_text(chord[-1]))
                continue
            async with self._held(chord):
                pass

    async def hold_key(self, action: act.HoldKey) -> None:
        """Hold keys together for a while."""
        keys = normalize_chord(action.keys)
        if not is_on_keyboard(keys[-1]):
            raise ActionError(f"{keys[-1]!r} has no key that can be held")
        async with self._held(keys):
            await self._pass_time(action.duration_ms)

    @asynccontextmanager
    async def _held(self, keys: Sequence[str]) -> AsyncIterator[None]:
        """Hold keys down in order for the block and release them in reverse, whatever happens."""
        pressed: list[str] = []
        keyboard = self._page.keyboard
        try:
            for key in keys:
                pressed.append(key)
                if key in HIGH_FUNCTION_KEYS:
                    await self._taken(self._function_key("rawKeyDown", key, keys))
                else:
                    await self._taken(keyboard.down(key))
            yield
        finally:
            for key in reversed(pressed):
                if key in HIGH_FUNCTION_KEYS:
                    await _despite_timeout(self._function_key("keyUp", key, keys))
                else:
                    await _despite_timeout(keyboard.up(key))
                self._answered()

    async def _function_key(
        self, event: Literal["rawKeyDown", "keyUp"], key: str, held: Sequence[str]
    ) -> None:
        """Send an event of F13 or higher, which Playwright's keyboard does not know."""
        await self._tabs.active.cdp.send(
            "Input.dispatchKeyEvent",
            {
                "type": event,
                "key": key,
                "code": key,
                "windowsVirtualKeyCode": _KEY_CODE_OF_F1 - 1 + int(key[1:]),
                "modifiers": _bits(held),
            },
        )


def _playwright_button(button: act.MouseButton) -> Literal["left", "middle", "right"]:
    if button == "right":
        return "right"
    return "middle" if button == "middle" else "left"


def _bits(keys: Sequence[str]) -> int:
    return sum(_MODIFIER_BITS.get(key, 0) for key in keys)


async def _despite_timeout(release: Awaitable[None]) -> None:
    """Finish a release although the action around it was cancelled or the page is gone."""
    task = asyncio.ensure_future(release)
    with contextlib.suppress(Error, TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 5)
