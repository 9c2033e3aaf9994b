"""Key names: every spelling providers use, mapped to the W3C names Playwright presses."""

from __future__ import annotations

import string

MODIFIERS = ("Control", "Shift", "Alt", "Meta")
HIGH_FUNCTION_KEYS = frozenset(f"F{number}" for number in range(13, 25))

_PRINTED = frozenset(string.ascii_letters + string.digits + string.punctuation)


class UnknownKeyError(ValueError):
    """A key name nobody knows; the message names it, for the model to read."""


# canonical name -> other spellings, casefolded and without "_", "-" and blanks.
_ALIASES: dict[str, str] = {
    "Control": "ctrl control controll controlr ctl lctrl rctrl leftctrl rightctrl leftcontrol "
    "rightcontrol ctrlleft ctrlright controlleft controlright controlormeta",
    "Shift": "shift shiftl shiftr lshift rshift leftshift rightshift shiftleft shiftright",
    "Alt": "alt option opt altl altr lalt ralt leftalt rightalt altleft altright optionleft "
    "optionright",
    "AltGraph": "altgr altgraph isolevel3shift",
    "Meta": "meta cmd command super superl superr win windows os metal metar leftcmd rightcmd "
    "leftmeta rightmeta metaleft metaright winleft winright",
    "Enter": "enter return linefeed",
    "NumpadEnter": "kpenter numpadenter",
    "Escape": "esc escape",
    "Backspace": "backspace bksp",
    "Delete": "del delete kpdelete",
    "Insert": "ins insert kpinsert",
    "Tab": "tab",
    "Space": "space spacebar",
    "ArrowUp": "up arrowup uparrow kpup",
    "ArrowDown": "down arrowdown downarrow kpdown",
    "ArrowLeft": "left arrowleft leftarrow kpleft",
    "ArrowRight": "right arrowright rightarrow kpright",
    "PageUp": "pageup pgup prior kppageup kpprior",
    "PageDown": "pagedown pgdn pgdown next kppagedown kpnext",
    "Home": "home begin kphome",
    "End": "end kpend",
    "CapsLock": "capslock caps",
    "NumLock": "numlock",
    "ScrollLock": "scrolllock",
    "PrintScreen": "printscreen print prtsc prtscr sysrq",
    "Pause": "pause break",
    "ContextMenu": "contextmenu menu apps",
    "NumpadAdd": "kpadd numpadadd",
    "NumpadSubtract": "kpsubtract numpadsubtract",
    "NumpadMultiply": "kpmultiply numpadmultiply",
    "NumpadDivide": "kpdivide numpaddivide",
    "-": "minus hyphen dash",
    "+": "plus",
    "=": "equal equals",
    ",": "comma",
    ".": "period dot kpdecimal numpaddecimal",
    "/": "slash",
    "\\": "backslash",
    ";": "semicolon",
    ":": "colon",
    "'": "apostrophe quote singlequote",
    '"': "quotedbl doublequote",
    "`": "grave backtick backquote",
    "[": "bracketleft leftbracket",
    "]": "bracketright rightbracket",
    "{": "braceleft leftbrace",
    "}": "braceright rightbrace",
    "(": "parenleft leftparen",
    ")": "parenright rightparen",
    "_": "underscore",
    "?": "question",
    "!": "exclam exclamation",
    "@": "at",
    "#": "numbersign hash",
    "$": "dollar",
    "%": "percent",
    "^": "asciicircum caret",
    "&": "ampersand",
    "*": "asterisk",
    "<": "less",
    ">": "greater",
    "|": "bar pipe",
    "~": "asciitilde tilde",
}


_CHORDS = {"iso_left_tab": ["Shift", "Tab"]}  # X11's name of what the two together send
# With Shift, the same key gives another character if it goes by the name of its place.
_CODES = {letter: f"Key{letter.upper()}" for letter in string.ascii_lowercase}
_CODES |= {digit: f"Digit{digit}" for digit in string.digits}
_CODES |= {
    "`": "Backquote",
    "-": "Minus",
    "=": "Equal",
    "[": "BracketLeft",
    "]": "BracketRight",
    "\\": "Backslash",
    ";": "Semicolon",
    "'": "Quote",
    ",": "Comma",
    ".": "Period",
    "/": "Slash",
}
_WHITE_SPACE_KEYS = {" ": "Space", "\n": "Enter", "\r": "Enter", "\t": "Tab"}


def _build_table() -> dict[str, str]:
    table = {spelling: name for name, text in _ALIASES.items() for spelling in text.split(" ")}
    table |= {f"f{number}": f"F{number}" for number in range(1, 25)}
    for digit in range(10):
        # Playwright's Numpad0…9 are the keys without NumLock (Insert, End, …); models mean digits.
        table |= dict.fromkeys((f"kp{digit}", f"numpad{digit}", f"num{digit}"), str(digit))
        table[f"digit{digit}"] = str(digit)
    table |= {f"key{letter}": letter for letter in string.ascii_lowercase}
    return table


_TABLE = _build_table()


def normalize_key(name: str) -> str:
    """Return the W3C key name for any known spelling; a single character is itself.

    Raises:
        UnknownKeyError: nobody knows this key.
    """
    if name in _WHITE_SPACE_KEYS:
        return _WHITE_SPACE_KEYS[name]
    if len(name) == 1 and name.isprintable():
        return name
    folded = name.strip().strip("<>\"'").casefold()
    for separator in "_- ":
        folded = folded.replace(separator, "")
    if key := _TABLE.get(folded):
        return key
    if len(folded) == 1 and folded.isprintable():
        return folded
    raise UnknownKeyError(f"unknown key {name!r}")


def is_on_keyboard(key: str) -> bool:
    """Whether a key that `normalize_key` returned has a key of its own: "é" has none."""
    return len(key) > 1 or key in _PRINTED


def normalize_chord(names: list[str]) -> list[str]:
    """Return a chord's W3C key names, modifiers first, in the order they go down.

    An upper-case letter beside Control, Alt or Meta is lowered: models write CTRL+A for what a
    person presses as ctrl and the a key, while "A" would add Shift. With Shift, a key goes by the
    name of its place (`KeyA`, `Digit1`).

    Raises:
        UnknownKeyError: one of the keys is unknown, or has no key that can be held with others;
            nothing may be pressed then.
    """
    keys = [key for name in names for key in _CHORDS.get(name.casefold()) or [normalize_key(name)]]
    modifiers = [key for key in keys if key in MODIFIERS]
    others = [key for key in keys if key not in MODIFIERS]
    if any(key in ("Control", "Alt", "Meta") for key in modifiers):
        others = [key.lower() if len(key) == 1 and key.isalpha() else key for key in others]
    if "Shift" in modifiers:
        others = [_CODES.get(key, key) for key in others]
    chord = modifiers + others
    for key in chord:
        if len(chord) > 1 and not is_on_keyboard(key):
            raise UnknownKeyError(
                f"{key!r} has no key that can be held with others: press it alone, or type it"
            )
    return chord
