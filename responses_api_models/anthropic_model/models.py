"""What is known of each model by its name: its computer tool, image limits and thinking rules."""

import re
from dataclasses import dataclass

from responses_api_models.anthropic_model.images import ImageLimits
from responses_api_models.anthropic_model.settings import ComputerTool

_NAME = re.compile(
    r"claude-(?P<family>[a-z]+)-(?P<major>\d+)(?:-(?P<minor>\d{1,2}))?(?!\d)"
    r"|claude-(?P<old_major>\d+)(?:-(?P<old_minor>\d))?-(?P<old_family>[a-z]+)"
)
_SMALL = ImageLimits(long_edge=1568, tokens=1568)
_LARGE = ImageLimits(long_edge=2576, tokens=4784)


@dataclass(frozen=True)
class ModelFacts:
    """What a model takes.

    Attributes:
        computer_tool: The newest computer tool that it takes.
        image_limits: The largest image that it sees unscaled.
        binds_thinking: Whether it checks that nothing before a thinking block has changed.
    """

    computer_tool: ComputerTool
    image_limits: ImageLimits
    binds_thinking: bool


def facts_of(model: str) -> ModelFacts:
    """Return what is known of a model; a name that tells no version counts as the newest."""
    match = _NAME.search(model)
    if match is None:
        return ModelFacts("computer_toolset_20260801", _LARGE, False)
    family = match["family"] or match["old_family"]
    version = (
        int(match["major"] or match["old_major"]),
        int(match["minor"] or match["old_minor"] or 0),
    )
    large = version >= (5, 0) or (family == "opus" and version >= (4, 7))
    return ModelFacts(
        computer_tool=_computer_tool(family, version),
        image_limits=_LARGE if large else _SMALL,
        binds_thinking=family in ("fable", "opus", "sonnet") and version >= (5, 1),
    )


def _computer_tool(family: str, version: tuple[int, int]) -> ComputerTool:
    if version >= (5, 0) or (family == "opus" and version >= (4, 8)):
        return "computer_toolset_20260801"
    if (family == "opus" and version >= (4, 5)) or (family == "sonnet" and version >= (4, 6)):
        return "computer_20251124"
    return "computer_20250124" if version >= (3, 7) else "computer_20241022"
