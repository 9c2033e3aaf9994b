"""Comparing a model's final answer, in words, with the text a task expects."""

import re
import unicodedata

# Other forms of the same character, and what is not seen.
_PLAIN = str.maketrans("’‘“”−‑", "''\"\"--", "\u00ad\u200b\u2060\ufeff")
_OPENING = "'\"“”„‘’«»`*_([{¿¡"
_CLOSING = "'\"“”„‘’«»`*_)]}.,;:!?…"
# What starts a number: `-5`, `.5`, `-.5`, but neither `A-5` nor `...5`.
_SIGN = re.compile(r"(?<![^\W_])(?:-\.?\d|(?<!\.)\.\d)")


def normalise(text: str) -> str:
    """Composes accents (NFC), folds case and makes each run of white space one space.

    Quotes, apostrophes, minus signs and hyphens become plain ones; soft hyphens and the like go.
    """
    return " ".join(unicodedata.normalize("NFC", text).translate(_PLAIN).casefold().split())


def contains(answer: str, wanted: str) -> bool:
    """Says whether a text occurs in the answer as words or numbers of their own.

    `12` is not in `112`, `12.5`, `3,120`, `12'500`, `-12` or `a12`, but is in `12%`, `$12` and
    `12.`; `Ada` is not in `Adam` but is in `Ada's`. Scripts written without spaces between words
    are held to the same rule, so a word inside a longer run of such letters is not found.
    """
    text = normalise(wanted)
    before = after = ""
    if re.match(r"\w", text):
        before = r"(?<!\w)"
    if re.match(r"\d", text):
        # A decimal or thousands separator, or a minus sign that is not a hyphen after a word.
        before += r"(?<!\d[.,'])(?<!(?<!\w)-)"
    if re.search(r"\w\Z", text):
        after = r"(?!\w)"
    if re.search(r"\d\Z", text):
        after += r"(?![.,']\d)"
    return re.search(before + re.escape(text) + after, normalise(answer)) is not None


def equals(answer: str, wanted: str) -> bool:
    """Says whether the whole answer is a text, ignoring case, spacing and punctuation around it."""
    return strip_punctuation(answer) == strip_punctuation(wanted)


def strip_punctuation(text: str) -> str:
    """Normalises and drops quotes, brackets, emphasis and sentence marks around a text.

    A leading point or sign stays, because `.5` and `-5` are not `5`.
    """
    return normalise(text).lstrip(_OPENING + " ").rstrip(_CLOSING + " ")


def bare(text: str) -> str:
    """Reduces a text to its words: NFKC, case folded, without quotes, punctuation and extra space.

    A mark between two digits (`3.5`), and a sign or point before a number, stays: it is part of the
    number. Elsewhere apostrophes and full stops vanish (`U.S.A.` is `usa`), and other marks
    separate words (`well-known` is `well known`).
    """
    text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    kept: list[str] = []
    for index, char in enumerate(text):
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        is_mark = char == "`" or unicodedata.category(char).startswith("P")
        if not is_mark or (before.isdigit() and after.isdigit()) or _SIGN.match(text, index):
            kept.append(char)
        elif char not in "'.":
            kept.append(" ")
    return " ".join("".join(kept).casefold().split())
