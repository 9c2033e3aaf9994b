"""A family of models that write one line, such as `CLICK 500 250`, `TYPE hello` or `DONE 42`."""

from typing import ClassVar

from responses_api_agents.browser_agent.policies.base import Action, Answer, Policy, Reading
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import without_thinking
from responses_api_agents.browser_agent.policies.frames import Grid, View


class LinePolicy(Policy):
    """Words before the last line are what it thinks."""

    actions: ClassVar[dict[str, str]] = {
        "CLICK": "CLICK x y",
        "TYPE": "TYPE text",
        "DONE": "DONE answer; ends the task",
    }
    frame = Grid(1000)
    screenshots = 1

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            f"End each reply with one line: {', or '.join(self.actions.values())}. x and y go "
            f"from 0 to {view.columns:g}, from the top left to the bottom right of the screen."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        said, _, line = without_thinking(text).strip().rpartition("\n")
        name, _, rest = line.partition(" ")
        if name == "CLICK":
            x, _, y = rest.partition(" ")
            return Reading([NativeCall(name, {"x": x, "y": y})], said)
        return Reading([NativeCall(name, {"text": rest})], said)

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means; each field is taken, as one that is left is an error."""
        match call.name:
            case "CLICK":
                return [{"type": "click", **view.point(call.number("x"), call.number("y"))}]
            case "TYPE":
                return [{"type": "type", "text": call.text("text")}]
            case "DONE":
                return Answer(call.text("text"))
        raise self.unknown(call.name)


POLICIES = (LinePolicy("line"),)
