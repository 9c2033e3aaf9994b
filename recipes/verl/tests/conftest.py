"""Fixtures for the tests that need verl; without it they are left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

if importlib.util.find_spec("verl") is None:
    collect_ignore = [
        "test_advantage.py",
        "test_agent_loop.py",
        "test_configuration.py",
        "test_dataset.py",
        "test_environment_faults.py",
        "test_trainer.py",
    ]
else:
    collect_ignore = ["test_imports.py"]  # it needs the project's own Python


@pytest.fixture(scope="session")
def environment() -> Iterator[Any]:
    """One environment server for all tests that leave it as it was."""
    from recipes.verl.tests.rollouts import running_environment

    with running_environment() as running:
        yield running


@pytest.fixture(scope="session")
def processor() -> Any:
    """The processor of a tiny model."""
    from recipes.verl.tests.tiny_processor import tiny_processor

    return tiny_processor()
