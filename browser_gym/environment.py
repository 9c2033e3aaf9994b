"""An environment server for the command line: one within this process, or one that runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from resources_servers.browser_gym.browser.capture import ImageFormat

if TYPE_CHECKING:
    from fastapi import FastAPI

Json = dict[str, Any]
TIMEOUT_S = 600
"""For one answer; the server has shorter limits of its own for everything but the queue."""


class CannotRun(Exception):
    """What was asked for could not be done, through no fault of the rollout; says what to do."""


class Environment:
    """Speaks with an environment server."""

    def __init__(self, http: httpx.AsyncClient, name: str) -> None:
        """Speak through `http`; `name` is what messages call the server."""
        self._http = http
        self._name = name

    async def post(self, path: str, body: Json) -> Json:
        """Post and return the answer.

        Raises:
            CannotRun: there was none, or an error.
        """
        try:
            answer = await self._http.post(path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CannotRun(f"{self._name}: {type(error).__name__}: {error}") from error
        try:
            content = answer.json()
        except ValueError:
            content = answer.text
        if answer.is_success and isinstance(content, dict):
            return content
        if answer.status_code in (401, 403):
            raise CannotRun(
                f"{self._name} asks for a token: set BROWSER_GYM_AUTH_TOKEN to the server's"
            )
        reason = content
        if isinstance(content, dict):
            reason = content.get("failure_reason") or content.get("detail") or content
        raise CannotRun(f"{path} answered HTTP {answer.status_code}: {str(reason)[:500]}")


@asynccontextmanager
async def environment(
    url: str | None, *, evidence: Path, image_format: ImageFormat = "jpeg"
) -> AsyncIterator[Environment]:
    """Yield an environment server: that at `url`, or else one of our own for the block.

    Args:
        url: of a running one.
        evidence: folder for what our own keeps of sessions that end.
        image_format: of our own's screenshots.

    Raises:
        CannotRun: there is no Chromium, `url` is no address, or the token is none.
    """
    async with AsyncExitStack() as stack:
        headers: dict[str, str] = {}
        transport = None
        if url is None:
            app = _app(evidence, image_format)
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        if token := os.environ.get("BROWSER_GYM_AUTH_TOKEN", "").strip():
            if not (token.isascii() and token.isprintable()):
                raise CannotRun("BROWSER_GYM_AUTH_TOKEN: has other characters than ASCII's")
            headers["authorization"] = f"Bearer {token}"
        try:
            # A proxy of the environment is for the internet, and would see the token.
            client = httpx.AsyncClient(
                base_url=url or "http://browser-gym",
                transport=transport,
                headers=headers,
                timeout=TIMEOUT_S,
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            raise CannotRun(f"{url}: {error}; give one such as http://127.0.0.1:12345") from error
        http = await stack.enter_async_context(client)
        yield Environment(http, url or "the environment server")


def _app(evidence: Path, image_format: ImageFormat) -> FastAPI:
    # Imported here, as it takes seconds.
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import DictConfig

    from resources_servers.browser_gym.app import BrowserGymConfig, BrowserGymServer

    base = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "browser_gym"}
    own = {"browser_processes": 1, "warm_contexts": 0, "evidence_dir": str(evidence)}
    config = BrowserGymConfig.model_validate(
        base | own | {"domain": "agent", "screenshot_format": image_format}
    )
    # Asks nobody: only a judge is another server.
    head = BaseServerConfig(host="127.0.0.1", port=1)
    client = ServerClient(head_server_config=head, global_config_dict=DictConfig({}))
    try:
        return BrowserGymServer(config=config, server_client=client).setup_webserver()
    except SystemExit as error:  # there is no Chromium
        raise CannotRun(" ".join(str(error).split())) from error
