"""Tools for models that see no screenshot: the page in words, and its elements by their names.

Each tool is a model of its arguments that says which canonical actions it stands for; what comes
back is a text. All that a model can do wrong is told to it in that text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.event_text import event_text
from resources_servers.browser_gym.strict_json import find_problem

if TYPE_CHECKING:
    from resources_servers.browser_gym.browser.observation import ActionResult, Observation

SHOWN_TABS_CHARS = 200
_SCREENFUL = 0.8  # of the viewport, so that something seen before stays on the screen

Json = dict[str, Any]


def _plain_name(value: Any) -> Any:
    """Take `5`, `"5"` and `"[e5]"` for `"e5"`."""
    text = str(value).strip().strip("[]") if isinstance(value, str | int) else value
    return f"e{text}" if isinstance(text, str) and text.isdecimal() else text


def _chords(value: Any) -> Any:
    """Read `"Control+A Delete"` as two chords."""
    if not isinstance(value, str):
        return value
    words = value.split() or (["Space"] if value else [])
    return [re.split(r"(?<=.)\+(?=.)", word) for word in words]


ElementId = Annotated[
    str,
    BeforeValidator(_plain_name),
    Field(max_length=20, description="Name of an element, such as e12."),
]


class _Tool(BaseModel):
    """Arguments of a tool; the docstring of each is its description for the model."""

    model_config = ConfigDict(extra="forbid")
    name: ClassVar[str]

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions to run in a viewport of this size in CSS px.

        Raises:
            pydantic.ValidationError: an argument is out of an action's bounds.
        """
        return [act.Screenshot()]  # looks without acting


class Observe(_Tool):
    """See the page: its text, with each element you can use as [name role "label", state]."""

    name = "browser_observe"
    query: str | None = Field(
        default=None,
        max_length=act.MAX_QUERY_LENGTH,
        description="Only the lines of the page that hold this text.",
    )


class Navigate(_Tool):
    """Go to an address."""

    name = "browser_navigate"
    url: str = Field(min_length=1)

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.Navigate(url=self.url)]


class Back(_Tool):
    """Go back to the page before this one."""

    name = "browser_back"

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.GoBack()]


class Click(_Tool):
    """Click an element."""

    name = "browser_click"
    element_id: ElementId
    count: int = Field(default=1, ge=1, le=3, description="2 for a double click.")

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.Click(ref=self.element_id, count=self.count)]


class Hover(_Tool):
    """Move the mouse pointer over an element, for what shows only then."""

    name = "browser_hover"
    element_id: ElementId

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.Move(ref=self.element_id)]


class Type(_Tool):
    """Fill in a field, choose an option of a combobox or listbox, or set a slider or date."""

    name = "browser_type"
    element_id: ElementId
    text: str = Field(
        max_length=act.MAX_TEXT_LENGTH,
        description="Dates as YYYY-MM-DD, times as HH:MM, an option by its label.",
    )
    clear: bool = Field(default=True, description="false to add the text behind what is there.")
    submit: bool = Field(default=False, description="Press Enter afterwards.")

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [
            act.Type(
                ref=self.element_id,
                text=self.text,
                clear_first=self.clear,
                press_enter=self.submit,
            )
        ]


class Press(_Tool):
    """Press keys, which go to the element that was clicked or typed into last."""

    name = "browser_press"
    keys: Annotated[
        list[list[str]],
        BeforeValidator(_chords, json_schema_input_type=str),
        Field(
            min_length=1,
            max_length=100,
            description="Such as Enter, Control+S, or several after each other: Control+A Delete.",
        ),
    ]
    repeat: int = Field(default=1, ge=1, le=100)

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.Key(chords=self.keys, repeat=self.repeat)]


class Scroll(_Tool):
    """Scroll by most of a screenful."""

    name = "browser_scroll"
    direction: Literal["up", "down", "left", "right"] = "down"
    element_id: ElementId | None = Field(
        default=None, description="An element in the part of the page to scroll."
    )

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        sign = 1 if self.direction in ("down", "right") else -1
        sideways = self.direction in ("left", "right")
        dx, dy = (width, 0) if sideways else (0, height)
        place: Json = {"ref": self.element_id}
        if self.element_id is None:
            place = {"x": width / 2, "y": height / 2}
        return [act.Scroll(dx=sign * _SCREENFUL * dx, dy=sign * _SCREENFUL * dy, **place)]


