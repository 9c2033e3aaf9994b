"""What a page may reach, and what a start URL or navigation may be."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies

from playwright.async_api import BrowserContext, Error, Page, Request, Route

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
        _ = parts.port  # raises ValueError for a port that is none
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


class Reach:
    """Keeps the pages of one session from the verifier's API and from private addresses.

    Playwright evaluates the patterns and asks us only about what matches: an ordinary page's
    requests cost nothing more. It does not offer redirects for interception, and a name's address
    is known only when its server answers: whoever shows a page asks `forbids` too.
    """

    def __init__(
        self,
        context: BrowserContext,
        *,
        own_origins: Iterable[str],
        allow_private: bool,
        report: Callable[..., None],
    ) -> None:
        """Prepare; call `enforce` before a page is opened, and `opened` after the start page was.

        Args:
            context: the session's browser context.
            own_origins: origins that may be reached although their addresses are private.
            allow_private: whether private addresses may be reached at all.
            report: takes the kind of an event, `blocked`, and its `url` and `reason`.
        """
        self._context = context
        self._own = set(own_origins)
        self._allow_private = allow_private
        self._report = report
        self._opening = True
        self._told: set[str] = set()
        self._private_names: set[str] = set()
        self._lookups: dict[str, asyncio.Task[None]] = {}
        self.refusal: str | None = None
        """Why the last navigation was refused; whoever starts one sets it to None."""

    async def enforce(self) -> None:
        """Watch the requests of the context from now on."""
        await self._context.route(_VERIFIER_API, _refuse)
        self._context.on("requestfailed", self._on_failed)
        if not self._allow_private:
            await self._context.route(_named_by_address(self._own), self._judge)
            self._context.on("request", self._on_request)

    def opened(self) -> None:
        """End the opening of the start page: where it redirected to was the task's own choice."""
        self._opening = False

    async def forbids(self, page: Page) -> bool:
        """Whether a page, or a frame in it, came to where it must not be after all."""
        urls = [frame.url for frame in page.frames]
        if any(_VERIFIER_API.match(url) for url in urls):
            return True
        for url in urls:
            if lookup := self._lookups.get(url.partition("#")[0]):
                await lookup  # the page is there, so its server's address is known
        return any(self._is_forbidden(url) for url in urls)

    async def stop(self) -> None:
        """End what still runs."""
        for lookup in self._lookups.values():
            lookup.cancel()
        await asyncio.gather(*self._lookups.values(), return_exceptions=True)

    def _is_forbidden(self, url: str) -> bool:
        if self._allow_private or origin_of(url) in self._own:
            return False
        host = urlsplit(url).hostname or ""
        return url.startswith("http") and (is_private(host) or host in self._private_names)

    async def _judge(self, route: Route) -> None:
        request = route.request
        if not self._is_forbidden(request.url):
            await route.fallback()
        elif request.is_navigation_request():
            self.refusal = _PRIVATE
            self._report("blocked", url=request.url, reason=_PRIVATE)
            await route.abort("aborted")  # stays where it is; other reasons show an error page
        else:
            origin = origin_of(request.url)
            if origin not in self._told and len(self._told) < _MAX_TOLD:
                self._told.add(origin)
                self._report("blocked", url=request.url, reason=_PRIVATE)
            await route.abort("blockedbyclient")

    def _on_request(self, request: Request) -> None:
        if not request.is_navigation_request() or request.url in self._lookups:
            return
        if self._opening:
            with contextlib.suppress(Error):  # the first request of a popup has no frame yet
                if not request.frame.parent_frame:
                    self._own.add(origin_of(request.url))
        host = urlsplit(request.url).hostname
        if host and origin_of(request.url) not in self._own and not is_address(host):
            lookup = asyncio.ensure_future(self._look_up(request, host))
            self._lookups[request.url] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(request.url, None))

    async def _look_up(self, request: Request, host: str) -> None:
        with contextlib.suppress(Error):
            response = await request.response()
            server = await response.server_addr() if response else None
            # A proxy's address says nothing about the site's.
            if server and is_private(server["ipAddress"]) and not getproxies():
                self._private_names.add(host)

    def _on_failed(self, request: Request) -> None:
        if request.is_navigation_request() and (reason := certificate_problem(request.failure)):
            self._report("blocked", url=request.url, reason=reason)


def is_address(host: str) -> bool:
    """Whether a host, as browsers write it, is an IP address or a name of this machine."""
    return bool(_ADDRESS.fullmatch(host))


def is_private(host: str) -> bool:
    """Whether a host, as browsers write it, is an address that is not the public internet's.

    So are loopback, private, link-local and reserved ones, and `localhost`. Another name is not
    resolved.
    """
    if not is_address(host):
        return False
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True  # localhost
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            address = IPv4Address(int(address) & 0xFFFFFFFF)
        elif address not in _PUBLIC_IPV6:
            return True
    return not address.is_global


def certificate_problem(error: str | None) -> str | None:
    """Return what is wrong with a server's certificate, if that is what an error is about."""
    code = re.search(r"ERR_(?:CERT|SSL)_\w+", error or "")
    if not code:
        return None
    words = _CERTIFICATE_PROBLEMS.get(code[0], "it cannot be used for a safe connection")
    return f"the server's certificate is not accepted: {words} ({code[0]})"


_PRIVATE = "it is at a private address, which this task's pages may not reach"
_MAX_TOLD = 1_000
_ADDRESS = re.compile(
    r"\d+(?:\.\d+){3}|\[?[0-9a-f:.]*:[0-9a-f:.]*(?:%.*)?\]?|(?:.*\.)?localhost\.?"
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_CERTIFICATE_PROBLEMS = {
    "ERR_CERT_AUTHORITY_INVALID": "it is self-signed or from an unknown authority",
    "ERR_CERT_COMMON_NAME_INVALID": "it is for another host name",
    "ERR_CERT_DATE_INVALID": "it has expired or is not valid yet",
}


def _named_by_address(own_origins: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for URLs whose host is an address, but for those of `own_origins`."""
    own = "|".join(re.escape(origin) for origin in sorted(own_origins))
    return re.compile(
        (f"^(?!(?:{own})(?:[/?#]|$))" if own else "^")
        + r"https?://(?:[^/?#@]*@)?(?:\d+(?:\.\d+){3}|\[[^\]]*\]|(?:[^/?#:@]*\.)?localhost\.?)"
        + r"(?::\d+)?(?:[/?#]|$)"
    )


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
