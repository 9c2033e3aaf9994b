"""A service that creates and deletes browser sessions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import Field, field_validator

from resources_servers.browser_gym.browser.backend import BrowserUnavailable, PoolFull
from resources_servers.browser_gym.browser.session_providers.contract import RemoteSession
from resources_servers.browser_gym.browser.session_providers.settings import (
    Options,
    Text,
    bare_addresses,
    cdp_endpoint,
    read_options,
    with_environment,
)
from resources_servers.browser_gym.retry_after import retry_after_s

_LABELS, _ID = "{labels}", "{id}"
_GONE = {httpx.codes.NOT_FOUND, httpx.codes.GONE}
_NEVER_PROXIED = ("127.0.0.1", "localhost", "[::1]")
_EXCERPT_CHARS = 200


class Call(Options):
    """One request to the service.

    Attributes:
        url: where to; `{id}` in it is the session's id.
        method: HTTP method.
        body: JSON; `{id}` in a text is the session's id, and the text `{labels}` the labels.
    """

    url: Text
    method: str
    body: Any = None

    @field_validator("body")
    @classmethod
    def _filled(cls, body: Any) -> Any:
        return _mapped(body, with_environment)


class Create(Call):
    """The request for a new session."""

    method: str = "POST"


class Delete(Call):
    """The request that ends one."""

    method: str = "DELETE"


class RestOptions(Options):
    """Options of `rest`; REMOTE_BROWSERS.md describes each."""

    create: Create
    delete: Delete | None = None
    endpoint: str
    id: str = "id"
    headers: dict[str, Text] = Field(default_factory=dict)
    connect_headers: dict[str, Text] = Field(default_factory=dict)
    timeout_s: float = Field(default=60, gt=0, le=120)

    @field_validator("endpoint", "id")
    @classmethod
    def _compiles(cls, query: str) -> str:
        try:
            jmespath.compile(query)
        except JMESPathError as error:
            raise ValueError(f"is no JMESPath: {error}") from None
        return query


class Rest:
    """Lends browsers of a service that has a REST API."""

    def __init__(self, options: Any) -> None:
        """Read the options; nothing is asked yet.

        Raises:
            ValueError: an option is wrong.
        """
        self._options = read_options(RestOptions, options)
        self._opened: httpx.AsyncClient | None = None

    async def acquire(self, labels: Mapping[str, str]) -> RemoteSession:
        """Create a session; see `SessionProvider`."""
        answer = await self._send(self._options.create, labels=labels)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise PoolFull(_fault(answer), _pause(answer))
        if not answer.is_success:
            raise BrowserUnavailable(_fault(answer), _pause(answer))
        session_id = _found(answer, self._options.id)
        if not isinstance(session_id, str | int):
            raise BrowserUnavailable(self._lacks(answer, "id"))
        session_id = str(session_id)
        try:
            endpoint = cdp_endpoint(_found(answer, self._options.endpoint))
        except ValueError:
            await self.release(session_id, broken=True)
            raise BrowserUnavailable(self._lacks(answer, "endpoint")) from None
        return RemoteSession(session_id, endpoint, self._options.connect_headers)

    async def release(self, session_id: str, *, broken: bool) -> None:
        """Delete a session; one that is gone already is deleted.

        Raises:
            PoolFull: too many requests.
            BrowserUnavailable: the service cannot be reached, or refuses.
        """
        if self._options.delete is None:
            return  # it ends when its connection does
        answer = await self._send(self._options.delete, session_id=session_id)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise PoolFull(_fault(answer), _pause(answer))
        if not answer.is_success and answer.status_code not in _GONE:
            raise BrowserUnavailable(_fault(answer), _pause(answer))

    async def close(self) -> None:
        """Close the connections to the service."""
        opened, self._opened = self._opened, None
        if opened:
            await opened.aclose()

    async def _send(
        self, call: Call, *, session_id: str = "", labels: Mapping[str, str] | None = None
    ) -> httpx.Response:
        def fill(text: str) -> Any:
            return dict(labels or {}) if text == _LABELS else text.replace(_ID, session_id)

        body = _mapped(call.body, fill)
        url = call.url.replace(_ID, quote(session_id, safe=""))
        try:
            return await self._http().request(
                call.method, url, **({} if body is None else {"json": body})
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BrowserUnavailable(
                bare_addresses(f"{call.method} {url} failed: {type(error).__name__}: {error}")
            ) from error

    def _http(self) -> httpx.AsyncClient:
        if self._opened is None:
            self._opened = httpx.AsyncClient(
                headers=self._options.headers,
                timeout=self._options.timeout_s,
                mounts={f"all://{host}": None for host in _NEVER_PROXIED},
            )
        return self._opened

    def _lacks(self, answer: httpx.Response, option: str) -> str:
        query = getattr(self._options, option)
        return (
            f"{_name(answer)} answered without what session_provider_options.{option} looks for "
            f"({query}); the answer has {_shape(answer)}"
        )


def _mapped(value: Any, change: Any) -> Any:
    """Return JSON with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value


def _found(answer: httpx.Response, query: str) -> Any:
    try:
        return jmespath.search(query, answer.json())
    except (ValueError, JMESPathError):  # no JSON, or of another shape
        return None


def _shape(answer: httpx.Response) -> str:
    """Tell what an answer holds, without its values: they may be secret."""
    try:
        body = answer.json()
    except ValueError:
        return "no JSON"
    if isinstance(body, dict):
        return f"the fields {', '.join(map(repr, body)) or '(none)'}"
    return f"a JSON {type(body).__name__}"


def _name(answer: httpx.Response) -> str:
    return bare_addresses(f"{answer.request.method} {answer.request.url}")


def _fault(answer: httpx.Response) -> str:
    text = " ".join(answer.text.split())[:_EXCERPT_CHARS]
    return (
        f"{_name(answer)} answered HTTP {answer.status_code}: {bare_addresses(text) or '(empty)'}"
    )


def _pause(answer: httpx.Response) -> float | None:
    return retry_after_s(answer.headers.get("retry-after"))
