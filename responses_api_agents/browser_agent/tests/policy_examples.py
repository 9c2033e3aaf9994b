"""For each action of each family: a reply as its documents have it, and what that means.

The viewport is 1280 by 720 px. The processor of Qwen2.5-VL makes 1288 by 728 of that.
"""

from __future__ import annotations

import json
from typing import Any

WIDTH, HEIGHT = 1280, 720

Meaning = list[dict[str, Any]] | str | None
"""Canonical actions, the final answer, or None for an error."""
Examples = list[tuple[str, str, Meaning]]
"""The action, a reply, and its meaning."""

QUARTER = {"x": 320, "y": 180}
HALF = {"x": 640, "y": 360}


def _json_tool(**arguments: Any) -> str:
    call = json.dumps({"name": "computer_use", "arguments": arguments})
    return f"I act.\n<tool_call>\n{call}\n</tool_call>"


def _xml_tool(**arguments: Any) -> str:
    fields = "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n"
        "</parameter>\n"
        for name, value in arguments.items()
    )
    return f"I act.\n\n<tool_call>\n<function=computer_use>\n{fields}</function>\n</tool_call>"


def _computer_use(tool: Any, quarter: list[int]) -> Examples:
    """Return examples of what Qwen and Fara have in common; `quarter` is at 320, 180 px."""
    return [
        ("key", tool(action="key", keys=["ctrl", "a"]), [_key("ctrl", "a")]),
        ("mouse_move", tool(action="mouse_move", coordinate=quarter), [_at("move")]),
        ("left_click", tool(action="left_click", coordinate=quarter), [_click()]),
        ("wait", tool(action="wait", time=1.5), [{"type": "wait", "ms": 1500}]),
    ]


def _clicks(tool: Any, quarter: list[int]) -> Examples:
    drag = {"type": "drag", "path": [None, QUARTER]}
    return [
        ("left_click_drag", tool(action="left_click_drag", coordinate=quarter), [drag]),
        ("right_click", tool(action="right_click", coordinate=quarter), [_click("right")]),
        ("double_click", tool(action="double_click", coordinate=quarter), [_click(count=2)]),
        ("triple_click", tool(action="triple_click", coordinate=quarter), [_click(count=3)]),
    ]


def _qwen(tool: Any, quarter: list[int]) -> Examples:
    return [
        *_computer_use(tool, quarter),
        *_clicks(tool, quarter),
        ("left_click", tool(action="left_click"), [{**_click(), "x": None, "y": None}]),
        ("type", tool(action="type", text="123"), [_type("123")]),
        ("middle_click", tool(action="middle_click", coordinate=quarter), [_click("middle")]),
        ("scroll", tool(action="scroll", pixels=-300), [_scroll(dy=300)]),
        ("hscroll", tool(action="hscroll", pixels=300), [_scroll(dx=300)]),
        ("terminate", tool(action="terminate", status="success"), "I act."),
        ("answer", tool(action="answer", text="42"), "42"),
    ]


def _web(tool: Any) -> Examples:
    search = "https://www.bing.com/search?q=blue+bird"
    return [
        ("visit_url", tool(action="visit_url", url="site.test"), [_go("site.test")]),
        ("visit_url", tool(action="visit_url", url="blue bird"), [_go(search)]),
        ("web_search", tool(action="web_search", query="blue bird"), [_go(search)]),
        ("history_back", tool(action="history_back"), [{"type": "go_back"}]),
        (
            "pause_and_memorize_fact",
            tool(action="pause_and_memorize_fact", fact="it costs 3"),
            [{"type": "screenshot"}],
        ),
    ]


def _at(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **QUARTER, **fields}


def _click(button: str = "left", count: int = 1) -> dict[str, Any]:
    return _at("click", button=button, count=count)


def _key(*keys: str) -> dict[str, Any]:
    return {"type": "key", "chords": [list(keys)]}


def _type(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "type", "text": text, **fields}


def _scroll(dx: float = 0, dy: float = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "scroll", "dx": dx, "dy": dy, **fields}


def _go(url: str) -> dict[str, Any]:
    return {"type": "navigate", "url": url}


def _thought(action: str) -> str:
    return f"Thought: I act.\nAction: {action}"


