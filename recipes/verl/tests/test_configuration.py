# pyright: reportMissingImports=false
"""The shipped configuration, as far as it can be checked without a GPU."""

from __future__ import annotations

from typing import Any

import hydra
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pydantic import ValidationError
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from recipes.verl.settings import Settings
from recipes.verl.tests.rollouts import ROOT


def test_verl_takes_the_configuration() -> None:
    with initialize_config_dir(str(ROOT / "recipes/verl"), version_base=None):
        config = compose("browser_gym_grpo", overrides=["data.train_batch_size=32"])
    assert config.data.train_batch_size == 32
    assert config.algorithm.gamma == 1.0  # verl's own
    assert not need_critic(config)
    validate_config(
        config=config, use_reference_policy=need_reference_policy(config), use_critic=False
    )
    rollout: Any = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert rollout.agent.default_agent_loop == "browser_gym"
    assert (ROOT / rollout.agent.agent_loop_config_path).exists()
    assert hydra.utils.get_class("recipes.verl.agent_loop.BrowserGymAgentLoop")


def test_the_agent_loops_settings_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_GYM_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("BROWSER_GYM_AUTH_TOKEN", "hush")
    entry: Any
    (entry,) = OmegaConf.load(ROOT / "recipes/verl/browser_gym_agent.yaml")
    settings = Settings.model_validate(OmegaConf.to_container(entry.settings, resolve=True))
    assert settings.server_url == "http://127.0.0.1:1"
    assert settings.auth_token
    assert settings.auth_token.get_secret_value() == "hush"
    assert settings.history.max_image_bytes is None


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"server_url": "127.0.0.1:1"}, "server_url\n.*no http or https address"),
        ({"policy": "functions"}, "policy\n.*qwen2_5_vl"),
        ({"polcy": "x"}, "polcy\n.*not permitted"),
        ({"on_fault": "zero"}, "on_fault\n.*'mask' or 'drop'"),
    ],
)
def test_what_is_wrong_with_the_settings_is_named(wrong: dict[str, Any], reason: str) -> None:
    good = {"server_url": "http://127.0.0.1:1", "policy": "qwen3_vl"}
    with pytest.raises(ValidationError, match=reason):
        Settings.model_validate(good | wrong)


def test_a_windowed_history_has_no_providers_limit() -> None:
    good: dict[str, Any] = {"server_url": "http://127.0.0.1:1", "policy": "qwen3_vl"}
    last = Settings.model_validate(good | {"history": {"policy": "last_n", "keep": 2}})
    assert last.history.max_image_bytes is None
    small = Settings.model_validate(good | {"history": {"max_image_bytes": 5}})
    assert small.history.max_image_bytes == 5
