"""From input, event by event, to actions."""

from typing import Any

import pytest

from browser_gym.recording.events import Event, checked
from browser_gym.recording.gestures import MAX_PATH, PASSWORD_NOTE, Gestures
from browser_gym.recording.history import History, moves
from browser_gym.recording.proposal import proposed, query_of
from browser_gym.recording.script import NotSayable, turns_of
from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.verification.assertions import evaluate, parse_assertions
from resources_servers.browser_gym.verification.checks import State

Json = dict[str, Any]


class Person:
    """Does things one after the other; each is the same time after the one before."""

    def __init__(self) -> None:
        self.gestures = Gestures()
        self.gestures.opened(0, None, 0)
        self.at = 10_000.0

    def does(self, kind: str, tab: int = 0, after: float = 50, **fields: Any) -> None:
        self.at += after
        event = Event(kind=kind, at=self.at, **fields)
        self.gestures.input(tab, event)

    def clicks(self, x: float = 10, y: float = 20, count: int = 1, **fields: Any) -> None:
        after = fields.pop("after", 50)
        self.does("down", x=x, y=y, count=count, after=after, **fields)
        self.does("up", x=x + 1, y=y, tab=fields.get("tab", 0))

    def types(self, keys: str, **fields: Any) -> None:
        for key in keys:
            self.does("key", key=key, **fields)

    @property
    def actions(self) -> list[Json]:
        actions = [recorded.action for recorded in self.gestures.actions]
        for action in actions:
            parse_action(action)  # each is one that the environment runs
        return actions


@pytest.fixture
def person() -> Person:
    return Person()


def test_clicks_in_a_row_are_one(person: Person) -> None:
    for count in (1, 2):
        person.clicks(count=count)
    for count in (1, 2, 3, 4):
        person.clicks(x=300, count=count)
    person.clicks(count=1, button=2, modifiers=["Control"])
    person.clicks(count=2, x=500)  # the first of it was something else
    click = {"type": "click", "x": 10, "y": 20}
    assert person.actions == [
        {**click, "count": 2},
        {**click, "x": 300, "count": 3},
        {**click, "x": 300},
        {**click, "button": "right", "modifiers": ["Control"]},
        {**click, "x": 500, "count": 2},
    ]


def test_a_pointer_that_moves_while_pressed_drags(person: Person) -> None:
    person.does("down", x=10.5, y=20)
    for step in range(100):
        person.does("move", x=11 + step, y=20, after=1)
    person.does("up", x=200, y=40.0)
    person.does("up", x=1, y=1)  # of a press that nobody saw
    (drag,) = person.actions
    assert len(drag["path"]) == MAX_PATH
    assert (drag["path"][0], drag["path"][-1]) == ({"x": 10.5, "y": 20}, {"x": 200, "y": 40})


def test_keys_are_typed_or_pressed(person: Person) -> None:
    person.types("Hi ")
    person.does("text", text="é🚀")
    person.types("!", after=1_500)  # after a pause
    person.types("a", modifiers=["Control"])
    for _ in range(3):
        person.does("key", key="Backspace")
    person.does("key", key="@", modifiers=["Control", "Alt"], third_level=True)
    person.does("key", key="Tab", modifiers=["Shift"])
    person.does("key", key="AudioVolumeUp")
    assert person.actions == [
        {"type": "type", "text": "Hi é🚀"},
        {"type": "type", "text": "!"},
        {"type": "key", "chords": [["Control", "a"]]},
        {"type": "key", "chords": [["Backspace"]], "repeat": 3},
        {"type": "type", "text": "@"},
        {"type": "key", "chords": [["Shift", "Tab"]]},
    ]
    assert person.gestures.notes == ["the key AudioVolumeUp cannot be pressed again"]


def test_what_is_pasted_from_elsewhere_is_typed(person: Person) -> None:
    paste = {"type": "key", "chords": [["Control", "v"]]}
    person.does("key", key="v", modifiers=["Control"])
    person.does("pasted", text="from elsewhere")
    person.does("pasted", text=" by the menu")
    person.does("copied", text="from here")
    person.does("key", key="v", modifiers=["Control"])
    person.does("pasted", text="from here\n")
    person.does("key", key="v", modifiers=["Control"], after=2000)
    person.does("pasted", text="from elsewhere again")
    assert person.actions == [
        {"type": "type", "text": "from elsewhere by the menu"},
        paste,
        {"type": "type", "text": "from elsewhere again"},
    ]


def test_a_password_is_told_of(person: Person) -> None:
    person.types("a")
    assert person.gestures.notes == []
    person.types("secret", password=True)
    person.does("pasted", text="more", password=True)
    assert person.gestures.notes == [PASSWORD_NOTE]


def test_turns_of_the_wheel_are_one_scroll(person: Person) -> None:
    for _ in range(3):
        person.does("wheel", x=10, y=20, dy=100)
    person.does("wheel", x=10, y=20, dy=100, modifiers=["Shift"])
    person.does("wheel", x=400, y=20, dx=-0.5, dy=0)
    assert person.actions == [
        {"type": "scroll", "x": 10, "y": 20, "dx": 0, "dy": 300},
        {"type": "scroll", "x": 10, "y": 20, "dx": 0, "dy": 100, "modifiers": ["Shift"]},
        {"type": "scroll", "x": 400, "y": 20, "dx": -0.5, "dy": 0},
    ]


