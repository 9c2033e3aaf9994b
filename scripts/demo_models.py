"""Which model a demo run asks: the scripted one, a provider's, or a simulator of its API."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Model:
    """A stack to start, and what to expect of its model.

    Attributes:
        about: for people: which model it is, and whether it is a real one.
        config: the stack's configuration file, from the project folder.
        agent: whom the rollouts go to.
        overrides: of the configuration.
        scripted: whether the model follows the demo tasks' scripts.
        simulator: what plays the provider, if anything does; it records all requests.
    """

    about: str
    config: str
    agent: str
    overrides: tuple[str, ...] = ()
    scripted: bool = True
    simulator: Any = None

    def refused(self) -> list[str]:
        """Return what the simulator had to refuse, each text once."""
        requests = self.simulator.requests if self.simulator else []
        return list(dict.fromkeys(r.error for r in requests if r.error))


SCRIPTED = Model(
    "the embedded scripted model; no provider is asked", "configs/demo.yaml", "browser_openai_agent"
)
SCRIPTED_SINGLE_TURN = Model(
    SCRIPTED.about, "configs/demo_single_turn.yaml", "browser_openai_single_turn_agent"
)
"""The same, where the environment server opens, grades and closes the sessions."""


@dataclass(frozen=True)
class _Provider:
    """How to reach a provider: names of the settings, and what a simulator's stack has for them."""

    name: str
    agent: str
    key: str
    variable: str
    base_url: str
    simulated: tuple[str, ...]
    also: str | None = None  # another setting that stands for a key

    def has_key(self) -> bool:
        """Whether there is a key, in the environment or in env.yaml."""
        names = (self.key, self.also) if self.also else (self.key,)
        return bool(os.environ.get(self.variable, "").strip()) or any(map(_setting, names))


PROVIDERS = {
    "openai": _Provider(
        "OpenAI",
        "browser_openai_agent",
        "cua_openai_api_key",
        "OPENAI_API_KEY",
        "policy_base_url",
        ("cua_openai_api_key=sk-simulator", "policy_model_name=gpt-5.4"),
    ),
    "anthropic": _Provider(
        "Anthropic",
        "browser_anthropic_sonnet_agent",
        "cua_anthropic_api_key",
        "ANTHROPIC_API_KEY",
        "anthropic_base_url",
        (
            "cua_anthropic_api_key=sk-ant-simulator",
            "anthropic_sonnet_model_name=claude-sonnet-5-5",
        ),
    ),
    "gemini": _Provider(
        "Gemini",
        "browser_gemini_agent",
        "cua_gemini_api_key",
        "GEMINI_API_KEY",
        "gemini_base_url",
        (
            "cua_gemini_api_key=AIza-simulator",
            "gemini_model_name=gemini-3.8-flash",
            "cua_gemini_vertex=false",
        ),
        also="cua_gemini_vertex",
    ),
}


@contextmanager
def chosen_model(provider: str | None, single_turn: bool = False) -> Iterator[Model]:
    """Give the model to ask; a simulator runs for the length of the block.

    Args:
        provider: a name in `PROVIDERS`; the scripted model by default.
        single_turn: whether the scripted model is behind the other environment server.
    """
    if provider is None:
        yield SCRIPTED_SINGLE_TURN if single_turn else SCRIPTED
        return
    chosen = PROVIDERS[provider]
    config = f"configs/{provider}.yaml"
    if chosen.has_key():
        about = f"{chosen.name}'s real API, with your key: this run costs money"
        yield Model(about, config, chosen.agent, scripted=False)
        return
    simulator = _simulator(provider)
    with simulator.serve() as url:
        yield Model(
            f"a simulator of {chosen.name}'s API on this machine, as there is no key "
            f"({chosen.variable}, or {chosen.key} in env.yaml); no provider is asked",
            config,
            chosen.agent,
            (*(f"++{one}" for one in chosen.simulated), f"++{chosen.base_url}={url}"),
            simulator=simulator,
        )


def _simulator(provider: str) -> Any:
    """Return a simulated API whose model follows the demo tasks' scripts."""
    # Imported here: only a run with a simulator needs them.
    from tests.simulators import anthropic_solutions, gemini_solutions, openai_solutions
    from tests.simulators.anthropic_api import AnthropicSimulator
    from tests.simulators.gemini_api import GeminiSimulator
    from tests.simulators.openai_api import OpenAISimulator
    from tests.simulators.solutions import load_solutions

    solutions = load_solutions()
    if provider == "openai":
        return OpenAISimulator(openai_solutions.solve(solutions))
    if provider == "anthropic":
        return AnthropicSimulator(anthropic_solutions.solve(solutions))
    return GeminiSimulator(gemini_solutions.solve(solutions))


def _setting(name: str) -> Any:
    """Return a setting of env.yaml, None if it is not there."""
    path = ROOT / "env.yaml"
    if not path.exists():
        return None
    try:
        return OmegaConf.select(OmegaConf.load(path), name)
    except OmegaConfBaseException:  # it refers to a variable that is not set
        return None
