"""Settings and fixtures for the tests of this server."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from resources_servers.browser_gym.browser import capture, downloads, pulse, tabs
from resources_servers.browser_gym.tests.fake_gym import FakeGym, running_fake_gym
from resources_servers.browser_gym.verification import gym_client

# A busy machine is no fault of the code, so no example fails for having been slow.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def shared_gym() -> Iterator[FakeGym]:
    """One web gym for all tests: starting and stopping a server takes longer than most of them."""
    with running_fake_gym() as gym:
        yield gym


@pytest.fixture
def gym(shared_gym: FakeGym) -> FakeGym:
    """A web gym that nobody has asked anything, and that knows no reply."""
    shared_gym.reset()
    return shared_gym


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a web gym that fails again at once."""
    monkeypatch.setattr(gym_client, "_pause_s", lambda state: 0)


@pytest.fixture
def time_for_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step wait for what it downloads, however busy the machine is."""
    monkeypatch.setattr(downloads, "_WAIT_S", 60)


@pytest.fixture
def short_waits_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for what a page that hangs never gives."""
    monkeypatch.setattr(pulse, "BUSY_AFTER_S", 1)
    monkeypatch.setattr(pulse, "_RECHECK_S", 0.1)
    monkeypatch.setattr(capture, "SCREENSHOT_TIMEOUT_S", 0.5)
    monkeypatch.setattr(capture, "STORAGE_TIMEOUT_S", 1)
    monkeypatch.setattr(tabs, "TITLE_TIMEOUT_S", 0.5)
