"""Key names: every spelling providers use, mapped to the W3C names Playwright presses."""

from __future__ import annotations

MODIFIERS = ("Control", "Shift", "Alt", "Meta")


class UnknownKeyError(ValueError):
    """A key name nobody knows; the message names it, for the model to read."""


# canonical name -> other spellings, casefolded and without "_", "-" and blanks.
_ALIASES: dict[str, str] = {
    "Control": "ctrl control controll controlr ctl lctrl rctrl leftctrl rightctrl leftcontrol "
    "rightcontrol",
    "Shift": "shift shiftl shiftr lshift rshift leftshift rightshift",
    "Alt": "alt option opt altl altr lalt ralt leftalt rightalt",
    "AltGraph": "altgr altgraph isolevel3shift",
    "Meta": "meta cmd command super superl superr win windows os metal metar leftcmd rightcmd "
    "leftmeta rightmeta",
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


_WHITE_SPACE_KEYS = {" ": "Space", "\n": "Enter", "\r": "Enter", "\t": "Tab"}


def _build_table() -> dict[str, str]:
    table = {spelling: name for name, text in _ALIASES.items() for spelling in text.split(" ")}
    table |= {f"f{number}": f"F{number}" for number in range(1, 13)}
    for digit in range(10):
        # Playwright's Numpad0…9 are the keys without NumLock (Insert, End, …); models mean digits.
        table[f"kp{digit}"] = table[f"numpad{digit}"] = str(digit)
    return table


_TABLE = _build_table()


def normalize_key(name: str) -> str:
    """Return the W3C key name for any known spelling; a single character is itself.

    Raises:
        UnknownKeyError: nobody knows this key.
    """
    if name in _WHITE_SPACE_KEYS:
        return _WHITE_SPACE_KEYS[name]
    if len(name) == 1:
        return name
    folded = name.strip().strip("<>\"'").casefold()
    for separator in "_- ":
        folded = folded.replace(separator, "")
    if key := _TABLE.get(folded):
        return key
    if len(folded) == 1:
        return folded
    raise UnknownKeyError(f"unknown key {name!r}")


def normalize_chord(names: list[str]) -> list[str]:
    """Return a chord's W3C key names, modifiers first, in the order they go down.

    An upper-case letter beside Control, Alt or Meta is lowered: models write CTRL+A for what a
    person presses as ctrl and the a key, while "A" would add Shift.

    Raises:
        UnknownKeyError: one of the keys is unknown; nothing may be pressed then.
    """
    keys = [normalize_key(name) for name in names]
    modifiers = [key for key in keys if key in MODIFIERS]
    others = [key for key in keys if key not in MODIFIERS]
    if any(key in ("Control", "Alt", "Meta") for key in modifiers):
        others = [key.lower() if len(key) == 1 and key.isalpha() else key for key in others]
    return modifiers + others
