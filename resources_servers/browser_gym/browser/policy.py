"""What a page may reach, and what a start URL or navigation may be."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies

from playwright.async_api import BrowserContext, Error, Page, Request, Route

from resources_servers.browser_gym.browser import gateway
from resources_servers.browser_gym.browser.addresses import (
    Place,
    is_address,
    is_private,
    matches,
    place_of,
    written,
)
from resources_servers.browser_gym.browser.gateway import Gateway
from resources_servers.browser_gym.redaction import hide_secrets

_ALLOWED_SCHEMES = ("http", "https", "about")


class UrlNotAllowed(ValueError):
    """A URL that a session may not open."""

    def __init__(self, reason: str) -> None:
        super().__init__(hide_secrets(reason))


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


def _any_spelling(text: str) -> str:
    """Return a pattern for `text` in which each character may be percent-encoded, also twice."""
    return "".join(f"(?:{re.escape(char)}|%(?:25)*{ord(char):02x})" for char in text)


# Pages choose the addresses: a pattern that takes more than linear time would hold up everybody.
_SLASH = rf"(?:{_any_spelling('/')}|{_any_spelling('\\')})"
_SLASHES = rf"(?:;[^/%?#]*)?{_SLASH}(?:\.?{_SLASH})*"
VERIFIER_API = re.compile(
    rf"^https?://[^?#]*{_SLASH}"
    + _SLASHES.join(_any_spelling(part) for part in ("api", "v1", "get_"))
    + f"(?:{_any_spelling('expected')}|{_any_spelling('actual')})"
    + _any_spelling("_state"),
    re.IGNORECASE,
)
"""What URLs of the verifier's API look like."""


class Reach:
    """Keeps the pages of one session from private addresses, and to the hosts a task allows.

    Playwright evaluates the patterns and asks us only about what matches: an ordinary page's
    requests cost nothing more. What it cannot tell (where a redirect or a name leads, web sockets,
    shared workers) the context's gateway asks when it connects. Without a gateway a page at a
    private address is noticed once it is there, so whoever shows a page asks `forbids` too.
    """

    def __init__(
        self,
        context: BrowserContext,
        *,
        own_origins: Iterable[str],
        allow_private: bool,
        report: Callable[..., None],
        allowed_hosts: Sequence[str] | None = None,
        gateway: Gateway | None = None,
    ) -> None:
        """Prepare; call `enforce` first, and `opening` and `opened` around opening the start page.

        Args:
            context: the session's browser context.
            own_origins: origins that may be reached although their addresses are private.
            allow_private: whether private addresses may be reached at all.
            report: takes the kind of an event, `blocked`, and its `url` and `reason`.
            allowed_hosts: what may be reached beside them, see `addresses.matches`; None for all.
            gateway: the context's way out, if it has one.
        """
        self._context = context
        self._own = set(own_origins)
        self._allow_private = allow_private
        self._report = report
        self._allowed_hosts = allowed_hosts
        self._gateway = gateway
        self._opening = False
        self._start: Request | None = None
        self._redirected: set[Place] = set()
        self._changed = asyncio.Event()
        self._told: set[Place] = set()
        self._public_names: set[str] = set()
        self._private_names: set[str] = set()
        self._lookups: dict[str, asyncio.Task[None]] = {}
        self.refusal: str | None = None
        """Why the last navigation was refused; whoever starts one sets it to None."""

    async def enforce(self) -> None:
        """Watch the requests of the context from now on."""
        await self._context.route(VERIFIER_API, _refuse)
        self._context.on("requestfailed", self._on_failed)
        if self._gateway:
            self._gateway.decide = self._decide
        if not self._allow_private or self._allowed_hosts is not None:
            judged = _any_but(self._own, by_address=self._allowed_hosts is None)
            await self._context.route(judged, self._judge)
            self._context.on("request", self._on_request)

    def opening(self) -> None:
        """Begin to open the start page: where it redirects to is the task's own choice.

        To a private address it may come from a private one only: no public site leads us there.
        """
        self._opening = True

    def opened(self) -> None:
        """End the opening of the start page."""
        self._opening = False
        self._changed.set()

    async def forbids(self, page: Page) -> bool:
        """Whether a page, or a frame in it, came to where it must not be after all."""
        self._tell_the_rest()
        urls = [frame.url for frame in page.frames]
        if any(VERIFIER_API.match(url) for url in urls):
            return True
        for url in urls:
            if lookup := self._lookups.get(url.partition("#")[0]):
                await lookup  # the page is there, so its server's address is known
        return any(self._refusal_of(url) for url in urls)

    async def stop(self) -> None:
        """End what still runs."""
        for lookup in self._lookups.values():
            lookup.cancel()
        await asyncio.gather(*self._lookups.values(), return_exceptions=True)

    def _refusal_of(self, url: str) -> str | None:
        """Return why a URL may not be reached, as far as it tells itself."""
        if not url.startswith("http") or origin_of(url) in self._own:
            return None
        return self._refusal_of_place(place_of(url))

    def _refusal_of_place(self, place: Place) -> str | None:
        host, _ = place
        if not self._allow_private and (is_private(host) or host in self._private_names):
            return PRIVATE
        if self._allowed_hosts is None or place in self._redirected:
            return None
        return None if matches(host, self._allowed_hosts) else NOT_ALLOWED

    async def _decide(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses that a place may be reached at; see `gateway.Decide`."""
        place = host, port
        own = not self._refusal_of_place(place) or await self._is_own(place)
        if not own and (reason := self._refusal_of_place(place)):
            raise PermissionError(reason)
        addresses = await gateway.resolve(host, port)
        public = [address for address in addresses if not is_private(address)]
        if public and not is_address(host):
            self._public_names.add(host)
        if public or self._allow_private or not addresses:
            return addresses if self._allow_private else public
        # A name that had a public address before and now has a private one has been rebound.
        if host in self._public_names or not await self._is_own(place):
            raise PermissionError(PRIVATE)
        return addresses

    async def _is_own(self, place: Place) -> bool:
        """Whether a place is the task's own, or becomes so as the start page redirects to it.

        The gateway is asked for the next page sooner than Playwright tells of the redirect.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REDIRECT_TOLD_S):
                while self._opening and not self._owns(place) and place not in self._redirected:
                    self._changed.clear()
                    await self._changed.wait()
        return self._owns(place)

    def _is_public(self, host: str) -> bool:
        return host in self._public_names or (is_address(host) and not is_private(host))

    def _owns(self, place: Place) -> bool:
        return place in map(place_of, self._own)

    async def _judge(self, route: Route) -> None:
        request = route.request
        reason = self._refusal_of(request.url)
        if reason is None:
            await route.fallback()
        elif request.is_navigation_request():
            self._tell(request, reason)
            await route.abort("aborted")  # stays where it is; other reasons show an error page
        else:
            self._tell(request, reason)
            await route.abort("blockedbyclient")

    def _tell(self, request: Request, reason: str) -> None:
        """Report a request that was refused; of what pages load, once for each place."""
        place = place_of(request.url)
        if request.is_navigation_request():
            self.refusal = reason
        elif place in self._told or len(self._told) >= _MAX_TOLD:
            return
        self._told.add(place)
        self._report("blocked", url=request.url, reason=reason)

    def _tell_the_rest(self) -> None:
        """Report what only the gateway knows of: web sockets, shared workers, prefetches."""
        refusals = self._gateway.refusals if self._gateway else {}
        for place, reason in refusals.items():
            if place not in self._told and len(self._told) < _MAX_TOLD:
                self._told.add(place)
                scheme = "https" if place[1] == 443 else "http"
                self._report(
                    "blocked", url=origin_of(f"{scheme}://{written(place)}"), reason=reason
                )

    def _on_request(self, request: Request) -> None:
        if not request.is_navigation_request():
            return
        # Redirects only: what a page's first script asks for may come before the opening ends too.
        if self._opening and (self._start is None or request.redirected_from is self._start):
            before, self._start = self._start, request
            self._redirected.add(place_of(request.url))
            if before is None or not self._is_public(place_of(before.url)[0]):
                self._own.add(origin_of(request.url))
            self._changed.set()
        host = urlsplit(request.url).hostname
        if self._gateway or not host or origin_of(request.url) in self._own or is_address(host):
            return
        if request.url in self._lookups:
            return
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
        failure = request.failure or ""
        if self._gateway and "ERR_SOCKS" in failure:
            if reason := self._gateway.refusal_of(request.url):
                self._tell(request, reason)
            elif request.is_navigation_request():
                self.refusal = self._gateway.explained(request.url, failure)
        if request.is_navigation_request() and (reason := certificate_problem(failure)):
            self._report("blocked", url=request.url, reason=reason)


