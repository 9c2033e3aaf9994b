"""Canonical actions in words, and as marks on the screenshot they were chosen from.

Actions come from rows and may be anything; what is no number or text is left out, never an error.
"""

from __future__ import annotations

from typing import Any

from browser_gym.viewer.texts import shown

Json = dict[str, Any]
_QUOTED_CHARS = 200
_DESCRIBED_CHARS = 2_000


def describe(action: Json) -> str:
    """Return an action in words, for example `click right ×2 at 10, 20 (Shift)`."""
    kind = str(action.get("type") or "?")
    words = [kind.replace("_", " ")]
    match kind:
        case "click" | "mouse_down" | "mouse_up" | "drag":
            if (button := action.get("button") or "left") != "left":
                words.append(str(button))
            if (count := action.get("count") or 1) != 1:
                words.append(f"×{count}")
            if hold := action.get("hold_ms"):
                words.append(f"held {hold} ms")
        case "scroll":
            words.append(_way(action))
        case "type" | "set_value":
            words.append(quoted(action.get("text", action.get("value"))))
            words += ["replacing what is there"] if action.get("clear_first") else []
            words += ["then Enter"] if action.get("press_enter") else []
        case "key":
            words.append(_chords(action))
        case "hold_key":
            words.append(f"{_chord(action.get('keys'))} for {action.get('duration_ms')} ms")
        case "wait":
            words.append(f"{action.get('ms')} ms")
        case "navigate" | "new_tab":
            words.append(str(action.get("url") or ""))
        case "switch_tab" | "close_tab":
            tab = action.get("tab_id", action.get("index"))
            words.append("" if tab is None else str(tab))
        case "find":
            words.append(quoted(action.get("query")))
        case "screenshot" | "zoom" | "move" | "scroll_to":
            pass
        case _:
            words += [f"{key}={quoted(value)}" for key, value in action.items() if key != "type"]
            return _joined(words)
    words.append(_place(kind, action))
    if modifiers := action.get("modifiers"):
        words.append(f"({_chord(modifiers)})")
    return _joined(words)


def quoted(value: Any) -> str:
    """Return a value for people, cut if it is long."""
    text = shown(value, _QUOTED_CHARS)
    return f"“{text}”" if isinstance(value, str) else text


class Pointer:
    """Follows the pointer through a rollout, as an action without a point acts where it is."""

    def __init__(self) -> None:
        """Start where nothing is known."""
        self._at: list[float] | None = None

    def marks(self, action: Json) -> list[Json]:
        """Return what to draw for an action.

        Returns:
            Marks, each with a `kind`: `point` or `press` at `at`; `path` through `points`; `scroll`
            from `at` by `by`; `region`, its corners in `points`; `note`, words at `at`, which is
            null if no place is known. All have `text`. Places are px of the viewport.
        """
        kind = action.get("type")
        if kind == "drag":
            return self._drag(action)
        if kind == "zoom":
            return _region(action)
        if (at := _point(action)) is not None:
            self._at = at
        elif action.get("ref") is not None:
            self._at = None  # wherever that element was
        text = describe(action)
        if kind == "scroll" and self._at:
            by = [_number(action.get("dx")) or 0.0, _number(action.get("dy")) or 0.0]
            return [{"kind": "scroll", "at": self._at, "by": by, "text": _way(action)}]
        if kind in ("click", "mouse_down", "mouse_up", "move") and self._at:
            mark = "point" if kind == "move" else "press"
            return [{"kind": mark, "at": self._at, "text": _short(action)}]
        return [{"kind": "note", "at": self._at, "text": text}]

    def _drag(self, action: Json) -> list[Json]:
        path = action.get("path")
        points = [_point(point) for point in path] if isinstance(path, list) else []
        if points and points[0] is None:
            points[0] = self._at
        known = [point for point in points if point is not None]
        if not known:
            return [{"kind": "note", "at": self._at, "text": describe(action)}]
        self._at = known[-1]
        return [{"kind": "path", "points": known, "text": _short(action)}]


def _region(action: Json) -> list[Json]:
    corners = region(action.get("region"))
    if corners is None:
        return [{"kind": "note", "at": None, "text": describe(action)}]
    points = [corners[:2], corners[2:]]
    return [{"kind": "region", "points": points, "text": "zoom"}]


def region(value: Any) -> list[float] | None:
    """Return a region's left, top, right and bottom in px, None if it is none."""
    if not isinstance(value, dict):
        return None
    corners = [_number(value.get(key)) for key in ("x0", "y0", "x1", "y1")]
    known = [corner for corner in corners if corner is not None]
    return known if len(known) == 4 and known[0] < known[2] and known[1] < known[3] else None


def _short(action: Json) -> str:
    """Return the words at a mark, whose place need not be said."""
    places = ("x", "y", "path")
    bare = {key: value for key, value in action.items() if key not in places}
    return describe(bare)


def _place(kind: str, action: Json) -> str:
    if action.get("ref") is not None:
        return f"on {action['ref']}"
    if kind == "zoom":
        corners = region(action.get("region"))
        return f"into {_pair(*corners[:2])} – {_pair(*corners[2:])}" if corners else ""
    if kind == "drag" and isinstance(path := action.get("path"), list):
        ends = [_point(point) for point in (path[:1] + path[-1:])]
        return " to ".join(_pair(*end) if end else "the pointer" for end in ends)
    point = _point(action)
    return f"at {_pair(*point)}" if point else ""


def _way(action: Json) -> str:
    dx, dy = _number(action.get("dx")) or 0, _number(action.get("dy")) or 0
    ways = [(dy, "down", "up"), (dx, "right", "left")]
    said = [f"{abs(by):g} px {plus if by > 0 else minus}" for by, plus, minus in ways if by]
    return ", ".join(said) or "by nothing"


def _chords(action: Json) -> str:
    chords = action.get("chords")
    said = ", ".join(_chord(chord) for chord in chords) if isinstance(chords, list) else ""
    repeat = action.get("repeat") or 1
    return said if repeat == 1 else f"{said} ×{repeat}"


def _chord(keys: Any) -> str:
    return "+".join(str(key) for key in keys) if isinstance(keys, list) else str(keys)


def _point(value: Any) -> list[float] | None:
    if not isinstance(value, dict):
        return None
    x, y = _number(value.get("x")), _number(value.get("y"))
    return None if x is None or y is None else [x, y]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Neither infinite nor NaN, which JSON has no words for.
    return value if abs(value) < 1e9 else None


def _pair(x: float, y: float) -> str:
    return f"{x:g}, {y:g}"


def _joined(words: list[str]) -> str:
    return shown(" ".join(word for word in words if word), _DESCRIBED_CHARS)
