"""Browsers that are there already: a list of their addresses."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from resources_servers.browser_gym.browser.session_providers.contract import RemoteSession
from resources_servers.browser_gym.browser.session_providers.settings import (
    Options,
    Text,
    cdp_endpoint,
    host_of,
    read_options,
)

# How long a browser that did not answer is passed over, if there are others.
SET_ASIDE_S = 30


class StaticOptions(Options):
    """Options of `static_cdp`; REMOTE_BROWSERS.md describes each."""

    endpoints: list[Annotated[Text, AfterValidator(cdp_endpoint)]] = Field(min_length=1)
    headers: dict[str, Text] = Field(default_factory=dict)
    browser_per_connection: bool = False


class StaticCdp:
    """Lends contexts of the browsers at some addresses, the least used first."""

    def __init__(self, options: Any) -> None:
        """Take the list.

        Raises:
            ValueError: an option is wrong.
        """
        self._options = read_options(StaticOptions, options)
        self._used: Counter[int] = Counter()
        self._broken_at: dict[int, float] = {}
        self._lent: dict[str, int] = {}  # index of the endpoint, by session
        self._numbers = itertools.count(1)

    async def acquire(self, labels: Mapping[str, str]) -> RemoteSession:
        """Return one of the browsers; see `SessionProvider`."""
        index = min(range(len(self._options.endpoints)), key=self._rank)
        endpoint = self._options.endpoints[index]
        session_id = f"{host_of(endpoint)} #{index}"
        if self._options.browser_per_connection:
            session_id += f".{next(self._numbers)}"
        self._used[index] += 1
        self._lent[session_id] = index
        return RemoteSession(session_id, endpoint, self._options.headers)

    async def release(self, session_id: str, *, broken: bool) -> None:
        """Count the session off, and pass a broken browser over for a while."""
        index = self._lent[session_id]
        if self._options.browser_per_connection:
            del self._lent[session_id]
        self._used[index] -= 1
        if broken:
            self._broken_at[index] = time.monotonic()

    async def close(self) -> None:
        """Nothing is held."""

    def _rank(self, index: int) -> tuple[bool, int]:
        broken_at = self._broken_at.get(index, -SET_ASIDE_S)
        return time.monotonic() - broken_at < SET_ASIDE_S, self._used[index]
