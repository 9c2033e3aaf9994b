"""Reports what became of the pages that tabs went to: an HTTP error, no answer, none yet."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Error, Page, Request, Response

from resources_servers.browser_gym.browser.gateway import Gateway
from resources_servers.browser_gym.browser.policy import certificate_problem

_ERROR_PAGE = "chrome-error://"
# A download, an answer without content, or another navigation came instead; not a failure.
_ABORTED = "net::ERR_ABORTED"
_WEB_SCHEMES = ("http", "https")
_FIRST_ERROR_STATUS = 400


class Loads:
    """Follows the navigations of a context's tabs; what frames in them load is not reported."""

    def __init__(
        self, context: BrowserContext, report: Callable[..., None], gateway: Gateway | None
    ) -> None:
        """Follow `context`.

        Args:
            context: the session's.
            report: `report(kind, **fields)` takes `http_error` and `load_failed`.
            gateway: the context's way out, which knows why what it was asked for failed.
        """
        self._report = report
        self._gateway = gateway
        self._under_way: dict[Request, Page | None] = {}
        self._failed: dict[Page, str] = {}
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failed)

    def under_way(self, page: Page) -> str | None:
        """Return the address that `page` goes to and that has not answered yet."""
        return next((r.url for r, of in self._under_way.items() if of is page), None)

    @property
    def of_new_tabs(self) -> list[str]:
        """The addresses whose first answer a tab needs to appear at all."""
        return [request.url for request, page in self._under_way.items() if page is None]

    def url_of(self, page: Page) -> str:
        """Return a page's address; behind the browser's error page, the one that failed."""
        if page.url.startswith(_ERROR_PAGE):
            return self._failed.get(page, page.url)
        return page.url

    def forget(self, page: Page) -> None:
        """Drop what is known of a page that is closed."""
        self._under_way = {r: of for r, of in self._under_way.items() if of is not page}
        self._failed.pop(page, None)

    def _on_request(self, request: Request) -> None:
        if not _is_of_tab(request):
            return
        page = _page_of(request)
        if page:  # it went on its way to an earlier one in vain
            self._under_way = {r: of for r, of in self._under_way.items() if of is not page}
        self._under_way[request] = page

    def _on_response(self, response: Response) -> None:
        request = response.request
        if not _is_of_tab(request):
            return
        self._under_way.pop(request, None)
        if response.status >= _FIRST_ERROR_STATUS:
            self._report("http_error", status=response.status, url=request.url)

    def _on_failed(self, request: Request) -> None:
        if not _is_of_tab(request):
            return
        self._under_way.pop(request, None)
        scheme = urlsplit(request.url).scheme
        reason = request.failure or "no reason given"
        if scheme not in _WEB_SCHEMES:
            reason = f"the browser has no program for {scheme}: addresses"
        elif reason == _ABORTED:
            return
        elif page := _page_of(request):
            self._failed[page] = request.url
        if self._gateway and "ERR_SOCKS" in reason:
            if self._gateway.refusal_of(request.url):
                return  # reported as blocked
            reason = self._gateway.explained(request.url, reason)
        if certificate_problem(reason) is None:  # that is reported as blocked
            self._report("load_failed", url=request.url, reason=reason)


def _is_of_tab(request: Request) -> bool:
    """Whether a request takes a tab, and not a frame in it, to another page."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame.parent_frame is None
    except Error:
        return True  # of a tab that is only just being opened


def _page_of(request: Request) -> Page | None:
    """Return a request's tab, or None as long as there is none."""
    try:
        return request.frame.page
    except Error:
        return None
