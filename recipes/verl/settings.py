"""Settings of the agent loop; every key is described in the README."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from responses_api_agents.browser_agent.adapters.history import HistoryPolicy
from responses_api_agents.browser_agent.policies import policies

TOKEN_VARIABLE = "BROWSER_GYM_AUTH_TOKEN"


def _token_of_environment() -> SecretStr | None:
    token = os.environ.get(TOKEN_VARIABLE)
    return SecretStr(token) if token else None


class Settings(BaseModel):
    """How rollouts are made; times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    server_url: str
    policy: str
    auth_token: SecretStr | None = Field(default_factory=_token_of_environment)
    instructions: str | None = None
    history: HistoryPolicy = HistoryPolicy(max_image_bytes=None)
    max_steps: int = Field(default=30, ge=1)
    max_reply_tokens: int = Field(default=1024, ge=1)
    loop_limit: int | None = Field(default=10, ge=2)
    run_timeout_s: float = Field(default=900, gt=0)
    queue_timeout_s: float | None = Field(default=3600, gt=0)
    seed_timeout_s: float = Field(default=180, gt=0)
    step_timeout_s: float = Field(default=120, gt=0)
    verify_timeout_s: float = Field(default=360, gt=0)
    close_timeout_s: float = Field(default=30, gt=0)
    resamples: int = Field(default=1, ge=0)
    resample_delay_s: float = Field(default=1, ge=0)
    on_fault: Literal["mask", "drop"] = "mask"

    @field_validator("server_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("this is no http or https address")
        return url.rstrip("/")

    @field_validator("policy")
    @classmethod
    def _writes_calls_in_text(cls, name: str) -> str:
        usable = [known for known, family in policies().items() if not family.tools(1280, 720)]
        if name not in usable:
            raise ValueError(f"it must write its calls in text, as these do: {', '.join(usable)}")
        return name

    @field_validator("history")
    @classmethod
    def _has_no_providers_limit(cls, history: HistoryPolicy) -> HistoryPolicy:
        """Leave images alone unless it is asked for: there is no provider that refuses them."""
        if "max_image_bytes" in history.model_fields_set:
            return history
        return history.model_copy(update={"max_image_bytes": None})

    def timeout_s(self, path: str) -> float:
        """Return how long a request to a route of the environment may take."""
        return {
            "/seed_session": self.seed_timeout_s,
            "/step": self.step_timeout_s,
            "/verify": self.verify_timeout_s,
            "/close": self.close_timeout_s,
        }[path]
