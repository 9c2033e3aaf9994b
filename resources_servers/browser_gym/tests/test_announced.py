"""What is announced is waited for until it is told."""

import asyncio

import pytest

from resources_servers.browser_gym.browser import announced


async def test_waits_for_as_many_as_are_announced() -> None:
    windows = announced.Announced()
    windows.tell()  # one that was not announced stands for none to come
    windows.announce()
    windows.announce()
    waiting = asyncio.ensure_future(windows.all_told())
    for _ in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        windows.tell()
    assert await waiting
    assert not await windows.all_told()


async def test_gives_up_what_is_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced, "_SILENCE_S", 0.01)
    windows = announced.Announced()
    windows.announce()
    assert await windows.all_told()
    assert not await windows.all_told()
