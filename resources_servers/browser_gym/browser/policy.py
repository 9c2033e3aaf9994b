"""What a page may reach, and what a start URL or navigation may be."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Page, Route

_ALLOWED_SCHEMES = ("http", "https", "about")


class UrlNotAllowed(ValueError):
    """A URL that a session may not open."""


def normalize_url(url: str) -> str:
    """Return `url` with https:// put before a bare host.

    Raises:
        UrlNotAllowed: not an http(s) or about:blank address.
    """
    url = url.strip()
    scheme = re.match(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(?!\d+(/|$))", url)
    if not scheme:
        url = f"https://{url}"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UrlNotAllowed(f"{url!r} is not an address: {error}") from error
    if parts.scheme.lower() not in _ALLOWED_SCHEMES or (
        parts.scheme == "about" and url != "about:blank"
    ):
        raise UrlNotAllowed(f"{url!r} cannot be opened: only http and https addresses can")
    if parts.scheme != "about" and not parts.hostname:
        raise UrlNotAllowed(f"{url!r} has no host name")
    return url


def origin_of(url: str) -> str:
    """Return scheme://host[:port] as storage origins are written; "null" for about:blank."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return "null"
    default = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, default) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


async def block_verifier(context: BrowserContext) -> None:
    """Keep the pages of a session from a web gym's verifier API, whatever host name it goes by.

    Without this a model could open `/api/v1/get_expected_state` and read the answers. Playwright
    does not offer redirects for interception: whoever shows a page asks `shows_verifier` too.
    """
    await context.route(_VERIFIER_API, _refuse)


def shows_verifier(page: Page) -> bool:
    """Whether a page, or a frame in it, came to the verifier API after all, by a redirect."""
    return any(_VERIFIER_API.match(frame.url) for frame in page.frames)


def _any_spelling(text: str) -> str:
    """Return a pattern for `text` in which each character may be percent-encoded."""
    return "".join(f"(?:{re.escape(char)}|%{ord(char):02x})" for char in text)


_VERIFIER_API = re.compile(
    r"^https?://[^?#]*/+"
    + r"/+".join(_any_spelling(part) for part in ("api", "v1"))
    + r"/+"
    + _any_spelling("get_")
    + f"(?:{_any_spelling('expected')}|{_any_spelling('actual')})"
    + _any_spelling("_state"),
    re.IGNORECASE,
)


async def _refuse(route: Route) -> None:
    await route.abort("blockedbyclient")
