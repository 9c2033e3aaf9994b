"""Requests to one other NeMo Gym server, with bounded retries and named failures."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from nemo_gym.server_utils import ServerClient, get_response_json, request
from nemo_gym.tool_access import DirectHTTPToolAccess

from responses_api_agents.browser_agent.failures import from_transport

_TRIES = 4
_DELAY_S = 0.5


class Transport:
    """Posts JSON to one server by its name in the configuration."""

    def __init__(
        self,
        client: ServerClient,
        server_name: str,
        timeout_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Post to `server_name` through NeMo Gym's shared client.

        Args:
            client: which knows the server.
            server_name: in the configuration.
            timeout_s: how long an answer may take, tries after a broken connection included; None
                for as long as the caller waits.
            headers: of each request.
        """
        self._client = client
        self._server_name = server_name
        self._timeout_s = timeout_s
        self._headers = headers or {}

    async def post(
        self, path: str, body: dict[str, Any], *, repeatable: bool = False
    ) -> tuple[int, Any]:
        """Post and return status and JSON answer (text if it is not JSON).

        Args:
            path: of the route.
            body: JSON.
            repeatable: whether the request may be sent again after a broken connection, when it
                may have arrived. A connection that was never made is always tried again.

        Raises:
            RolloutFailure: no answer after the last try.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(path, body, repeatable)
        except TimeoutError as error:
            raise from_transport(
                self._server_name, TimeoutError(f"no answer to {path} in {self._timeout_s:g} s")
            ) from error

    async def _post(self, path: str, body: dict[str, Any], repeatable: bool) -> tuple[int, Any]:
        for tries_left in reversed(range(_TRIES)):
            try:
                response = await self._send(path, body)
                try:
                    return response.status, await get_response_json(response)
                except ValueError:
                    return response.status, await response.text()
            except (aiohttp.ClientError, OSError) as error:
                unsent = isinstance(error, aiohttp.ClientConnectorError)
                if not tries_left or not (repeatable or unsent):
                    raise from_transport(self._server_name, error) from error
            await asyncio.sleep(_DELAY_S)
        raise AssertionError("unreachable")

    async def _send(self, path: str, body: dict[str, Any]) -> aiohttp.ClientResponse:
        # One try of NeMo Gym's own, which otherwise repeats a lost connection for ever.
        return await self._client.post(
            server_name=self._server_name,
            url_path=path,
            json=body,
            headers=dict(self._headers),  # NeMo Gym adds its own to it
            _max_connection_retries=1,  # type: ignore[call-arg]
        )


class GrantedTransport(Transport):
    """Posts JSON to the server that an environment server gave access to."""

    def __init__(
        self,
        access: DirectHTTPToolAccess,
        timeout_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Post with the address, cookies and headers of `access`; the others as above."""
        self._access = access
        self._server_name = access.name
        self._headers = headers or {}
        self._timeout_s = timeout_s

    async def _send(self, path: str, body: dict[str, Any]) -> aiohttp.ClientResponse:
        return await request(
            "POST",
            str(self._access.base_url).rstrip("/") + path,
            json=body,
            cookies=self._access.cookies,
            headers=self._headers | dict(self._access.headers),
            _internal=True,
            _max_connection_retries=1,
            _server_name=self._server_name,
        )
