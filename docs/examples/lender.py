"""A source of browsers: each task goes to the machine that serves its app."""

from collections.abc import Mapping
from typing import Any

from resources_servers.browser_gym.browser.backend import BrowserUnavailable
from resources_servers.browser_gym.browser.session_providers.contract import RemoteSession


class Lender:
    """Lends browsers that run already, chosen by the beginning of the `task_id`.

    Its options: `{"machines": {"CRM-": "http://10.0.0.7:9222"}}`.
    """

    def __init__(self, options: Any) -> None:
        """Take the machines; a `ValueError` tells what is wrong with the configuration."""
        if not isinstance(options.get("machines"), dict):
            raise ValueError("machines: give {beginning of task ids: address of a browser}")
        self._machines: dict[str, str] = options["machines"]

    async def acquire(self, labels: Mapping[str, str]) -> RemoteSession:
        """Return the browser of the task's machine."""
        task_id = labels.get("task_id", "")
        for beginning, endpoint in self._machines.items():
            if task_id.startswith(beginning):
                # Sessions of one id share a connection to that browser.
                return RemoteSession(session_id=beginning, endpoint=endpoint)
        raise BrowserUnavailable(f"machines: none is for task {task_id!r}")

    async def release(self, session_id: str, *, broken: bool) -> None:
        """Nothing to do: the browsers are not ours to end."""

    async def close(self) -> None:
        """Nothing is held."""
