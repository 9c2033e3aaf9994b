"""What the policy adapter needs of a family of open-weight models, and nothing of any family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from responses_api_agents.browser_agent.adapters.base import Item
from responses_api_agents.browser_agent.adapters.openai_actions import (
    UnusableCall,
    parse_arguments,
    parse_canonical,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.frames import Frame, View
from responses_api_agents.browser_agent.policies.held_keys import (
    check_released,
    known_key,
    with_held_keys,
)

Action = dict[str, Any]
"""A canonical action; or `key_down` and `key_up` of a `key`, see `held_keys`."""

NOTCH_PX = 100
"""CSS px of one turn of the wheel."""
DEFAULT_NOTCHES = 5
"""Of a scroll that says a direction and no distance."""
NO_USER = "there is nobody to ask here: decide yourself, and finish if it cannot be done"
FINISH_ALONE = (
    "the task was not finished, as actions came before that in the same reply; they were run. "
    "Look at the screen, then finish in a reply of its own"
)
_INTRODUCTION = (
    "You use a web browser for the user. After each of your replies you get a screenshot of the "
    "page; the browser's own window, its address bar and its tabs are not on it. Do what the task "
    "asks and nothing else."
)


@dataclass(frozen=True)
class Answer:
    """The end of the task.

    Attributes:
        text: the answer; if it is empty, what the model said beside the call is.
    """

    text: str = ""


@dataclass(frozen=True)
class Reading:
    """A reply, taken apart.

    Attributes:
        calls: in order.
        said: the text beside them.
    """

    calls: list[NativeCall]
    said: str = ""


@dataclass(frozen=True)
class Parsed:
    """What a reply comes to.

    Attributes:
        actions: canonical actions, to run in order.
        answer: the final answer; None while the task goes on.
        error: why the reply stops after its `actions`; for the model to read.
    """

    actions: list[Action] = field(default_factory=list)
    answer: str | None = None
    error: str | None = None


class Policy(ABC):
    """A family: what it is told, and what it means.

    Attributes:
        actions: the family's actions: what the prompt says of each, by name.
        frame: where its coordinates lie.
        screenshots: how many it was trained to see at most; None if nobody says.
        ignored: fields of calls that mean nothing to the browser.
    """

    actions: ClassVar[dict[str, str]]
    frame: Frame
    screenshots: int | None = None
    ignored: ClassVar[Sequence[str]] = ()

    def __init__(self, name: str) -> None:
        """Name the policy, as configurations do."""
        self.name = name

    @abstractmethod
    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""

    @abstractmethod
    def read(self, text: str) -> Reading:
        """Take a reply apart.

        Raises:
            UnusableCall: it is not in the family's format.
        """

    @abstractmethod
    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means; its fields are taken from it.

        Raises:
            UnusableCall: there is no such action, or a field is unusable.
        """

    def tools(self, width: int, height: int) -> list[Item]:
        """Return the function tools to offer for a viewport (CSS px); most families need none."""
        return []

    def system_prompt(self, width: int, height: int) -> str:
        """Return the system prompt for a viewport of this size in CSS px."""
        return f"{_INTRODUCTION}\n\n{self.output_format(self.frame.view(width, height))}"

    def parse(self, text: str, width: int, height: int) -> Parsed:
        """Return what a reply comes to on a viewport of this size in CSS px; never raises."""
        try:
            _check_text(text)
            reading = self.read(text)
        except UnusableCall as error:
            return Parsed(error=str(error))
        return self._run(reading, self.frame.view(width, height))

    def parse_function(self, name: str, arguments: str, width: int, height: int) -> Parsed:
        """Return what a function call comes to that the model server found; never raises."""
        try:
            _check_text(name + arguments)
            call = NativeCall(name, parse_arguments(name, arguments))
        except UnusableCall as error:
            return Parsed(error=str(error))
        return self._run(Reading([call]), self.frame.view(width, height))

    def unknown(self, name: str) -> UnusableCall:
        """Return the error of an action that does not exist."""
        return UnusableCall(
            f"there is no action {name!r:.100}; there are {', '.join(self.actions)}"
        )

    def _run(self, reading: Reading, view: View) -> Parsed:
        steps: list[Action] = []
        try:
            for call in reading.calls:
                meant = self.act(call, view)
                call.check_all_taken(self.ignored)
                if not isinstance(meant, Answer):
                    steps += map(_checked, meant)
                elif steps:
                    return Parsed(with_held_keys(steps), error=FINISH_ALONE)
                else:
                    return Parsed(answer=meant.text or reading.said.strip())
        except UnusableCall as error:
            return Parsed(with_held_keys(steps), error=str(error))
        try:
            check_released(steps)
            return Parsed([_checked(action) for action in with_held_keys(steps)])
        except UnusableCall as error:
            return Parsed(error=str(error))


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnusableCall("the reply holds half of a surrogate pair, which is no text") from error


def described(actions: dict[str, str]) -> str:
    """Return a family's actions as lines of a prompt."""
    return "\n".join(f"- {line}" for line in actions.values())


def scroll(direction: str, notches: float) -> Action:
    """Return a scroll by turns of the wheel, without its place.

    Raises:
        UnusableCall: there is no such direction.
    """
    way = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}.get(direction)
    if way is None:
        raise UnusableCall(f"scroll: direction is up, down, left or right, not {direction!r:.100}")
    return {"type": "scroll", "dx": way[0] * notches * NOTCH_PX, "dy": way[1] * notches * NOTCH_PX}


def wait(seconds: float) -> Action:
    """Return a wait."""
    return {"type": "wait", "ms": round(seconds * 1000)}


def _checked(action: Action) -> Action:
    """Return an action as it is, if it can be run.

    Raises:
        UnusableCall: it cannot.
    """
    if action["type"] in ("key_down", "key_up"):
        return {"type": action["type"], "key": known_key(action["key"])}
    fields = {name: value for name, value in action.items() if name != "type"}
    return parse_canonical(action["type"], fields)
