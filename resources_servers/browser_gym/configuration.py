"""The resources server's configuration, and what is made of it: browsers, sessions' settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from nemo_gym.base_resources_server import BaseResourcesServerConfig, ReverifyMode
from pydantic import Field, SecretStr

from resources_servers.browser_gym.browser.backend import BrowserBackend
from resources_servers.browser_gym.browser.capture import ImageFormat
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.browser.remote_cdp import RemoteCdp
from resources_servers.browser_gym.browser.session_providers.choose import session_provider
from resources_servers.browser_gym.browser.tabs import DialogPolicy
from resources_servers.browser_gym.judge_client import JudgeConfig
from resources_servers.browser_gym.session import SessionSettings
from resources_servers.browser_gym.task_row import ClockMode


class BrowserGymConfig(BaseResourcesServerConfig, JudgeConfig):
    """Configuration; every key is described in the README."""

    browsers: Literal["local", "remote_cdp"] = "local"
    session_provider: str = "static_cdp"
    session_provider_options: dict[str, Any] = Field(default={}, repr=False)
    max_sessions: int = Field(default=16, ge=1)
    browser_processes: int = Field(default=2, ge=1)
    queue_limit: int = Field(default=256, ge=0)
    queue_timeout_s: float = Field(default=120, gt=0)
    warm_contexts: int = Field(default=16, ge=0)
    recycle_after_sessions: int = Field(default=200, ge=0)
    recycle_above_mb: int = Field(default=0, ge=0)
    chromium_path: str | None = None
    viewport_width: int = 1280
    viewport_height: int = 720
    screenshot_format: ImageFormat = "jpeg"
    screenshot_quality: int = Field(default=85, ge=1, le=100)
    settle_max_ms: int = Field(default=3000, ge=0)
    observation_max_chars: int = Field(default=8000, ge=500)
    action_timeout_s: float = Field(default=15, gt=0)
    navigation_timeout_s: float = Field(default=30, gt=0)
    session_idle_timeout_s: float = Field(default=900, gt=0)
    dialog_policy: DialogPolicy = "accept"
    clock: ClockMode = "real"
    locale: str = "en-US"
    timezone: str = "UTC"
    allow_private_addresses: bool = False
    ignore_tls_errors: bool = False
    verify_timeout_s: float = Field(default=300, gt=0)
    auth_token: SecretStr | None = None
    max_request_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    demo_gym_port: int | None = Field(default=None, ge=0, le=65535)
    evidence_dir: str | None = "results/evidence"
    # The browser is gone when the rollout is over, but what is graded of it is kept.
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS


def browser_supply(config: BrowserGymConfig) -> Callable[[], BrowserBackend]:
    """Return what makes the source of browsers that the configuration names.

    Raises:
        ChromiumNotFound: there is no local browser.
        ValueError: there is no such session provider, or its options are wrong.
    """
    limits = {
        "max_sessions": config.max_sessions,
        "queue_limit": config.queue_limit,
        "queue_timeout_s": config.queue_timeout_s,
    }
    if config.browsers == "remote_cdp":
        provider = session_provider(config.session_provider, config.session_provider_options)
        return lambda: RemoteCdp(provider, **limits)
    chromium = find_chromium(config.chromium_path)
    return lambda: LocalPool(
        chromium,
        **limits,
        processes=config.browser_processes,
        warm_contexts=config.warm_contexts,
        recycle_after_sessions=config.recycle_after_sessions,
        recycle_above_mb=config.recycle_above_mb,
    )


def session_settings(config: BrowserGymConfig) -> SessionSettings:
    """Return how sessions behave."""
    return SessionSettings(
        image_format=config.screenshot_format,
        image_quality=config.screenshot_quality,
        settle_max_ms=config.settle_max_ms,
        action_timeout_s=config.action_timeout_s,
        navigation_timeout_s=config.navigation_timeout_s,
        dialog_policy=config.dialog_policy,
        idle_timeout_s=config.session_idle_timeout_s,
        clock=config.clock,
        locale=config.locale,
        timezone=config.timezone,
        allow_private_addresses=config.allow_private_addresses,
        ignore_tls_errors=config.ignore_tls_errors,
    )
