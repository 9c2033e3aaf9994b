"""Reads the numbers in an answer as people write them."""

import re
import unicodedata

_CURRENCY = "$€£¥₹₩₽₺₫₴₦₱₪₿"
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<!\d[.,'])                       # neither inside a word nor inside a number
    (?:(?<![)\]])(?P<sign>[-+]|(?:minus|negative)\ ))?
    (?:[{re.escape(_CURRENCY)}]\s?(?P<inner_sign>[-+])?)?
    (?P<digits>
        (?!0)\d{{1,3}}(?:\ \d{{3}})+(?!\d)(?:[.,]\d+)?   # 1 234 567,8
      | \d+(?:[.,']\d+)*                        # 1234, 1,234.5, 1.234,5
      | \.\d+
    )
    (?P<exponent>e[-+]?\d{{1,3}}(?!\w))?
    (?:[ -]?(?P<scale>{"|".join(_SCALES)})s?(?!\w))?
    """,
    re.VERBOSE,
)
_SAME = str.maketrans({"−": "-", "–": "-", "’": "'", "\u2044": "/", "\u066b": ".", "\u066c": ","})
_FRACTION = re.compile(r"(?:(?<![\d.,'])(\d{1,15})\s?)?([¼-¾⅐-⅞])")
_SUPERSCRIPT = re.compile(r"(?<=\d)(?=[¹²³⁰⁴-⁹⁻])")
_PERCENT = ("%", "percent", "per cent")


def numbers_in(answer: str, units: tuple[str, ...] = ()) -> list[float]:
    """Returns the numbers in an answer, in order; with `units`, those that have one of them.

    Signs (`minus` too), currency signs and thousands separators (`1,234.5`, `1.234,5`, `1 234,5`,
    `1'234`, `1,23,456`) are understood, powers of ten (`1.2e6`, `3 million`) and the signs of
    fractions (`2½`), but no other words (`two`) and no abbreviations (`3k`). A single comma before
    exactly three digits separates thousands, but for `0,125`; a single point is a decimal point.
    Numbers inside words (`H2O`, `A12`) are none. A unit stands behind its number or, such as a
    currency, before it; case does not matter, and `%` may be spelt out.
    """
    text = _plain(answer)
    wanted = [_plain(unit).strip() for unit in units]
    if "%" in wanted:
        wanted += _PERCENT
    found: list[float] = []
    for match in _NUMBER.finditer(text):
        if wanted and not _has_unit(text, match, wanted):
            continue
        signs = {match["sign"], match["inner_sign"]} - {"+", None}
        sign = -1.0 if signs else 1.0
        exponent = int((match["exponent"] or "e0")[1:]) + _SCALES.get(match["scale"], 0)
        found += [sign * float(f"{digits}e{exponent}") for digits in _decimals(match["digits"])]
    return found


def _plain(text: str) -> str:
    """Full-width digits, narrow spaces and the like become ordinary ones (NFKC)."""
    text = _FRACTION.sub(_in_decimals, _SUPERSCRIPT.sub("^", text))
    return unicodedata.normalize("NFKC", text).translate(_SAME).casefold()


def _in_decimals(match: re.Match[str]) -> str:
    return f"{int(match[1] or 0) + unicodedata.numeric(match[2]):.12g}"


def _has_unit(text: str, match: re.Match[str], units: list[str]) -> bool:
    before = text[max(0, match.start("digits") - 40) : match.start("digits")].rstrip(" -+")
    after = text[match.end() : match.end() + 40].lstrip().removeprefix("-")
    for unit in units:
        if after.startswith(unit) and not (_is_word(unit[-1]) and _is_word(after[len(unit) :][:1])):
            return True
        rest = before.removesuffix(unit)
        if rest != before and not (_is_word(unit[0]) and _is_word(rest[-1:])):
            return True
    return False


def _is_word(char: str) -> bool:
    return bool(re.match(r"\w", char))


def _decimals(digits: str) -> list[str]:
    """Returns the number that digits with separators are, or several if it is a list of them."""
    digits = digits.replace(" ", "")
    marks = [mark for mark in digits if mark in ".,'"]
    if not marks:
        return [digits]
    last = marks[-1]
    if len(set(marks)) == 2 and marks.count(last) == 1 and last != "'":
        thousands = marks[0]
        whole, _, part = digits.rpartition(last)
        if _is_grouped(whole, thousands):
            return [f"{whole.replace(thousands, '')}.{part}"]
    elif len(marks) == 1 and (last == "." or (last == "," and not _is_grouped(digits, ","))):
        return [digits.replace(",", ".")]
    elif len(set(marks)) == 1 and _is_grouped(digits, last):
        return [digits.replace(last, "")]
    return re.findall(r"\d+", digits)


def _is_grouped(digits: str, mark: str) -> bool:
    """Says whether thousands are set apart; in India (`1,23,456`) two digits at a time above."""
    first, *groups = digits.split(mark)
    sizes = [len(group) for group in groups]
    by_three = set(sizes) == {3} and 1 <= len(first) <= 3
    by_two = mark == "," and sizes[-1:] == [3] and set(sizes[:-1]) == {2} and 1 <= len(first) <= 2
    return (by_three or by_two) and not first.startswith("0")
