"""The documents list every key that can be set."""

from pathlib import Path

from nemo_gym.base_resources_server import BaseResourcesServerConfig

from resources_servers.browser_gym.configuration import BrowserGymConfig
from resources_servers.browser_gym.task_row import BrowserStart
from tests.documented import first_column

SERVER = Path(__file__).resolve().parents[1]


def test_the_readme_lists_the_configuration() -> None:
    known = set(BrowserGymConfig.model_fields)
    listed = first_column(SERVER / "README.md", "key")
    assert known - BaseResourcesServerConfig.model_fields.keys() <= listed <= known


def test_tasks_lists_how_a_browser_may_start() -> None:
    assert first_column(SERVER / "TASKS.md", "key") == BrowserStart.model_fields.keys()