def test_tabs_are_followed_as_the_environment_does(person: Person) -> None:
    gestures = person.gestures
    assert gestures.opened(1, None, 50_000)  # the person's
    person.at = 60_000
    person.clicks(tab=1)
    assert not gestures.opened(2, 1, person.at + 100)  # the page's
    person.at = 70_000
    person.does("shown", tab=0)
    person.clicks(tab=0)
    gestures.closed(2, 80_000)
    person.at = 90_000
    person.clicks(tab=1)  # where the environment is then: the opener of the closed one
    gestures.closed(1, person.at + 100)  # by its page
    click = {"type": "click", "x": 10, "y": 20}
    assert person.actions == [
        {"type": "new_tab"},
        click,
        {"type": "switch_tab", "index": 0},
        click,
        {"type": "switch_tab", "index": 2},
        {"type": "close_tab"},
        click,
    ]
    assert gestures.active == 0


def test_closing_the_window_is_no_part_of_the_task(person: Person) -> None:
    person.clicks()
    for tab, opened_at in ((1, 50_000), (2, 60_000)):
        person.gestures.opened(tab, None, opened_at)
    person.gestures.closed(2, 70_000)  # this one is
    person.gestures.closed(1, 80_000)
    person.gestures.closed(0, 80_010)
    person.gestures.drop_closing(80_010)
    kinds = [action["type"] for action in person.actions]
    assert kinds == ["click", "new_tab", "new_tab", "close_tab"]


def test_navigation_is_the_persons_or_a_consequence(person: Person) -> None:
    gestures = person.gestures
    gestures.navigated(0, "navigate", "http://a.test/", 20_000)
    gestures.navigated(0, "go_back", "http://a.test/", 30_000)
    person.at = 40_000
    person.clicks()
    gestures.navigated(0, "reload", "http://a.test/", person.at + 100)  # by the page
    person.does("key", key="F5", after=5_000)
    gestures.navigated(0, "reload", "http://a.test/", person.at + 100)  # by the key
    person.does("key", key="l", modifiers=["Control"], after=5_000)
    gestures.navigated(0, "navigate", "http://b.test/", person.at + 500)
    kinds = [action["type"] for action in person.actions]
    assert kinds == ["navigate", "go_back", "click", "reload", "navigate"]
    assert person.actions[0]["url"] == "http://a.test/"


def history(index: int, *entries: tuple[int, str, str]) -> History:
    told = [{"id": i, "transitionType": how, "url": url} for i, how, url in entries]
    return History.of({"currentIndex": index, "entries": told})


def test_histories_tell_how_a_tab_moved() -> None:
    first, link, typed = (
        (1, "typed", "http://a.test/"),
        (2, "link", "http://a.test/b"),
        (3, "typed", "http://c.test/"),
    )
    cases = [
        (history(0, first), history(1, first, link), []),
        (history(0, first), history(1, first, typed), [("navigate", "http://c.test/")]),
        # The page went on before anybody looked.
        (history(0, first), history(2, first, typed, link), [("navigate", "http://c.test/")]),
        (history(1, first, link), history(0, first, link), [("go_back", "http://a.test/")]),
        (history(0, first, link), history(1, first, link), [("go_forward", "http://a.test/b")]),
        (
            history(0, first),
            history(0, (1, "reload", "http://a.test/")),
            [("reload", "http://a.test/")],
        ),
        (history(0, first), history(1, first, (4, "typed", "about:blank")), []),
    ]
    for before, now, wanted in cases:
        assert moves(before, now, same_document=False) == wanted
    reloaded = history(0, (1, "reload", "http://a.test/"))
    assert moves(reloaded, reloaded, same_document=True) == []


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        {"kind": "no", "at": 1},
        {"kind": "up", "at": float("nan")},
        {"kind": "up", "at": 1, "z": 1},
    ],
)
def test_what_is_no_event_is_passed_over(report: Any) -> None:
    assert checked(report) is None


def test_scripts_say_what_the_computer_tool_can() -> None:
    point = {"x": 1.4, "y": 2}
    turns = turns_of(
        [
            {"type": "click", **point, "button": "middle", "modifiers": ["Shift"]},
            {"type": "click", **point, "count": 2},
            {"type": "drag", "path": [point, {"x": 9, "y": 9}]},
            {"type": "key", "chords": [["Control", "a"]], "repeat": 2},
            {"type": "switch_tab", "index": 1},
        ],
        "",
    )
    click = {"type": "click", "button": "wheel", "x": 1, "y": 2, "keys": ["Shift"]}
    assert turns[0] == {"actions": [click]}
    assert turns[3]["actions"] == [{"type": "keypress", "keys": ["Control", "a"]}] * 2
    assert turns[4] == {"function": {"name": "switch_tab", "arguments": {"index": 1}}}
    assert turns[5] == {"answer": "Done."}
    with pytest.raises(NotSayable, match="click with the left button 3 times"):
        turns_of([{"type": "click", **point, "count": 3}], "")


def test_proposed_assertions_hold_for_what_was_done_and_for_nothing_else() -> None:
    was = {"a:list": '[{"x": 1}, {"y": "é\\"."}]', "gone": "1", "kept": "2", "n": "3"}
    now = {"a:list": '[{"x": 2}, {"y": "é\\".!"}, {}]', "kept": "2", "n": "4", "new": "text"}
    items = proposed(was, now, "The answer")
    assertions = parse_assertions(items)
    assert all(item["title"].startswith("To check: ") for item in items)
    outcomes = evaluate(assertions, State(was, now, "It is the answer."))
    assert [one["result"] for one in outcomes] == ["pass"] * len(items)
    # Undone, not one of them holds but that nothing else changed.
    undone = evaluate(assertions, State(was, was, ""))
    assert [one["result"] for one in undone].count("pass") == 1
    more = evaluate(assertions, State(was, {**now, "kept": "5"}, "The answer"))
    assert [one["result"] for one in more].count("fail") == 1
    assert query_of(("a:list", "0", "x"), {"a:list": [{"x": 1}]}) == '"a:list"[0]."x"'