def direct_places(origins: Iterable[str]) -> tuple[str, ...]:
    """Return, as host:port, those of a task's own origins that need no gateway.

    They are named by an address. Where a name leads may change, so that it is checked each time.
    """
    places = map(place_of, origins)
    return tuple(sorted({written(place) for place in places if is_address(place[0])}))


def certificate_problem(error: str | None) -> str | None:
    """Return what is wrong with a server's certificate, if that is what an error is about."""
    code = re.search(r"ERR_(?:CERT|SSL)_\w+", error or "")
    if not code:
        return None
    words = _CERTIFICATE_PROBLEMS.get(code[0], "it cannot be used for a safe connection")
    return f"the server's certificate is not accepted: {words} ({code[0]})"


PRIVATE = "it is at a private address, which this task's pages may not reach"
NOT_ALLOWED = "its host is not one of those that this task allows"
_MAX_TOLD = 1_000
_REDIRECT_TOLD_S = 5
_CERTIFICATE_PROBLEMS = {
    "ERR_CERT_AUTHORITY_INVALID": "it is self-signed or from an unknown authority",
    "ERR_CERT_COMMON_NAME_INVALID": "it is for another host name",
    "ERR_CERT_DATE_INVALID": "it has expired or is not valid yet",
}


def _any_but(own_origins: Iterable[str], *, by_address: bool) -> re.Pattern[str]:
    """Return a pattern for URLs but those of `own_origins`, or only those of an address."""
    own = "|".join(re.escape(origin) for origin in sorted(own_origins))
    others = f"^(?!(?:{own})(?:[/?#]|$))" if own else "^"
    if not by_address:
        return re.compile(others + "https?://")
    return re.compile(
        others
        + r"https?://(?:[^/?#@]*@)?(?:\d+(?:\.\d+){3}|\[[^\]]*\]|(?:[^/?#:@]*\.)?localhost\.?)"
        + r"(?::\d+)?(?:[/?#]|$)"
    )


async def _refuse(route: Route) -> None:
    await route.abort("blockedbyclient")
