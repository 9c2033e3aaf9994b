"""The contract between the remote backend and what lends it browsers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class RemoteSession:
    """A browser that was lent.

    Attributes:
        session_id: names it to `release`, in logs and in errors. Sessions with the same id are in
            the same browser, and share a connection to it.
        endpoint: its address for CDP: ws(s), or http(s) of Chromium's debugging port. Often
            secret, so it is never shown.
        headers: sent when connecting to it.
    """

    session_id: str
    endpoint: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class SessionProvider(Protocol):
    """Lends browsers.

    A class that satisfies this is offered to users by an entry point of the group
    `browser_gym.session_providers`, which is called with the options of the configuration.
    """

    async def acquire(self, labels: Mapping[str, str]) -> RemoteSession:
        """Return a browser for one session.

        It is never cancelled, but waited for two minutes at most: what comes later is released.

        Args:
            labels: what the rollout is called, for services that keep such things.

        Raises:
            PoolFull: the service has no browser free; `retry_after_s` if it says when.
            BrowserUnavailable: it cannot be reached, or refuses. With `retry_after_s`, it is asked
                again after so long.
        """
        ...

    async def release(self, session_id: str, *, broken: bool) -> None:
        """End what `acquire` returned; called once for each, and again only if it raises.

        Args:
            session_id: the lent browser's.
            broken: whether the browser could not be connected to, or has stopped answering.
        """
        ...

    async def close(self) -> None:
        """Free what the provider itself holds; nothing is called after it."""
        ...
