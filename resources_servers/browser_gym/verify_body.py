"""Bodies of `/verify`: NeMo Gym's, and what a browser session adds."""

from __future__ import annotations

from typing import Any

from fastapi.exceptions import RequestValidationError
from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from resources_servers.browser_gym.contract import EPISODE_KEY


class BrowserVerifyRequest(BaseVerifyRequest):
    """The rollout to grade: NeMo Gym's fields, the session and the model's answer.

    Attributes:
        deliverables_dir: reference to the evidence of a stored rollout; used if there is no
            `env_id`.
    """

    model_config = ConfigDict(extra="allow")

    verifier_metadata: dict[str, Any]
    env_id: str | None = None
    final_answer: str | None = None
    deliverables_dir: str | None = None


class BrowserVerifyResponse(BaseVerifyResponse):
    """The graded rollout; everything of the request is on it too.

    Attributes:
        partial_credit: share of assertions that passed.
        verification_result: per-assertion results.
        final_url: of the active tab at the end.
        final_local_storage: of the start origin, unless it is large.
        deliverables_dir: reference to the evidence, if it was kept.
        evidence_screenshots: files of the screenshots in it.
        category: the task's.
    """

    model_config = ConfigDict(extra="allow")

    partial_credit: float = 0.0
    verification_result: dict[str, Any] | None = None
    final_url: str | None = None
    final_local_storage: dict[str, str] | None = None
    deliverables_dir: str | None = None
    evidence_screenshots: list[str] = Field(default_factory=list)
    category: str | None = None


class _Episode(BaseModel):
    """What is looked at of what an agent tells of an episode."""

    model_config = ConfigDict(extra="allow")

    final_answer: str | None = None
    total_seconds: float = 0
    failure_kind: str | None = None
    failure_reason: str | None = None


def take_episode(response: dict[str, Any]) -> dict[str, Any]:
    """Take what an agent tells of the episode out of its response; nothing if it tells nothing.

    Raises:
        RequestValidationError: it is malformed.
    """
    told = response.pop(EPISODE_KEY, None) or {}
    try:
        return _Episode.model_validate(told).model_dump(exclude_unset=True)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        where = ("body", "response", EPISODE_KEY)
        raise RequestValidationError([d | {"loc": where + d["loc"]} for d in details]) from error
