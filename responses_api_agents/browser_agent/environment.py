"""The resources server, as an episode sees it."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any, Protocol

from responses_api_agents.browser_agent.adapters.base import Screen
from responses_api_agents.browser_agent.browser_queue import BrowserQueue
from responses_api_agents.browser_agent.failures import (
    NoFreeBrowser,
    RolloutFailure,
    from_environment,
)

logger = logging.getLogger(__name__)


class Post(Protocol):
    """Posts a JSON body to a path of one server; returns status and JSON answer.

    What is `repeatable` may be sent again after a broken connection, when it may have arrived.

    Raises:
        RolloutFailure: there was no answer.
    """

    async def __call__(
        self, path: str, body: dict[str, Any], *, repeatable: bool = False
    ) -> tuple[int, Any]:
        """Post."""
        ...


class Environment:
    """One session on a resources server. Use `open` first and `close` always.

    Attributes:
        queue_seconds: how long `open` waited for a browser, of which the server tells its part.
    """

    def __init__(self, post: Post, queue: BrowserQueue) -> None:
        """Talk to a resources server through `post`, and wait in `queue` for a browser."""
        self._post = post
        self._queue = queue
        self.queue_seconds = 0.0
        self._width = self._height = 0
        self._operations = 0
        self.env_id: str | None = None

    async def open(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Seed a session and return the server's answer.

        Args:
            fields: `start_url`, `viewport_width`, `viewport_height`, `verifier_metadata`.

        Raises:
            RolloutFailure: there is no browser, or the start page or task is unusable.
        """
        # Named by us, it can be seeded again and closed although an answer was lost.
        self.env_id = uuid.uuid4().hex
        body = fields | {"env_id": self.env_id}
        started = time.monotonic()

        async def ask() -> dict[str, Any]:
            asked = time.monotonic()
            answer = await self._call("/seed_session", body, repeatable=True)
            acquired_s = answer["timings_ms"].get("acquire", 0) / 1000
            self.queue_seconds = asked - started + acquired_s
            return answer

        try:
            return self._enter(await self._queue.ask(ask))
        except NoFreeBrowser:
            self.queue_seconds = time.monotonic() - started
            raise

    async def step(self, actions: list[dict[str, Any]]) -> dict[str, Any]:
        """Run a batch; repeated by the transport, it still runs once.

        Raises:
            RolloutFailure: the session or its browser is gone.
        """
        self._operations += 1
        body = {"env_id": self.env_id, "actions": actions, "operation_id": str(self._operations)}
        return await self._call("/step", body, repeatable=True)

    async def verify(self, row: dict[str, Any]) -> dict[str, Any]:
        """Grade; this ends the session. Repeated by the transport, it gives the same verdict.

        Raises:
            RolloutFailure: the verifier could not be asked.
        """
        graded = await self._call("/verify", row | {"env_id": self.env_id}, repeatable=True)
        self.env_id = None
        return graded

    async def close(self) -> None:
        """End the session if it is open; one that cannot be ended expires by itself."""
        if self.env_id is None:
            return
        env_id, self.env_id = self.env_id, None
        try:
            await self._call("/close", {"env_id": env_id}, repeatable=True)
        except RolloutFailure as failure:
            logger.warning("session %s could not be closed: %s", env_id, failure.reason)

    def screen(self, answer: dict[str, Any]) -> Screen:
        """Return what a seed or step answer shows."""
        return Screen(
            image=answer["screenshot"],
            media_type=answer["media_type"],
            width=self._width,
            height=self._height,
            url=answer["current_url"],
            tabs=answer["tabs"],
        )

    def _enter(self, answer: dict[str, Any]) -> dict[str, Any]:
        self.env_id = answer["env_id"]
        self._width, self._height = answer["viewport_width"], answer["viewport_height"]
        return answer

    async def _call(
        self, path: str, body: dict[str, Any], *, repeatable: bool = False
    ) -> dict[str, Any]:
        status, answer = await self._post(path, body, repeatable=repeatable)
        if status >= 400 or not isinstance(answer, dict):
            raise from_environment(status, answer)
        return answer


class SeededEnvironment(Environment):
    """A session that another has opened, and will have graded and closed."""

    def __init__(self, post: Post) -> None:
        """Talk to a resources server through `post`; nobody waits for a browser that is there."""
        super().__init__(post, BrowserQueue(0))

    async def open(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what the session shows, as the server's answer to a seed.

        Args:
            fields: none; the session has its task.

        Raises:
            RolloutFailure: the session is gone.
        """
        return self._enter(await self._call("/observation", fields, repeatable=True))

    async def close(self) -> None:
        """Leave the session as it is."""
