"""Requests to the environment server, each bounded in time, with named failures."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from recipes.verl.settings import Settings
from responses_api_agents.browser_agent.failures import from_transport

_TRIES = 4
_DELAY_S = 0.5


class HttpPost:
    """Posts JSON to the environment server."""

    def __init__(self, http: aiohttp.ClientSession, settings: Settings) -> None:
        """Post through `http`, to the address and within the times of `settings`."""
        self._http = http
        self._settings = settings
        token = settings.auth_token
        self._headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}

    async def __call__(
        self, path: str, body: dict[str, Any], *, repeatable: bool = False
    ) -> tuple[int, Any]:
        """Post and return status and JSON answer (text if it is not JSON).

        Args:
            path: of the route.
            body: JSON.
            repeatable: whether the request may be sent again after a broken connection, when it
                may have arrived. A connection that was never made is always tried again.

        Raises:
            RolloutFailure: no answer in time, or none after the last try.
        """
        limit = self._settings.timeout_s(path)
        try:
            async with asyncio.timeout(limit):
                return await self._post(path, body, repeatable)
        except TimeoutError as error:
            silent = TimeoutError(f"no answer to {path} in {limit:g} s")
            raise from_transport(self._settings.server_url, silent) from error

    async def _post(self, path: str, body: dict[str, Any], repeatable: bool) -> tuple[int, Any]:
        url = self._settings.server_url + path
        for tries_left in reversed(range(_TRIES)):
            try:
                async with self._http.post(url, json=body, headers=self._headers) as answer:
                    try:
                        return answer.status, await answer.json(content_type=None)
                    except ValueError:
                        return answer.status, await answer.text()
            except (aiohttp.ClientError, OSError) as error:
                unsent = isinstance(error, aiohttp.ClientConnectorError)
                if isinstance(error, TimeoutError) or not tries_left:
                    raise from_transport(url, error) from error
                if not (repeatable or unsent):
                    raise from_transport(url, error) from error
            await asyncio.sleep(_DELAY_S)
        raise AssertionError("unreachable")
