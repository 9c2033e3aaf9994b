"""What the translation needs to know beside the request."""

from dataclasses import dataclass, field

from responses_api_models.gemini_model.actions import Defaults
from responses_api_models.gemini_model.functions import FunctionSet


class InvalidRequest(ValueError):
    """A request that cannot be translated. The text names the field and what is wrong with it."""


@dataclass(frozen=True)
class Settings:
    """Which model is asked, and how.

    Attributes:
        model: The model's name.
        functions: The set of predefined functions it has.
        excluded_functions: Predefined functions it must not call; those the set lacks are ignored.
        detect_prompt_injection: Have screenshots searched for hidden instructions.
        disabled_safety_policies: Names of built-in safety policies to turn off.
        include_thoughts: Ask for summaries of the model's thoughts.
        defaults: What calls mean that leave something out.
    """

    model: str
    functions: FunctionSet
    excluded_functions: frozenset[str] = frozenset()
    detect_prompt_injection: bool = False
    disabled_safety_policies: tuple[str, ...] = ()
    include_thoughts: bool = True
    defaults: Defaults = field(default_factory=Defaults)
