"""Reads the numbers in an answer as people write them."""

import re
import unicodedata

_CURRENCY = "$€£¥₹₩₽₺₫₴₦₱₪₿"
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<!\d[.,'])                       # neither inside a word nor inside a number
    (?:(?<![)\]])(?P<sign>[-+]))?
    (?:[{re.escape(_CURRENCY)}]\s?(?P<inner_sign>[-+])?)?
    (?P<digits>
        \d{{1,3}}(?:\ \d{{3}})+(?!\d)(?:[.,]\d+)?   # 1 234 567,8
      | \d+(?:[.,']\d+)*                        # 1234, 1,234.5, 1.234,5
      | \.\d+
    )
    (?P<exponent>e[-+]?\d{{1,3}}(?!\w))?
    """,
    re.VERBOSE,
)
_SAME = str.maketrans({"−": "-", "–": "-", "’": "'", "\u2044": "/"})
_PERCENT = ("%", "percent", "per cent")


def numbers_in(answer: str, units: tuple[str, ...] = ()) -> list[float]:
    """Returns the numbers in an answer, in order; with `units`, those that have one of them.

    Signs, currency signs and thousands separators (`1,234.5`, `1.234,5`, `1 234,5`, `1'234`) are
    understood, and powers of ten (`1.2e6`), but no words (`two`, `3 million`). A single comma
    before exactly three digits separates thousands, a single point is a decimal point. Numbers
    inside words (`H2O`, `A12`) are none. A unit stands behind its number or, such as a currency,
    before it; case does not matter, and `%` may be spelt out.
    """
    text = _plain(answer)
    wanted = [_plain(unit).strip() for unit in units]
    if "%" in wanted:
        wanted += _PERCENT
    found: list[float] = []
    for match in _NUMBER.finditer(text):
        if wanted and not _has_unit(text, match, wanted):
            continue
        sign = -1.0 if "-" in (match["sign"], match["inner_sign"]) else 1.0
        exponent = match["exponent"] or ""
        found += [sign * float(digits + exponent) for digits in _decimals(match["digits"])]
    return found


def _plain(text: str) -> str:
    """Full-width digits, narrow spaces and the like become ordinary ones (NFKC)."""
    return unicodedata.normalize("NFKC", text).translate(_SAME).casefold()


def _has_unit(text: str, match: re.Match[str], units: list[str]) -> bool:
    before = text[max(0, match.start("digits") - 40) : match.start("digits")].rstrip(" -+")
    after = text[match.end() : match.end() + 40].lstrip()
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
    digits = digits.replace(" ", "").replace("'", "")
    marks = [mark for mark in digits if mark in ".,"]
    if not marks:
        return [digits]
    last = marks[-1]
    if len(set(marks)) == 2 and marks.count(last) == 1:
        thousands = "," if last == "." else "."
        whole, _, part = digits.rpartition(last)
        if _is_grouped(whole, thousands):
            return [f"{whole.replace(thousands, '')}.{part}"]
    elif len(marks) == 1 and (last == "." or not _is_grouped(digits, ",")):
        return [digits.replace(",", ".")]
    elif len(set(marks)) == 1 and _is_grouped(digits, last):
        return [digits.replace(last, "")]
    return re.findall(r"\d+", digits)


def _is_grouped(digits: str, mark: str) -> bool:
    first, *groups = digits.split(mark)
    return 1 <= len(first) <= 3 and all(len(group) == 3 for group in groups)
