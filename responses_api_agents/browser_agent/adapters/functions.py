"""Adapter for models without a computer tool: canonical actions as plain function tools.

All it takes is a vision model behind a Responses endpoint that knows functions. Function outputs
are texts, which every endpoint takes; the screenshot follows them in a user message.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from resources_servers.browser_gym.actions import ACTION_MODELS
from responses_api_agents.browser_agent.adapters.base import CallOutcome, Item, Reply, Screen
from responses_api_agents.browser_agent.adapters.generic import (
    GenericAdapter,
    computer_output,
    function_text,
    image_part,
    shown_calls,
)
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    parse_canonical,
)
from responses_api_agents.browser_agent.adapters.responses import (
    taken_apart,
    text_part,
    user_message,
)

Coordinates = Literal["pixels", "per_mille"]

# What a screen is worked with. The other actions are understood too, but a model offered few
# tools chooses better among them.
_OFFERED = ("click", "move", "drag", "scroll", "type", "key", "wait", "screenshot", "zoom")
_HORIZONTAL = ("x", "dx", "x0", "x1")
_VERTICAL = ("y", "dy", "y0", "y1")
_DESCRIPTIONS = {
    "click": "Click count times, or hold the button for hold_ms; without a point where it is now.",
    "scroll": "Turn the wheel over a point by (dx, dy); positive is right and down.",
    "zoom": "Look at one region of the screen, enlarged; meant to be the last call of a reply.",
}
_HINTS = {
    "chords": 'Key combinations in order, such as [["Control", "a"], ["Delete"]].',
    "path": "Points from where the button goes down to where it is let go.",
    "region": "What to show enlarged; later actions still use points of the whole screen.",
    "hold_ms": "How long the button stays down, in milliseconds.",
    "clear_first": "Empty the field first.",
    "press_enter": "Press Enter afterwards.",
}
_KEPT = ("type", "enum", "default", "minimum", "maximum")


class FunctionsAdapter(GenericAdapter):
    """Speaks with one model without a computer tool for one episode."""

    def __init__(self, *, coordinates: Coordinates, **settings: Any) -> None:
        """Prepare an episode.

        Args:
            coordinates: the model's: `pixels` of the screenshot, or `per_mille`, where the screen
                is 1000 wide and 1000 high.
            settings: of the generic adapter.
        """
        super().__init__(**settings)
        self._per_mille = coordinates == "per_mille"
        self._size = (0, 0)

    def start(self, params: dict[str, Any], screen: Screen) -> dict[str, Any]:
        """Return the first request: the run's own input with the first screenshot."""
        self._size = (screen.width, screen.height)
        return super().start(params, screen)

    def answer(self, reply: Reply, outcomes: list[CallOutcome]) -> list[Item]:
        """Answer each call in words, and show the screen in a user message behind them."""
        items: list[Item] = [
            computer_output(call, outcome, picture=False)
            if call.kind == "computer"
            else {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": taken_apart(function_text(outcome)),
            }
            for call, outcome in zip(reply.calls, outcomes, strict=True)
        ]
        shown = [outcomes[index].screen for index in sorted(shown_calls(reply.calls, outcomes))]
        parts = [text_part(taken_apart(f"The screen is now, at {shown[-1].url}:"))]
        items.append(user_message(*parts, *(image_part(screen) for screen in shown)))
        self._history.add_answers(items)
        return items

    def _tools(self, screen: Screen) -> list[Item]:
        return []

    def _functions(self) -> list[Item]:
        size = (1000, 1000) if self._per_mille else self._size
        return action_tools(*size) + super()._functions()

    def _canonical(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        action = parse_canonical(name, fields)
        if self._per_mille:
            action = parse_canonical(name, from_per_mille(fields, *self._size))
        return action


def action_tools(width: int, height: int) -> list[Item]:
    """Return function tools for a screen of this size in the model's own units."""
    return [_tool(name, ACTION_MODELS[name], width, height) for name in _OFFERED]


def from_per_mille(fields: dict[str, Any], width: int, height: int) -> dict[str, Any]:
    """Return an action's fields with thousandths of the screen turned into px.

    Args:
        fields: of a canonical action, in thousandths of the screen's width and height.
        width: of the screen, in px.
        height: likewise.

    Raises:
        UnusableCall: a point lies outside the screen.
    """
    return {name: _in_px(name, value, width, height) for name, value in fields.items()}


def _in_px(name: str, value: Any, width: int, height: int) -> Any:
    if isinstance(value, dict):
        return from_per_mille(value, width, height)
    if isinstance(value, list):
        return [_in_px("", entry, width, height) for entry in value]
    if not isinstance(value, int | float) or name not in _HORIZONTAL + _VERTICAL:
        return value
    if name in ("x", "y") and not 0 <= value < 1000:
        raise UnusableCall(f"{name} is {value:g}, which is not from 0 to below 1000")
    return value * (width if name in _HORIZONTAL else height) / 1000


def _tool(name: str, model: type[BaseModel], width: int, height: int) -> Item:
    schema = model.model_json_schema()
    parameters = _object(schema, schema.get("$defs", {}), width, height)
    parameters["additionalProperties"] = False
    return {
        "type": "function",
        "name": name,
        "description": _DESCRIPTIONS.get(name) or (model.__doc__ or "").partition("\n\n")[0],
        "parameters": parameters,
        # Optional arguments are not possible in strict mode.
        "strict": False,
    }


def _object(schema: Item, definitions: Item, width: int, height: int) -> Item:
    properties = {
        name: _property(name, inner, definitions, width, height)
        for name, inner in schema["properties"].items()
        if name not in ("type", "ref")  # no tool names elements
    }
    required = schema.get("required", [])
    if schema.get("title") == "Move":
        required = ["x", "y", *required]
    return {"type": "object", "properties": properties, "required": required}


def _property(name: str, schema: Item, definitions: Item, width: int, height: int) -> Item:
    """Return a field's schema as short as a model needs it; the fields are checked anyway."""
    if "anyOf" in schema:
        schema = next(option for option in schema["anyOf"] if option.get("type") != "null")
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    if "properties" in schema:
        result = _object(schema, definitions, width, height)
    else:
        result = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in schema:
        result["items"] = _property("", schema["items"], definitions, width, height)
    if name in _HORIZONTAL + _VERTICAL:
        result = {"type": "number", "description": _measure(name, width, height)}
    elif name in _HINTS:
        result["description"] = _HINTS[name]
    return result


def _measure(name: str, width: int, height: int) -> str:
    size = f"the screen is {width} wide" if name in _HORIZONTAL else f"the screen is {height} high"
    if name.startswith("d"):
        return f"Distance; {size}."
    return f"Distance from the {'left' if name in _HORIZONTAL else 'top'}; {size}."
