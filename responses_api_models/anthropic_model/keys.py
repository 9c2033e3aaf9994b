"""Key texts of Anthropic's tools ("ctrl+shift+t Return") to lists of key names, and back."""

from responses_api_models.anthropic_model.errors import Untranslatable

_MODIFIERS = {
    **dict.fromkeys(("ctrl", "control"), "Control"),
    "shift": "Shift",
    **dict.fromkeys(("alt", "option"), "Alt"),
    **dict.fromkeys(("super", "cmd", "command", "meta", "win", "windows"), "Meta"),
}
_MODIFIER_NAMES = {"Control": "ctrl", "Shift": "shift", "Alt": "alt", "Meta": "super"}


def parse_chords(text: str) -> list[list[str]]:
    """Return the chords of a text: blanks separate chords, `+` the keys of one.

    Raises:
        Untranslatable: The text is empty.
    """
    if len(text) == 1:
        return [[text]]  # a blank alone is the key, as is a plus
    chords = [parse_chord(part) for part in text.split()]
    if not chords:
        raise Untranslatable("'text' names no key")
    return chords


def parse_chord(text: str) -> list[str]:
    """Return the keys of one chord; a `+` at its end is the plus key."""
    if text in ("+", "++"):
        return ["+"]
    if text.endswith("+"):
        return [*text.rstrip("+").split("+"), "+"]
    return [key for key in text.split("+") if key]


def write_chords(chords: list[list[str]]) -> str:
    """Return the text of chords."""
    return " ".join("+".join(chord) for chord in chords)


def parse_modifiers(text: str) -> list[str]:
    """Return the canonical names of the modifiers in a text such as `ctrl+shift`.

    Raises:
        Untranslatable: One of them is no modifier.
    """
    names = [name for name in text.replace(" ", "+").split("+") if name]
    unknown = [name for name in names if name.lower() not in _MODIFIERS]
    if unknown:
        raise Untranslatable(
            f"only shift, ctrl, alt and super can be held during this action, not {unknown[0]!r}"
        )
    return [_MODIFIERS[name.lower()] for name in names]


def write_modifiers(modifiers: list[str]) -> str:
    """Return the text of canonical modifiers."""
    return "+".join(_MODIFIER_NAMES[name] for name in modifiers)


def is_modifier(key: str) -> bool:
    """Say whether a key name is one of a modifier."""
    return key.lower() in _MODIFIERS