class SwitchTab(_Tool):
    """Show another tab."""

    name = "browser_switch_tab"
    tab_id: str = Field(min_length=1, description="Such as tab-1.")

    def actions(self, width: int, height: int) -> list[act.Action]:
        """Return the canonical actions."""
        return [act.SwitchTab(tab_id=self.tab_id)]


class Finish(_Tool):
    """End the task. What the browser holds now and your first answer are what counts."""

    name = "browser_finish"
    answer: str = Field(
        default="",
        max_length=act.MAX_TEXT_LENGTH,
        description="What the task asks for, if it asks for an answer.",
    )


class UnusableCall(ValueError):
    """Arguments that a tool cannot take; the text is for the model."""


Tool = Observe | Navigate | Back | Click | Hover | Type | Press | Scroll | SwitchTab | Finish

TOOLS: dict[str, type[Tool]] = {
    tool.name: tool
    for tool in (Observe, Navigate, Back, Click, Hover, Type, Press, Scroll, SwitchTab, Finish)
}
"""The tools by their names, which are those of their routes."""


def description(name: str) -> str:
    """Return what a tool does, for a model."""
    return " ".join((TOOLS[name].__doc__ or "").split())


def parameters(name: str) -> Json:
    """Return the JSON schema of a tool's arguments, as short as a model needs it."""
    schema = TOOLS[name].model_json_schema()
    properties = {key: _short(value) for key, value in schema.get("properties", {}).items()}
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def function_tools() -> list[Json]:
    """Return the tools as `responses_create_params.tools` has them."""
    return [
        {
            "type": "function",
            "name": name,
            "description": description(name),
            "parameters": parameters(name),
            # Optional arguments are not possible in strict mode.
            "strict": False,
        }
        for name in TOOLS
    ]


def read_call(name: str, body: bytes, size: tuple[int, int]) -> tuple[Tool, list[act.Action]]:
    """Return a tool with its arguments, and the canonical actions it stands for.

    Args:
        name: the tool's.
        body: the arguments as JSON; nothing is an empty object.
        size: of the viewport, in CSS px.

    Raises:
        UnusableCall: the arguments are no such object.
    """
    if problem := find_problem(body):
        path, message = problem
        raise UnusableCall(": ".join(filter(None, [name, ".".join(map(str, path)), message])))
    arguments = json.loads(body) if body.strip() else {}
    if not isinstance(arguments, dict):
        raise UnusableCall(f"{name}: the arguments are not a JSON object")
    given = {key: value for key, value in arguments.items() if value is not None}
    try:
        tool = TOOLS[name].model_validate(given)
        return tool, tool.actions(*size)
    except ValidationError as error:
        raise UnusableCall(f"{name}: {_first_problem(error)}") from error


def answer_text(results: list[ActionResult], observation: Observation) -> str:
    """Return a tool's answer: what happened, and what the page shows now."""
    lines = [f"error: {result.error}" for result in results if result.error]
    lines += [r.text for r in results if r.text and r.type != "switch_tab"]  # tabs are told below
    lines += filter(None, map(event_text, observation.events))
    lines += [f"url: {observation.url}", f"title: {observation.title}"]
    if len(observation.tabs) > 1:
        for tab in observation.tabs:
            shown = f"{tab['title']} {tab['url']}"[:SHOWN_TABS_CHARS]
            lines.append(f"{tab['tab_id']}: {shown}{' (shown now)' if tab['active'] else ''}")
    if observation.words is not None:  # a finished task is looked at no more
        lines += ["", observation.words]
    return "\n".join(lines)


def _short(schema: Json) -> Json:
    if "anyOf" in schema:
        inner = next(option for option in schema["anyOf"] if option.get("type") != "null")
        schema = inner | {key: value for key, value in schema.items() if key != "anyOf"}
    kept = ("type", "enum", "description", "minimum", "maximum", "default")
    return {key: schema[key] for key in kept if schema.get(key) is not None}


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    match first["type"]:
        case "missing":
            return f"{where} is missing"
        case "extra_forbidden":
            return f"there is no argument {where}"
    return f"{where}: {first['msg']}"
