"""The two bodies that seed a session, and what they call the rollout."""

from typing import Annotated, Any

from fastapi import Body
from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.rollout_correlation import maybe_rollout_id_from_run_body
from pydantic import Discriminator, Tag

from resources_servers.browser_gym.contract import SeedRequest
from resources_servers.browser_gym.verification.errors import InvalidTask


def _kind_of_seed(body: Any) -> str:
    typed = isinstance(body, dict) and "resources_session_id" in body
    return "typed" if typed or isinstance(body, ResourcesSeedSessionRequest) else "legacy"


SeedBody = Annotated[
    Annotated[ResourcesSeedSessionRequest, Tag("typed")] | Annotated[SeedRequest, Tag("legacy")],
    Discriminator(_kind_of_seed),
    Body(),
]
"""What seeds a session: a body of ours, or one of NeMo Gym's that names the session's id."""


def labels_of(body: SeedRequest) -> dict[str, str]:
    """Return what the rollout of a seed that is a task row, or part of one, is called.

    Raises:
        InvalidTask: the fields that NeMo Gym adds to a row are not as it writes them.
    """
    try:
        episode = maybe_rollout_id_from_run_body(body.model_extra or {})
    except (ValueError, TypeError) as error:
        raise InvalidTask(f"_ng_rollout_id, _ng_attempt_index: {error}") from error
    task = (body.verifier_metadata or {}).get("task_id")
    labels = {"episode_id": episode, "task_id": task}
    return {key: str(value) for key, value in labels.items() if value is not None}
