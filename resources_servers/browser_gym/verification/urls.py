"""Equality of web addresses that differ only in how they are written."""

import contextlib
import re
import string
from urllib.parse import quote, urlsplit

_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~")


def same_address(left: str, right: str) -> bool:
    """Says whether two addresses are the same one.

    Case of scheme and host, a default port, an empty path, `.` and `..` segments, an empty
    fragment and the way characters are escaped do not matter. Everything else does: the query with
    its order, a slash at the end of a path, the fragment, which many apps keep their place in.
    """
    return _normal(left) == _normal(right)


def _normal(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return (url,)
    if parts.scheme not in ("http", "https"):
        return (url.strip(),)
    host = (parts.hostname or "").rstrip(".")
    if not host.isascii():
        with contextlib.suppress(UnicodeError):
            host = host.encode("idna").decode("ascii")
    default = {"http": 80, "https": 443}[parts.scheme]
    user = parts.netloc.rpartition("@")[0]
    place = f"{user}@{host}:{port or default}"
    path = "/".join(_without_dots(parts.path.split("/"))) or "/"
    return (parts.scheme, place, _escaped(path), _escaped(parts.query), _escaped(parts.fragment))


def _without_dots(segments: list[str]) -> list[str]:
    kept: list[str] = []
    for index, segment in enumerate(segments):
        if segment not in (".", ".."):
            kept.append(segment)
            continue
        if segment == ".." and len(kept) > 1:
            kept.pop()
        if index == len(segments) - 1:
            kept.append("")
    return kept


def _escaped(text: str) -> str:
    """Escapes what has to be, and nothing that need not be, with capital digits."""
    quoted = quote(text, safe="%" + string.punctuation)
    return re.sub("%[0-9A-Fa-f]{2}", _escape, quoted)


def _escape(match: re.Match[str]) -> str:
    char = chr(int(match[0][1:], 16))
    return char if char in _PLAIN else match[0].upper()
