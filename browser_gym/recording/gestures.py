"""From a person's input, event by event, to canonical actions. No browser is asked for anything."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from browser_gym.recording.events import Event
from browser_gym.recording.history import Move
from resources_servers.browser_gym.actions import MAX_SCROLL_PX, MAX_TEXT_LENGTH
from resources_servers.browser_gym.keys import UnknownKeyError, normalize_chord

if TYPE_CHECKING:
    from browser_gym.recording.watch import Look

Json = dict[str, Any]

PAUSE_MS = 1_000
"""What follows sooner belongs to what was before: keys to a text, turns of the wheel, presses of a
key; and what a page does of itself sooner than that, it does because of the input."""
STILL_PX = 6
"""A pointer that moves less between press and release has clicked."""
MAX_PATH = 20
PASSWORD_NOTE = "a password was put in, and is in the files as it was typed"
_SAME_PLACE_PX = 40
_BUTTONS = ("left", "middle", "right", "back", "forward")
_MAX_REPEAT = 100
_HISTORY_KEYS = {
    "reload": (["F5"], ["Control", "F5"], ["Control", "r"], ["Control", "Shift", "KeyR"]),
    "go_back": (["Alt", "ArrowLeft"],),
    "go_forward": (["Alt", "ArrowRight"],),
}
"""What the browser itself does for a key; where pages are driven, an action does it."""

_ADDRESS_KEYS = (["Control", "l"], ["Meta", "l"], ["Alt", "d"], ["F6"])
_PASTE_KEYS = (["Control", "v"], ["Meta", "v"], ["Shift", "Insert"])


@dataclass
class Recorded:
    """An action, and when the person did it.

    Attributes:
        action: canonical.
        tab: it was done in.
        began: in ms since the epoch.
        ended: with its last event so far.
        before: what the tab showed before, once that is known.
        told: whether it was told of, as there is a picture of what came of it.
    """

    action: Json
    tab: int
    began: float
    ended: float
    before: Look | None = None
    told: bool = False

    def goes_on(self, at: float) -> bool:
        """Whether input at a time may belong to it."""
        return at - self.ended < PAUSE_MS


@dataclass
class _Press:
    event: Event
    path: list[tuple[float, float]]


class Gestures:
    """Makes actions of events.

    Attributes:
        actions: so far; the last one may still grow.
        notes: what could not be recorded.
        active: the tab that is in front where the actions are done again.
    """

    def __init__(self) -> None:
        """Begin without a tab; the first one is opened next."""
        self.actions: list[Recorded] = []
        self.notes: list[str] = []
        self.active = -1
        self._tabs: list[int] = []
        self._openers: dict[int, int | None] = {}
        self._press: _Press | None = None
        self._copied: str | None = None
        self._last_input = float("-inf")

    def input(self, tab: int, event: Event) -> None:
        """Take an event that a page reported.

        Args:
            tab: it is from.
            event: of `events.js`, its point in CSS px of the viewport.
        """
        if tab not in self._tabs:
            return
        if tab != self.active:
            self._add({"type": "switch_tab", "index": self._tabs.index(tab)}, event.at)
            self.active = tab
        if event.kind != "shown":
            self._last_input = event.at
            if event.password and PASSWORD_NOTE not in self.notes:
                self.notes.append(PASSWORD_NOTE)
            getattr(self, f"_on_{event.kind}")(event)

    def opened(self, tab: int, opener: int | None, at: float) -> bool:
        """Take note of a new tab; return whether it is the person's, not a page's."""
        by_person = bool(self._tabs) and opener is None and not self._because_of_input(at)
        if by_person:
            self._add({"type": "new_tab"}, at)
        self._tabs.append(tab)
        self._openers[tab] = opener
        self.active = tab
        return by_person

    def closed(self, tab: int, at: float) -> None:
        """Take note that a tab is gone, by the person or by itself."""
        if tab not in self._tabs:
            return
        if len(self._tabs) > 1 and not self._because_of_input(at):
            if tab != self.active:
                self._add({"type": "switch_tab", "index": self._tabs.index(tab)}, at)
                self.active = tab
            self._add({"type": "close_tab"}, at)
        self._tabs.remove(tab)
        if tab == self.active:
            # As the environment has it: back to the opener.
            opener = self._openers[tab]
            last = self._tabs[-1] if self._tabs else -1
            self.active = opener if opener is not None and opener in self._tabs else last

    def navigated(self, tab: int, how: Move, url: str, at: float) -> None:
        """Take note that a tab went elsewhere, through the browser's own controls or keys.

        Args:
            tab: which.
            how: by the address bar, or through the history.
            url: where to.
            at: in ms since the epoch.
        """
        if tab not in self._tabs:
            return
        last = self.actions[-1] if self.actions else None
        if how != "navigate" and self._because_of_input(at):
            chords = last.action.get("chords", []) if last else []
            if last and any(chord in _HISTORY_KEYS[how] for chord in chords):
                last.action = {"type": how}
            return  # else the page did it
        if how == "navigate" and last and last.action.get("chords", [None])[0] in _ADDRESS_KEYS:
            self.actions.pop()  # it led to the address bar
        if tab != self.active:
            self._add({"type": "switch_tab", "index": self._tabs.index(tab)}, at)
            self.active = tab
        self._add({"type": how} | ({"url": url} if how == "navigate" else {}), at)

    def drop_closing(self, at: float) -> None:
        """Forget the closing of tabs that was the closing of the window.

        Args:
            at: when the last tab was closed.
        """
        while self.actions and self.actions[-1].action["type"] in ("close_tab", "switch_tab"):
            if not self.actions[-1].goes_on(at):
                break
            self.actions.pop()

    def _because_of_input(self, at: float) -> bool:
        return at - self._last_input < PAUSE_MS

    def _add(self, action: Json, at: float, ended: float | None = None) -> None:
        ended = at if ended is None else ended
        self.actions.append(Recorded(_whole(action), self.active, at, ended))

    def _last(self, kind: str, at: float) -> Recorded | None:
        """Return the last action if it is of a type and still goes on in this tab."""
        last = self.actions[-1] if self.actions else None
        fits = last and last.action["type"] == kind and last.tab == self.active
        return last if last and fits and last.goes_on(at) else None

    def _on_down(self, event: Event) -> None:
        self._press = _Press(event, [(event.x, event.y)])

    def _on_move(self, event: Event) -> None:
        if self._press:
            self._press.path.append((event.x, event.y))

    def _on_up(self, event: Event) -> None:
        press, self._press = self._press, None
        if press is None:
            return
        path = [point for point, _ in groupby([*press.path, (event.x, event.y)])]
        x, y = path[0]
        button = _BUTTONS[press.event.button]
        how: Json = {"button": button} if button != "left" else {}
        if press.event.modifiers:
            how["modifiers"] = press.event.modifiers
        if all(_near(point, (x, y), STILL_PX) for point in path):
            self._click({"type": "click", "x": x, "y": y, **how}, press.event, event.at)
        else:
            points = [{"x": px, "y": py} for px, py in _thinned(path)]
            self._add({"type": "drag", "path": points, **how}, press.event.at, event.at)

    def _click(self, action: Json, press: Event, ended: float) -> None:
        # The fourth click in a row is the first of the next three.
        count = (max(press.count, 1) - 1) % 3 + 1
        last = self._last("click", press.at)
        if last and count == last.action.get("count", 1) + 1 and _same_click(last.action, action):
            last.action, last.ended = last.action | {"count": count}, ended
        else:
            self._add(action | ({"count": count} if count > 1 else {}), press.at, ended)

    def _on_wheel(self, event: Event) -> None:
        at = event.at
        how = {"modifiers": event.modifiers} if event.modifiers else {}
        if last := self._last("scroll", at):
            was = last.action
            dx, dy = was["dx"] + event.dx, was["dy"] + event.dy
            if (
                was.get("modifiers") == how.get("modifiers")
                and _near((was["x"], was["y"]), (event.x, event.y), _SAME_PLACE_PX)
                and max(abs(dx), abs(dy)) <= MAX_SCROLL_PX
            ):
                last.action, last.ended = _whole(was | {"dx": dx, "dy": dy}), at
                return
        amount = {"x": event.x, "y": event.y, "dx": event.dx, "dy": event.dy}
        self._add({"type": "scroll", **amount, **how}, at)

    def _on_key(self, event: Event) -> None:
        key, at = event.key, event.at
        modifiers = [] if event.third_level else event.modifiers
        if len(key) == 1 and modifiers in ([], ["Shift"]):
            self._on_text(event.model_copy(update={"text": key}))
            return
        try:
            chord = normalize_chord([*modifiers, key])
        except UnknownKeyError:
            self.notes.append(f"the key {key} cannot be pressed again")
            return
        last = self._last("key", at)
        repeat = last.action.get("repeat", 1) + 1 if last else 1
        if last and last.action["chords"] == [chord] and repeat <= _MAX_REPEAT:
            last.action, last.ended = last.action | {"repeat": repeat}, at
        else:
            self._add({"type": "key", "chords": [chord]}, at)

    def _on_text(self, event: Event) -> None:
        text, at = event.text, event.at
        last = self._last("type", at)
        whole = last.action["text"] + text if last else text
        if last and len(whole) <= MAX_TEXT_LENGTH:
            last.action, last.ended = {"type": "type", "text": whole}, at
        else:
            self._add({"type": "type", "text": text[:MAX_TEXT_LENGTH]}, at)

    def _on_copied(self, event: Event) -> None:
        self._copied = event.text.strip()

    def _on_pasted(self, event: Event) -> None:
        """Type what comes from elsewhere; what was copied in the recording is pasted again."""
        last = self._last("key", event.at)
        by_key = last and any(chord in _PASTE_KEYS for chord in last.action["chords"])
        if self._copied == event.text.strip() or not event.text:
            if not by_key:
                self._add({"type": "key", "chords": [_PASTE_KEYS[0]]}, event.at)
            return
        if by_key:
            self.actions.pop()
        self._on_text(event)


def _whole(value: Any) -> Any:
    """Return JSON with whole numbers for floats that are: so a person would write them."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _near(one: tuple[float, float], other: tuple[float, float], distance: float) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= distance


def _same_click(one: Json, other: Json) -> bool:
    """Whether two clicks are those of a double click."""
    keys = ("button", "modifiers")
    near = _near((one["x"], one["y"]), (other["x"], other["y"]), STILL_PX)
    return near and all(one.get(key) == other.get(key) for key in keys)


def _thinned(path: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a path of at most `MAX_PATH` points, the first and the last among them."""
    if len(path) <= MAX_PATH:
        return path
    step = (len(path) - 1) / (MAX_PATH - 1)
    return [path[round(index * step)] for index in range(MAX_PATH)]
