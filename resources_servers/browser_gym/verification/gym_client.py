"""Client of the HTTP API that a web gym serves its tasks and its verdicts with.

* POST (or GET) `{gym_url}/api/v1/get_expected_state`: the tasks, `{"verifiers": {task_id: {…}}}`.
* POST `{gym_url}/api/v1/get_actual_state`, a multipart form: the verdict on one final state.

Both only read, so a request that a busy or restarting gym turned away is safe to repeat. Every
fault is a `VerifierError` that says what the gym did.
"""

import asyncio
import json
import random
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.retry_after import retry_after_s
from resources_servers.browser_gym.verification.contract import Storage
from resources_servers.browser_gym.verification.errors import VerifierError

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
CONNECT_TIMEOUT_S = 10.0
MAX_RETRY_AFTER_S = 30.0
"""How much of a gym's Retry-After is honoured."""
_EXCERPT_CHARS = 200
_CONNECTION_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
_NEVER_PROXIED = ("127.0.0.1", "localhost", "[::1]")


class _Transient(VerifierError):
    """A fault that may be gone in a moment."""

    def __init__(self, reason: str, fault: Fault, retry_after_s: float | None = None) -> None:
        super().__init__(reason, fault)
        self.retry_after_s = retry_after_s


class GymClient:
    """Talks to any number of gyms through one connection pool.

    Args:
        timeout_s: Bound of one call with all its retries.
        max_attempts: How often a request is sent at most, when the gym answers 429, 502, 503 or
            504 or the connection fails.
    """

    def __init__(self, timeout_s: float = 300.0, max_attempts: int = 4) -> None:
        self._timeout_s = timeout_s
        self._max_attempts = max_attempts
        self._opened_http: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        """Closes the connections; harmless when there are none."""
        http, self._opened_http = self._opened_http, None
        if http is not None:
            await http.aclose()

    async def fetch_tasks(self, gym_url: str) -> dict[str, Any]:
        """Returns the gym's tasks as it tells them: {task_id: task}.

        Raises:
            VerifierError: The gym cannot be reached, refuses, or answers something else.
        """
        url = api_url(gym_url, "get_expected_state")
        response = await self._request("POST", url, headers={"Content-Type": "application/json"})
        if response.status_code == httpx.codes.METHOD_NOT_ALLOWED:
            response = await self._request("GET", url)
        body = _json_object(response)
        tasks = body.get("verifiers")
        if not isinstance(tasks, dict):
            raise VerifierError(
                f"{url} answered without a 'verifiers' object: {_excerpt(response)}"
            )
        return tasks

    async def grade(
        self, gym_url: str, task_id: str, final: Storage, initial: Storage, answer: str
    ) -> list[dict[str, Any]]:
        """Returns the gym's judged assertions, each with a `title` and a `result` of pass or fail.

        Args:
            gym_url: Address of the gym.
            task_id: The task, as the gym calls it.
            final: localStorage at the end.
            initial: localStorage at the start; sent if there is any.
            answer: The model's final message; sent if there is one.

        Raises:
            VerifierError: The gym gave no verdict.
        """
        url = api_url(gym_url, "get_actual_state")
        fields = {"taskId": task_id}
        if answer:
            fields["modelResponse"] = answer.encode("utf-8", "replace").decode("utf-8")
        files = {"localStorageDump": _json_file("localStorageDump", final)}
        if initial:
            files["initialState"] = _json_file("initialState", initial)
        response = await self._request("POST", url, data=fields, files=files)
        assertions = _json_object(response).get("assertions")
        if not isinstance(assertions, list):
            raise VerifierError(
                f"{url} answered without an 'assertions' list: {_excerpt(response)}"
            )
        for index, assertion in enumerate(assertions):
            if not (
                isinstance(assertion, dict)
                and isinstance(assertion.get("title"), str)
                and assertion.get("result") in ("pass", "fail")
            ):
                raise VerifierError(
                    f"{url}: assertions[{index}] lacks a title or a result of 'pass' or 'fail': "
                    f"{str(assertion)[:_EXCERPT_CHARS]}"
                )
        return assertions

    async def _request(self, method: str, url: str, **content: Any) -> httpx.Response:
        """Sends a request, again if the fault is transient; the answer is a success or a 405."""
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_attempt(self._max_attempts),
            wait=_pause_s,
            reraise=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                return await retrying(self._request_once, method, url, **content)
        except TimeoutError as error:
            raise VerifierError(
                f"{method} {url} gave no answer within {self._timeout_s:g} s", Fault.VERIFIER_SILENT
            ) from error

    async def _request_once(self, method: str, url: str, **content: Any) -> httpx.Response:
        request = f"{method} {url}"
        try:
            # Apart, as httpx logs the addresses it asks.
            address = httpx.URL(url)
            auth = (address.username, address.password) if address.userinfo else None
            address = address.copy_with(userinfo=b"")
            response = await self._http().request(method, address, auth=auth, **content)
        except _CONNECTION_ERRORS as error:
            unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise _Transient(
                f"{request}: {'could not connect' if unreachable else 'the connection broke'} "
                f"({type(error).__name__}: {error})",
                Fault.VERIFIER_UNREACHABLE if unreachable else Fault.VERIFIER_DROPPED,
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise VerifierError(f"{request} failed: {type(error).__name__}: {error}") from error
        fault = f"{request} answered HTTP {response.status_code}: {_excerpt(response)}"
        if response.status_code in TRANSIENT_STATUSES:
            raise _Transient(
                fault, Fault.VERIFIER_FAILED, retry_after_s(response.headers.get("retry-after"))
            )
        if response.is_redirect:
            raise VerifierError(
                f"{request} redirects to {response.headers.get('location', 'nowhere')}; "
                "give the gym's final address as gym_url"
            )
        if not response.is_success and response.status_code != httpx.codes.METHOD_NOT_ALLOWED:
            raise VerifierError(fault)
        return response

    def _http(self) -> httpx.AsyncClient:
        if self._opened_http is None:
            self._opened_http = httpx.AsyncClient(
                # The whole call is bounded by timeout_s; a gym that asks a model may think long.
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
                limits=httpx.Limits(max_connections=128, max_keepalive_connections=32),
                mounts={f"all://{host}": None for host in _NEVER_PROXIED},
            )
        return self._opened_http


def api_url(gym_url: str, call: str) -> str:
    """Returns the address of one of the gym's API calls."""
    return f"{gym_url.rstrip('/')}/api/v1/{call}"


def _json_file(name: str, storage: Storage) -> tuple[str, bytes, str]:
    return (f"{name}.json", json.dumps(dict(storage)).encode("ascii"), "application/json")


def _json_object(response: httpx.Response) -> dict[str, Any]:
    url = response.request.url
    if not response.is_success:
        raise VerifierError(f"{url} answered HTTP {response.status_code}: {_excerpt(response)}")
    try:
        body = json.loads(response.content, object_pairs_hook=_object_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise VerifierError(
            f"{url} answered something that is not JSON ({error}): {_excerpt(response)}"
        ) from error
    if not isinstance(body, dict):
        raise VerifierError(f"{url} answered JSON that is not an object: {_excerpt(response)}")
    return body


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses what would silently drop a task or an assertion's field."""
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return result


def _excerpt(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return repr(text[:_EXCERPT_CHARS]) if text else "(empty body)"


def _pause_s(state: RetryCallState) -> float:
    """How long to wait before the next attempt: what the gym asks for, or a growing random time."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _Transient) and error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    return random.uniform(0.5, 1.0) * 2 ** (state.attempt_number - 1)
