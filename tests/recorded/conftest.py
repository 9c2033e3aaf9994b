"""The recordings, downloaded when a test first needs them."""

import os

import pytest

from tests.apps.packages import DownloadFailed
from tests.recorded.archives import Exchange, load

REQUIRED = "BROWSER_GYM_RECORDED_REQUIRED"
"""Set in CI: the recordings must be there, so a failed download fails the tests instead."""


@pytest.fixture(scope="session")
def exchanges() -> list[Exchange]:
    """Every recorded answer."""
    try:
        return load()
    except DownloadFailed as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"the recordings could not be downloaded, and {REQUIRED} is not set: {error}")