def _seed(function: str, **parameters: str) -> str:
    fields = "".join(f"<parameter={name}>{text}</parameter>" for name, text in parameters.items())
    return (
        "<gui_think> I act. </gui_think>\n<seed:tool_call>"
        f"<function={function}>{fields}</function></seed:tool_call>"
    )


def _code(code: str) -> str:
    return f"## Thought:\nI act.\n## Action:\nAct.\n## Code:\n```python\n{code}\n```"


def _holo(name: str, **fields: Any) -> str:
    call = {"tool_name": name, **fields}
    return json.dumps({"note": None, "thought": "I act.", "tool_call": call})


def _glm(call: str) -> str:
    return f"I act.\nAction: {call}\nMemory:\n[]"


def _molmo(name: str, **fields: Any) -> str:
    return json.dumps({"thought": "I act.", "action": {"name": name, **fields}})


_BOX = "<|box_start|>(322,182)<|box_end|>"
_POINT = "<point>322 182</point>"
_POINT_2 = "<point>250 250</point>"
_SHIFT_CLICK = "pyautogui.keyDown('shift')\npyautogui.click(322, 182)\npyautogui.keyUp('shift')"
_DRAG = {"type": "drag", "path": [QUARTER, HALF]}
_WAIT_5 = {"type": "wait", "ms": 5000}

