"""OpenCUA: a thought, an action in words, and lines of pyautogui calls, which are only read.

Source: xlang-ai/OpenCUA, `evaluation/agentnetbench/agent/opencua.py`, and its README. Coordinates
are pixels of the image that Qwen2.5-VL's processor resizes. pyautogui's own signatures hold:
`scroll` counts turns of the wheel, up if positive; a drag starts at the pointer; keys that go down
are held until they come up. `computer.wait` is 20 seconds, as AgentNet's tools have it. The agent
shows the last three screenshots. Its tokenizer is one that vLLM did not know in 2025.
"""

from __future__ import annotations

from typing import ClassVar

from responses_api_agents.browser_agent.adapters.openai_actions import UnusableCall
from responses_api_agents.browser_agent.policies.base import (
    NOTCH_PX,
    Action,
    Answer,
    Policy,
    Reading,
    described,
    wait,
)
from responses_api_agents.browser_agent.policies.calls import NativeCall
from responses_api_agents.browser_agent.policies.formats import code_calls, without_thinking
from responses_api_agents.browser_agent.policies.frames import QWEN_25, View

WAIT_S = 20
_FENCE = "```"
_LANGUAGES = ("python", "code")
_CLICKS = {"doubleClick": 2, "tripleClick": 3, "triple_click": 3}
# Names of what is given by position.
_POSITIONS = {
    "click": ("x", "y", "clicks", "interval", "button"),
    "scroll": ("clicks", "x", "y"),
    "hscroll": ("clicks", "x", "y"),
    "dragTo": ("x", "y", "duration"),
    "write": ("message", "interval"),
    "typewrite": ("message", "interval"),
    "press": ("keys", "presses", "interval"),
    "keyDown": ("key",),
    "keyUp": ("key",),
    "wait": ("seconds",),
    "terminate": ("status", "answer"),
}


class OpenCuaPolicy(Policy):
    """OpenCUA."""

    actions: ClassVar[dict[str, str]] = {
        "click": "pyautogui.click(x=…, y=…, clicks=1, button='left')",
        "doubleClick": "pyautogui.doubleClick(x=…, y=…)",
        "rightClick": "pyautogui.rightClick(x=…, y=…)",
        "middleClick": "pyautogui.middleClick(x=…, y=…)",
        "triple_click": "computer.triple_click(x=…, y=…)",
        "tripleClick": "pyautogui.tripleClick(x=…, y=…)",
        "moveTo": "pyautogui.moveTo(x=…, y=…)",
        "dragTo": "pyautogui.dragTo(x=…, y=…, button='left'): drag from where the pointer is",
        "scroll": "pyautogui.scroll(-5): turns of the wheel, up if positive",
        "hscroll": "pyautogui.hscroll(5): turns of the wheel, right if positive",
        "write": "pyautogui.write(message='…')",
        "typewrite": "pyautogui.typewrite(message='…')",
        "press": "pyautogui.press(keys='enter'), presses=1",
        "hotkey": "pyautogui.hotkey('ctrl', 'c')",
        "keyDown": "pyautogui.keyDown('shift')",
        "keyUp": "pyautogui.keyUp('shift')",
        "wait": "computer.wait(): when the page is busy",
        "terminate": "computer.terminate(status='success' or 'failure', answer='…')",
    }
    frame = QWEN_25
    screenshots = 3
    ignored = ("duration", "interval")

    def output_format(self, view: View) -> str:
        """Return how to reply, for the system prompt."""
        return (
            "Reply in this form:\n## Thought:\nwhat you see, and why you do what\n## Action:\nwhat "
            "you do, in one sentence\n## Code:\n```python\nthe calls, one in a line\n```\n\n"
            "Nothing but these calls is run, and only with plain values:\n"
            f"{described(self.actions)}\n\n"
            f"The screen is {view.columns:g} px wide and {view.rows:g} px high."
        )

    def read(self, text: str) -> Reading:
        """Take a reply apart."""
        said, *fenced = without_thinking(text).split(_FENCE)
        if not fenced:
            raise UnusableCall("the reply holds no code between ```python and ```")
        code = fenced[(len(fenced) - 1) // 2 * 2]  # of the last fence, whether it ends or not
        language, _, rest = code.partition("\n")
        calls = code_calls(rest if language.strip() in _LANGUAGES else code)
        if not calls:
            raise UnusableCall("there is no call in the code")
        return Reading(calls, said.rpartition("## Code:")[0] or said)

    def act(self, call: NativeCall, view: View) -> list[Action] | Answer:
        """Return what a call means."""
        call.name = call.name.removeprefix("pyautogui.").removeprefix("computer.")
        if call.name not in self.actions:
            raise self.unknown(call.name)
        if call.name == "hotkey":
            return [{"type": "key", "chords": [_keys_of_hotkey(call)]}]
        call.name_positions(_POSITIONS.get(call.name, ("x", "y")))
        match call.name:
            case "moveTo":
                return [{"type": "move", **_point(call, view)}]
            case "dragTo":
                path = [None, _point(call, view)]
                return [{"type": "drag", "path": path, "button": call.text("button", "left")}]
            case "scroll":
                turns = -call.number("clicks")
                return [{"type": "scroll", "dy": turns * NOTCH_PX, **_optional(call, view)}]
            case "hscroll":
                turns = call.number("clicks")
                return [{"type": "scroll", "dx": turns * NOTCH_PX, **_optional(call, view)}]
            case "write" | "typewrite":
                return [{"type": "type", "text": call.text("message")}]
            case "press":
                chords = [[key] for key in call.texts("keys")]
                return [{"type": "key", "chords": chords, "repeat": call.whole("presses", 1)}]
            case "keyDown":
                return [{"type": "key_down", "key": call.text("key")}]
            case "keyUp":
                return [{"type": "key_up", "key": call.text("key")}]
            case "wait":
                return [wait(call.number("seconds", WAIT_S))]
            case "terminate":
                call.text("status")
                return Answer(call.text("answer", ""))
        return [_click(call, view)]


def _click(call: NativeCall, view: View) -> Action:
    button = {"rightClick": "right", "middleClick": "middle"}.get(call.name, "left")
    return {
        "type": "click",
        "button": call.text("button", button),
        "count": call.whole("clicks", _CLICKS.get(call.name, 1)),
        **_optional(call, view),
    }


def _keys_of_hotkey(call: NativeCall) -> list[str]:
    if call.has("keys"):
        return call.texts("keys")
    keys = []
    while call.has(position := str(len(keys))):
        keys.append(call.text(position))
    if not keys:
        raise UnusableCall("hotkey: it names no keys")
    return keys


def _point(call: NativeCall, view: View) -> Action:
    return view.point(call.number("x"), call.number("y"))


def _optional(call: NativeCall, view: View) -> Action:
    return _point(call, view) if call.has("x") or call.has("y") else {}


POLICIES = (OpenCuaPolicy("opencua"),)
