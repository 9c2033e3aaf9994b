"""The demo tasks' solutions, as a Claude model would give them with whichever tool is offered."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.anthropic_scripts import (
    Block,
    Policy,
    SimReply,
    SimTurn,
    call,
    function,
    text,
    thinking,
)
from tests.simulators.solutions import turns_for


def solve(solutions: Mapping[str, dict[str, Any]]) -> Policy:
    """Follow the solution of the task whose prompt the first message holds, and think aloud."""

    def policy(turn: SimTurn) -> list[Block] | SimReply:
        parts = turn.body["messages"][0]["content"]
        said = "\n".join(part.get("text", "") for part in parts)
        reply = solution(turns_for(solutions, said))(turn)
        assert isinstance(reply, list)
        return [thinking(f"This is reply {turn.number}."), *reply]

    return policy


def solution(turns: Sequence[dict[str, Any]]) -> Policy:
    """Play a demo task's script (`solutions.json`) with native calls of the tool offered."""

    def policy(turn: SimTurn) -> list[Block]:
        if turn.number >= len(turns):
            return [text("Done.")]
        step = turns[turn.number]
        if "answer" in step:
            return [text(step["answer"])]
        said = [text(step["message"])] if "message" in step else []
        if "function" in step:
            wanted = step["function"]
            return [*said, function(wanted["name"], **wanted["arguments"])]
        calls = [block for action in step["actions"] for block in _native(turn.tool, action)]
        return [*said, *calls]

    return policy


def _native(tool: str | None, action: dict[str, Any]) -> list[Block]:
    """Return native calls for one action of a demo task's script."""
    place = [action["x"], action["y"]] if "x" in action else None
    match action["type"]:
        case "click":
            name = {"left": "left_click", "right": "right_click"}[action["button"]]
            return [call(tool, name, coordinate=place)]
        case "double_click":
            return [call(tool, "double_click", coordinate=place)]
        case "move":
            return [call(tool, "mouse_move", coordinate=place)]
        case "type":
            return [call(tool, "type", text=action["text"])]
        case "keypress":
            return [call(tool, "key", text="+".join(action["keys"]))]
        case "screenshot":
            return [call(tool, "screenshot")]
        case "scroll":
            amount = action["scroll_y"] or action["scroll_x"]
            names = ("up", "down") if action["scroll_y"] else ("left", "right")
            way = names[amount > 0]
            notches = abs(amount) // 100
            fields = {"scroll_direction": way, "scroll_amount": notches, "coordinate": place}
            return [call(tool, "scroll", **fields)]
        case "drag":
            first, *rest = [[point["x"], point["y"]] for point in action["path"]]
            moves = [call(tool, "mouse_move", coordinate=point) for point in rest]
            down, up = call(tool, "left_mouse_down"), call(tool, "left_mouse_up")
            return [call(tool, "mouse_move", coordinate=first), down, *moves, up]
    raise ValueError(f"no native call for {action}")
