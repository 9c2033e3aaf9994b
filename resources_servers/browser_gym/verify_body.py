"""Bodies of `/verify`: NeMo Gym's, and what a browser session adds."""

from __future__ import annotations

from typing import Any

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from pydantic import ConfigDict, Field


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