EXAMPLES: dict[str, Examples] = {
    "qwen2_5_vl": _qwen(_json_tool, [322, 182]),
    "qwen3_vl": _qwen(_json_tool, [250, 250]),
    "qwen3_5": [
        *_qwen(_xml_tool, [250, 250]),
        (
            "left_click",
            _xml_tool(action="left_click", coordinate=[250, 250], text="ctrl+shift"),
            [{**_click(), "modifiers": ["Control", "Shift"]}],
        ),
    ],
    "fara_7b": [
        *_computer_use(_json_tool, [322, 182]),
        *_web(_json_tool),
        (
            "type",
            _json_tool(action="type", text="a", coordinate=[322, 182], delete_existing_text=True),
            [_at("type", text="a", press_enter=True, clear_first=True)],
        ),
        ("scroll", _json_tool(action="scroll", pixels=-300), [_scroll(dy=300)]),
        ("refresh", _json_tool(action="refresh"), [{"type": "reload"}]),
        ("terminate", _json_tool(action="terminate", status="success"), "I act."),
    ],
    "fara_1_5": [
        *_computer_use(_xml_tool, [250, 250]),
        *_clicks(_xml_tool, [250, 250]),
        *_web(_xml_tool),
        ("type", _xml_tool(action="type", text="a\nb"), [_type("a\nb")]),
        ("scroll", _xml_tool(action="scroll", pixels=-500), [_scroll(dy=360)]),
        ("hscroll", _xml_tool(action="hscroll", pixels=500), [_scroll(dx=640)]),
        (
            "read_page_answer_question",
            _xml_tool(action="read_page_answer_question", question="How much?"),
            [{"type": "page_text"}],
        ),
        ("ask_user_question", _xml_tool(action="ask_user_question", question="Which?"), None),
        ("terminate", _xml_tool(action="terminate", answer="42"), "42"),
    ],
    "ui_tars_1_5": [
        ("click", _thought(f"click(point='{_POINT}')"), [_at("click")]),
        ("click", _thought(f"click(start_box='{_BOX}')"), [_at("click")]),
        ("click", _thought("click(start_box='(322,182,322,182)')"), [_at("click")]),
        ("left_double", _thought(f"left_double(point='{_POINT}')"), [_at("click", count=2)]),
        (
            "right_single",
            _thought(f"right_single(point='{_POINT}')"),
            [_at("click", button="right")],
        ),
        ("hover", _thought(f"hover(point='{_POINT}')"), [_at("move")]),
        *(
            (
                name,
                _thought(
                    f"{name}(start_point='{_POINT}', end_point='<point>644 364</point>')",
                ),
                [_DRAG],
            )
            for name in ("drag", "select")
        ),
        ("hotkey", _thought("hotkey(key='ctrl c')"), [_key("ctrl", "c")]),
        ("press", _thought("press(key='a')"), [_key("a")]),
        ("press", _thought("press(key='ctrl')"), None),
        (
            "release",
            _thought(f"press(key='ctrl')\n\nclick(point='{_POINT}')\n\nrelease(key='ctrl')"),
            [_at("click", modifiers=["Control"])],
        ),
        (
            "type",
            _thought(r"type(content='it\'s\n')"),
            [_type("it's", press_enter=True)],
        ),
        (
            "scroll",
            _thought(f"scroll(point='{_POINT}', direction='down')"),
            [_scroll(dy=500, **QUARTER)],
        ),
        ("wait", _thought("wait()"), [_WAIT_5]),
        ("finished", _thought("finished(content='42')"), "42"),
        ("finished", _thought("finished()"), "I act."),
        ("call_user", _thought("call_user()"), None),
    ],
    "ui_tars_2": [
        ("click", _seed("click", point=_POINT_2), [_at("click")]),
        ("left_double", _seed("left_double", point=_POINT_2), [_at("click", count=2)]),
        ("right_single", _seed("right_single", point=_POINT_2), [_at("click", button="right")]),
        ("move_to", _seed("move_to", point=_POINT_2), [_at("move")]),
        (
            "drag",
            _seed("drag", start_point=_POINT_2, end_point="<point>500 500</point>"),
            [_DRAG],
        ),
        ("scroll", _seed("scroll", direction="up"), [_scroll(dy=-500)]),
        ("mouse_down", _seed("mouse_down", point=_POINT_2), [_at("mouse_down", button="left")]),
        ("mouse_up", _seed("mouse_up", button="right"), [{"type": "mouse_up", "button": "right"}]),
        ("hotkey", _seed("hotkey", key="ctrl c"), [_key("ctrl", "c")]),
        ("press", _seed("press", key="down"), [_key("ArrowDown")]),
        (
            "release",
            "<seed:tool_call><function=press><parameter=key>shift</parameter></function>"
            f"<function=click><parameter=point>{_POINT_2}</parameter></function>"
            "<function=release><parameter=key>shift</parameter></function></seed:tool_call>",
            [_at("click", modifiers=["Shift"])],
        ),
        ("type", _seed("type", content="a\nb"), [_type("a\nb", press_enter=False)]),
        ("wait", _seed("wait", time="3"), [{"type": "wait", "ms": 3000}]),
        ("take_screenshot", _seed("take_screenshot"), [{"type": "screenshot"}]),
        ("open_computer", _seed("open_computer"), [{"type": "screenshot"}]),
        ("finished", _seed("finished", content="42"), "42"),
        ("call_user", _seed("call_user", content="Which?"), None),
    ],
    "opencua": [
        ("click", _code("pyautogui.click(x=322, y=182)"), [_click()]),
        ("click", _code("pyautogui.click(322, 182, 2, button='left')"), [_click(count=2)]),
        ("doubleClick", _code("pyautogui.doubleClick(x=322, y=182)"), [_click(count=2)]),
        ("rightClick", _code("pyautogui.rightClick(x=322, y=182)"), [_click("right")]),
        ("middleClick", _code("pyautogui.middleClick(x=322, y=182)"), [_click("middle")]),
        ("triple_click", _code("computer.triple_click(x=322, y=182)"), [_click(count=3)]),
        ("tripleClick", _code("pyautogui.tripleClick(x=322, y=182)"), [_click(count=3)]),
        ("moveTo", _code("pyautogui.moveTo(322, 182)"), [_at("move")]),
        (
            "dragTo",
            _code("pyautogui.dragTo(322, 182, duration=0.5, button='left')  # there"),
            [{"type": "drag", "path": [None, QUARTER], "button": "left"}],
        ),
        ("scroll", _code("pyautogui.scroll(-5)"), [_scroll(dy=500)]),
        ("hscroll", _code("pyautogui.hscroll(2)"), [_scroll(dx=200)]),
        ("write", _code("pyautogui.write(message='a\\nb')"), [_type("a\nb")]),
        ("typewrite", _code('pyautogui.typewrite("ab")'), [_type("ab")]),
        (
            "press",
            _code("pyautogui.press(['down', 'enter'], presses=2)"),
            [{"type": "key", "chords": [["down"], ["enter"]], "repeat": 2}],
        ),
        ("hotkey", _code("pyautogui.hotkey('ctrl', 'c')"), [_key("ctrl", "c")]),
        ("keyDown", _code("pyautogui.keyDown('shift')"), None),
        ("keyUp", _code(_SHIFT_CLICK), [{**_click(), "modifiers": ["Shift"]}]),
        ("wait", _code("computer.wait(seconds=3)"), [{"type": "wait", "ms": 3000}]),
        ("terminate", _code("computer.terminate(status='success', answer='42')"), "42"),
    ],
    "holo3": [
        ("click", _holo("click", element="the button", x=250, y=250), [_at("click")]),
        ("double_click", _holo("double_click", x=250, y=250), [_at("click", count=2)]),
        (
            "write",
            _holo("write", element="the field", x=250, y=250, content="a", press_enter=True),
            [_at("type", text="a", clear_first=True, press_enter=True)],
        ),
        ("key", _holo("key", keys=["ctrl", "c"]), [_key("ctrl", "c")]),
        ("scroll", _holo("scroll", direction="down"), [_scroll(dy=500)]),
        ("go_back", _holo("go_back"), [{"type": "go_back"}]),
        ("refresh", _holo("refresh"), [{"type": "reload"}]),
        ("wait", _holo("wait"), [{"type": "wait", "ms": 2000}]),
        ("answer", _holo("answer", content="42"), "42"),
    ],
    "glm_v": [
        (
            "left_click",
            _glm("left_click(start_box='[250,250]', element_info='OK')"),
            [_at("click", button="left")],
        ),
        (
            "left_click",
            "I act.\n<|begin_of_box|>left_click(start_box=[250, 250])<|end_of_box|>",
            [_at("click", button="left")],
        ),
        (
            "right_click",
            _glm("right_click(start_box='[250,250]')"),
            [_at("click", button="right")],
        ),
        (
            "middle_click",
            _glm("middle_click(start_box='[250,250]')"),
            [_at("click", button="middle")],
        ),
        ("hover", _glm("hover(start_box='[250,250]')"), [_at("move")]),
        (
            "left_double_click",
            _glm("left_double_click(start_box='[250,250]')"),
            [_at("click", count=2)],
        ),
        ("left_drag", _glm("left_drag(start_box='[250,250]', end_box='[500,500]')"), [_DRAG]),
        ("key", _glm("key(keys='ctrl+c')"), [_key("ctrl", "c")]),
        ("type", _glm("type(content='a')"), [_type("a")]),
        (
            "scroll",
            _glm("scroll(start_box='[250,250]', direction='up', step=2)"),
            [_scroll(dy=-200, **QUARTER)],
        ),
        ("WAIT", _glm("WAIT()"), [_WAIT_5]),
        ("DONE", _glm("DONE()"), "I act."),
        ("FAIL", _glm("FAIL()"), "I act."),
    ],
    "molmoweb": [
        ("click", _molmo("click", x=25, y=25, button="right"), [_click("right")]),
        ("dblclick", _molmo("dblclick", x=25.0, y=25.0), [_click(count=2)]),
        (
            "hover_at",
            _molmo("hover_at", x=25, y=25, duration=0.5),
            [_at("move"), {"type": "wait", "ms": 500}],
        ),
        (
            "drag_and_drop",
            _molmo("drag_and_drop", from_x=25, from_y=25, to_x=50, to_y=50),
            [_DRAG],
        ),
        ("scroll", _molmo("scroll", delta_x=0, delta_y=50), [_scroll(dy=360)]),
        (
            "scroll_at",
            _molmo("scroll_at", x=25, y=25, delta_x=-50, delta_y=0),
            [_scroll(dx=-640, **QUARTER)],
        ),
        ("type", _molmo("type", text="a"), [_type("a")]),
        ("keypress", _molmo("keypress", key="ControlOrMeta+a"), [_key("ControlOrMeta", "a")]),
        (
            "gemini_type_text_at",
            _molmo("gemini_type_text_at", x=250, y=250, text="a", press_enter=False),
            [_at("type", text="a", press_enter=False, clear_first=True)],
        ),
        ("goto", _molmo("goto", url="site.test"), [_go("site.test")]),
        (
            "browser_nav",
            _molmo("browser_nav", nav_type="tab_focus", index=1),
            [{"type": "switch_tab", "index": 1}],
        ),
        ("noop", _molmo("noop", noop_reason="loading"), [_WAIT_5]),
        ("send_msg_to_user", _molmo("send_msg_to_user", msg="42"), "42"),
        (
            "report_infeasible",
            _molmo("report_infeasible", infeasibility_reason="no such page"),
            "no such page",
        ),
    ],
}
