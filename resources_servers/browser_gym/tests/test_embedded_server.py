"""Apps within the caller's event loop, started and not started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from resources_servers.browser_gym.embedded_server import embedded


def app(events: list[str], fault: str | None = None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if fault:
            raise ValueError(fault)
        events.append("up")
        yield
        events.append("down")

    return FastAPI(lifespan=lifespan)


async def test_the_apps_lifespan_is_around_the_block() -> None:
    events: list[str] = []
    async with embedded(app(events)) as url, httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/docs")).status_code == 200
        assert events == ["up"]
    assert events == ["up", "down"]
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)


async def test_an_app_that_does_not_start_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        async with embedded(app([], "no disk")):
            pytest.fail("it is not up")
