"""What a request offers the model: the computer or browser tool, function tools, and the choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from responses_api_models.anthropic_model import browser_actions, computer_actions
from responses_api_models.anthropic_model.errors import BadRequest, Untranslatable
from responses_api_models.anthropic_model.images import Frame, ImageLimits
from responses_api_models.anthropic_model.models import ModelFacts
from responses_api_models.anthropic_model.settings import ComputerTool, RequestSettings

Json = dict[str, Any]

COMPUTER_TOOL_TYPES = ("computer_use_preview", "computer")
LEGACY_NAME = "computer"
BETAS: dict[ComputerTool, str] = {
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
TOOLSET_NAMES: dict[ComputerTool, str] = {
    "computer_toolset_20260801": "computer",
    "browser_toolset_20260801": "browser",
}


@dataclass(frozen=True)
class Offer:
    """What a request offers.

    Attributes:
        limits: The largest image that the model sees unscaled.
        tool: The computer or browser tool, if the request wants one.
        frame: The viewport, likewise.
        functions: Names of the function tools.
        entries: `tools` of the request to Anthropic.
    """

    limits: ImageLimits
    tool: ComputerTool | None
    frame: Frame
    functions: frozenset[str]
    entries: list[Json]

    @property
    def toolset_name(self) -> str | None:
        """The family that a toolset's calls and results name; None for the older tools."""
        return None if self.tool is None else TOOLSET_NAMES.get(self.tool)

    def is_hosted(self, block: Json) -> bool:
        """Say whether a `tool_use` block is a call of a computer or browser tool."""
        legacy = block.get("name") == LEGACY_NAME and "computer" not in self.functions
        return block.get("toolset_name") is not None or legacy

    def decode(self, block: Json) -> Json:
        """Return the canonical action of a hosted `tool_use` block.

        Raises:
            Untranslatable: It has none.
        """
        if not isinstance(block.get("input"), dict):
            raise Untranslatable(f"its input must be an object, not {block.get('input')!r:.100}")
        name, fields = action_of(block)
        if block.get("toolset_name") == "browser":
            return browser_actions.decode(name, fields, self.frame)
        return computer_actions.decode(name, fields, self.frame)

    def encode(self, action: Json) -> Json:
        """Return `name`, `input` and the like of the `tool_use` block for a canonical action.

        Raises:
            Untranslatable: The tool offered has nothing like it.
        """
        module = browser_actions if self.toolset_name == "browser" else computer_actions
        name, fields = module.encode(action, self.frame)
        if self.toolset_name is None:
            return {"name": LEGACY_NAME, "input": {"action": name, **fields}}
        return {"name": name, "input": fields, "toolset_name": self.toolset_name}


def action_of(block: Json) -> tuple[str, Json]:
    """Return the native action's name and fields of a hosted `tool_use` block."""
    fields = block.get("input")
    fields = dict(fields) if isinstance(fields, dict) else {}
    if block.get("toolset_name") is not None:
        return str(block.get("name")), fields
    return str(fields.pop("action", None)), fields


def build_offer(tools: Sequence[Json], settings: RequestSettings, facts: ModelFacts) -> Offer:
    """Return what the tools of a Responses request become.

    Raises:
        BadRequest: A tool is of a kind that does not exist here, or two cannot go together.
    """
    entries: list[Json] = []
    computer: Json | None = None
    for index, tool in enumerate(tools):
        field = f"tools.{index}"
        if tool["type"] == "function":
            entries.append(_function_entry(tool))
        elif tool["type"] not in COMPUTER_TOOL_TYPES:
            raise BadRequest(field, f"there are no tools of type {tool['type']!r} here")
        elif computer is not None:
            raise BadRequest(field, "there can be only one computer tool")
        elif not (tool.get("display_width") and tool.get("display_height")):
            raise BadRequest(
                field, "use computer_use_preview, which says display_width and display_height"
            )
        else:
            computer = tool
    functions = frozenset(entry["name"] for entry in entries)
    if computer is None:
        return Offer(facts.image_limits, None, Frame(1, 1, 1, 1), functions, entries)
    if LEGACY_NAME in functions:
        raise BadRequest(
            "tools", f"no function may be named {LEGACY_NAME!r} beside a computer tool"
        )
    name = facts.computer_tool if settings.computer_tool == "auto" else settings.computer_tool
    size = computer["display_width"], computer["display_height"]
    frame = Frame.of(*size, facts.image_limits)
    entry = _computer_entry(name, frame, settings)
    return Offer(facts.image_limits, name, frame, functions, [entry, *entries])


def _computer_entry(name: ComputerTool, frame: Frame, settings: RequestSettings) -> Json:
    entry: Json = {"type": name}
    if name in TOOLSET_NAMES:
        configs = settings.toolset_configs
        return entry | ({"configs": configs} if configs else {})
    size = {"display_width_px": frame.sent_width, "display_height_px": frame.sent_height}
    zoom = {"enable_zoom": True} if name == "computer_20251124" else {}
    return entry | {"name": LEGACY_NAME} | size | zoom


def _function_entry(tool: Json) -> Json:
    entry: Json = {"name": tool["name"]}
    if tool.get("description"):
        entry["description"] = tool["description"]
    schema = dict(tool.get("parameters") or {})
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    entry["input_schema"] = schema
    if tool.get("strict"):
        _check_strict(schema, f"tools.{tool['name']}.parameters")
        entry["strict"] = True
    return entry


def _check_strict(schema: Any, field: str) -> None:
    """Refuse a strict schema with an open object: Anthropic's refusal would not name the tool."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise BadRequest(
            field, "a strict schema needs 'additionalProperties': false in each object"
        )
    for name, child in (schema.get("properties") or {}).items():
        _check_strict(child, f"{field}.{name}")
    _check_strict(schema.get("items"), f"{field}.items")


def tool_choice(request: Json, offer: Offer, *, thinking: bool) -> Json | None:
    """Return Anthropic's `tool_choice` for a request, or None where nothing needs saying.

    Raises:
        BadRequest: There is no such choice, or the model cannot think and be forced.
    """
    if not offer.entries:
        return None
    choice = _choice(request.get("tool_choice", "auto"), offer)
    if thinking and choice["type"] in ("any", "tool"):
        raise BadRequest(
            "tool_choice", "a model that thinks cannot be forced to use a tool; use auto or none"
        )
    if request.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _choice(choice: Any, offer: Offer) -> Json:
    words = {"auto": "auto", "none": "none", "required": "any"}
    if isinstance(choice, str) and choice in words:
        return {"type": words[choice]}
    choice = choice if isinstance(choice, dict) else {"type": choice}
    kind = choice.get("type")
    if kind == "function" and choice.get("name") in offer.functions:
        return {"type": "tool", "name": choice["name"]}
    if kind in COMPUTER_TOOL_TYPES and offer.tool is not None:
        # A toolset has no name to choose.
        legacy = {"type": "tool", "name": LEGACY_NAME}
        return legacy if offer.toolset_name is None else {"type": "any"}
    raise BadRequest("tool_choice", f"{choice!r:.200} names none of the tools offered")
