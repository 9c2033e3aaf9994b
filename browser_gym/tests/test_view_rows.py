"""What the viewer makes of rows, and how it finds them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from browser_gym.rollouts import Rollout, UnusableInput
from browser_gym.tests import viewed
from browser_gym.viewer.actions import Pointer, describe
from browser_gym.viewer.index import RolloutFile
from browser_gym.viewer.pictures import read_picture
from browser_gym.viewer.steps import Gallery, steps_of
from browser_gym.viewer.storage import storage_of
from browser_gym.viewer.trajectory import trajectory_of
from resources_servers.browser_gym.actions import ACTION_MODELS
from resources_servers.browser_gym.verification.contract import Evidence
from resources_servers.browser_gym.verification.evidence_store import EvidenceStore


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"type": "click", "x": 10, "y": 20.5}, "click at 10, 20.5"),
        (
            {"type": "click", "button": "right", "count": 2, "modifiers": ["Shift"], "ref": "e1"},
            "click right ×2 on e1 (Shift)",
        ),
        ({"type": "click"}, "click"),
        (
            {"type": "drag", "path": [None, {"x": 1, "y": 2}, {"x": 3, "y": 4}]},
            "drag the pointer to 3, 4",
        ),
        (
            {"type": "scroll", "x": 1, "y": 2, "dx": -5, "dy": 600},
            "scroll 600 px down, 5 px left at 1, 2",
        ),
        (
            {"type": "type", "text": "a", "clear_first": True, "press_enter": True},
            "type “a” replacing what is there then Enter",
        ),
        ({"type": "key", "chords": [["Control", "a"], ["Delete"]]}, "key Control+a, Delete"),
        ({"type": "key", "chords": [["Tab"]], "repeat": 3}, "key Tab ×3"),
        ({"type": "hold_key", "keys": ["a"], "duration_ms": 50}, "hold key a for 50 ms"),
        ({"type": "wait", "ms": 2000}, "wait 2000 ms"),
        ({"type": "navigate", "url": "http://a/"}, "navigate http://a/"),
        ({"type": "switch_tab", "index": 0}, "switch tab 0"),
        ({"type": "set_value", "ref": "e2", "value": True}, "set value true on e2"),
        (
            {"type": "zoom", "region": {"x0": 1, "y0": 2, "x1": 30, "y1": 40}},
            "zoom into 1, 2 – 30, 40",
        ),
        ({"type": "made_up", "depth": [1]}, "made up depth=[1]"),
    ],
)
def test_an_action_in_words(action: dict[str, Any], words: str):
    assert describe(action) == words


def test_every_action_has_words():
    assert all(describe({"type": name}).startswith(name.split("_")[0]) for name in ACTION_MODELS)


def test_marks_follow_the_pointer():
    pointer = Pointer()
    press = {"kind": "press", "at": [5, 6], "text": "click"}
    assert pointer.marks({"type": "type", "text": "a"})[0]["at"] is None
    assert pointer.marks({"type": "click", "x": 5, "y": 6}) == [press]
    assert pointer.marks({"type": "click"}) == [press]
    assert pointer.marks({"type": "type", "text": "a"})[0]["at"] == [5, 6]
    dragged = pointer.marks({"type": "drag", "path": [None, {"x": 7, "y": 8}]})
    assert dragged == [{"kind": "path", "points": [[5, 6], [7, 8]], "text": "drag"}]
    scrolled = pointer.marks({"type": "scroll", "dy": 10})
    assert scrolled == [{"kind": "scroll", "at": [7, 8], "by": [0, 10], "text": "10 px down"}]
    # An element's place is not on the row, so nothing is known from here on.
    assert pointer.marks({"type": "click", "ref": "e1"})[0]["kind"] == "note"
    assert pointer.marks({"type": "click"})[0]["kind"] == "note"


def test_a_step_is_drawn_on_what_the_model_saw():
    gallery = Gallery()
    steps = steps_of(viewed.row("T-1", turns=7), gallery)
    assert gallery.references == [f"artifacts/{number}.jpg" for number in range(8)]
    assert [step["pictures"][0]["image"] for step in steps] == list(range(7))
    assert [step["pictures"][-1]["image"] for step in steps] == list(range(1, 8))
    assert [mark["kind"] for step in steps for mark in step["pictures"][0]["marks"]] == [
        *("press", "note", "note", "path", "scroll", "note", "region", "press"),
    ]
    # What a zoom showed is a part of the viewport, in the step behind it too.
    assert steps[5]["pictures"][0]["region"] is None
    assert steps[5]["pictures"][1]["region"] == [0, 0, 640, 360]
    assert steps[6]["pictures"][0]["region"] == [0, 0, 640, 360]
    assert steps[6]["pictures"][1]["region"] is None


def test_calls_with_screenshots_of_their_own_are_drawn_each_on_its_own():
    row = viewed.row("T-1", turns=1)
    first = row["turns"][0]["calls"][0]
    second = first | {"call_id": "two", "actions": [{"type": "move", "x": 1, "y": 2}]}
    row["turns"][0]["calls"] = [first, second]
    shot = {"type": "computer_screenshot", "image_url": "artifacts/between.jpg"}
    row["response"]["output"][1]["output"] = shot
    gallery = Gallery()
    (step,) = steps_of(row, gallery)
    shown = [(gallery.references[p["image"]], len(p["marks"])) for p in step["pictures"]]
    assert shown == [("artifacts/0.jpg", 1), ("artifacts/between.jpg", 1), ("artifacts/1.jpg", 0)]


def test_rows_of_other_agents_have_steps_too():
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "browser_click",
        "arguments": '{"a": 1}',
    }
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        call,
        {"type": "function_call_output", "call_id": "c", "output": "clicked"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "a.png"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Done."}],
        },
    ]
    gallery = Gallery()
    one, two = steps_of({"response": {"output": items}}, gallery)
    assert one["reasoning"] == "Hm."
    assert one["calls"][0]["actions"][0]["text"].startswith("browser click arguments=")
    assert one["calls"][0]["texts"] == ["clicked"]
    assert gallery.references == ["a.png"]
    assert two["message"] == "Done."
    assert two["pictures"][0]["image"] == 0


async def test_storage_is_compared_where_the_evidence_is_there(tmp_path: Path):
    evidence = Evidence(
        start_origin="http://a",
        initial={"http://a": {"n": "1", "l": '{"x": [1, 2], "y/z": 3}', "gone": "a"}},
        final={"http://a": {"n": "1", "l": '{"x": [1, 5, 6], "y/z": 4}', "new": "b"}},
        answer="",
    )
    reference = await EvidenceStore(tmp_path, Path("/")).save(evidence)
    row = {"deliverables_dir": reference, "final_local_storage": {"n": "1"}}
    stored = await asyncio.to_thread(storage_of, row)
    assert stored == {
        "origin": "http://a",
        "more": 0,
        "changes": [
            {"path": "/gone", "before": "a"},
            {"path": "/l/x/1", "before": "2", "after": "5"},
            {"path": "/l/x/2", "after": "6"},
            {"path": "/l/y~1z", "before": "3", "after": "4"},
            {"path": "/new", "after": "b"},
        ],
    }
    (tmp_path / Path(reference).name / "evidence.json.gz").write_bytes(b"other")
    assert await asyncio.to_thread(storage_of, row) == {"final": {"n": "1"}}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
_numbers = st.none() | st.floats() | st.text(max_size=3)
_actions = st.fixed_dictionaries(
    {"type": st.sampled_from([*ACTION_MODELS]) | _json},
    optional=dict.fromkeys(("x", "y", "dx", "path", "region", "chords", "ref"), _json | _numbers),
)
_calls = st.fixed_dictionaries(
    {},
    optional={"actions": st.lists(_actions, max_size=3) | _json}
    | dict.fromkeys(("results", "texts", "events", "timings_ms", "tabs", "safety_checks"), _json),
)
_turns = st.fixed_dictionaries(
    {},
    optional={"calls": st.lists(_calls, max_size=2) | _json}
    | dict.fromkeys(("message", "usage", "url", "screenshot", "timings_ms"), _json),
)
_rows = st.fixed_dictionaries(
    {"response": _json, "reward": st.floats()},
    optional={"turns": st.lists(_turns, max_size=2) | _json}
    | dict.fromkeys(
        (
            *("responses_create_params", "verification_result", "final_local_storage"),
            *("first_observation", "agent_ref", "failure_kind", "total_seconds", "final_answer"),
        ),
        _json,
    ),
)


@settings(max_examples=60, deadline=None)
@given(_rows)
def test_any_row_can_be_shown(row: dict[str, Any]):
    trajectory, images = trajectory_of(Rollout(row, Path("run.jsonl"), 1))
    json.dumps(trajectory, allow_nan=False)
    assert all(isinstance(reference, str) for reference in images)


def test_the_index_finds_rows_and_goes_on_where_it_was(tmp_path: Path):
    rows = [viewed.row("A"), viewed.row("B", turns=2), viewed.row("C", reward=0.5)]
    lines = [json.dumps(row) for row in rows]
    path = tmp_path / "run.jsonl"
    path.write_text(f"{lines[0]}\n\n{lines[1]}\n{lines[2][:100]}")
    file = RolloutFile(path)
    file.read_on()
    assert [(one["line"], one["task"]) for one in file.summaries] == [(1, "A"), (3, "B")]
    assert file.row(1).row == rows[1]
    with path.open("a") as more:
        more.write(lines[2][100:])
    file.read_on()
    file.read_on()
    assert [(one["line"], one["reward"]) for one in file.summaries[2:]] == [(4, 0.5)]
    assert file.row(2).row == rows[2]
    path.write_text(f"{lines[2]}\n")
    file.read_on()
    assert [one["task"] for one in file.summaries] == ["C"]
    assert file.generation == 1
    path.write_text(f"{lines[0]}\n{lines[1]}\n{lines[2]}\n")
    file.read_on()
    assert [one["task"] for one in file.summaries] == ["A", "B", "C"]
    assert file.generation == 2
    path.write_text(f"{lines[2]}\nno row\n")
    with pytest.raises(UnusableInput, match=r"run\.jsonl:2: is no JSON"):
        file.read_on()


def test_only_images_are_read(tmp_path: Path):
    image = viewed.picture("x")
    (tmp_path / "shot.jpg").write_bytes(image)
    (tmp_path / "secret.jpg").write_bytes(b"root:x:0:0")
    data = f"data:image/png;base64,{'iVBORw0KGgo='}"
    shot = read_picture("shot.jpg", tmp_path)
    assert shot is not None
    assert (shot.data, shot.media_type) == (image, "image/jpeg")
    assert read_picture((tmp_path / "shot.jpg").as_uri(), Path("/")) == shot
    png = read_picture(data, tmp_path)
    assert png is not None
    assert png.media_type == "image/png"
    for reference in (
        "secret.jpg",
        "no.jpg",
        ".",
        "/dev/zero",
        "a\0b",
        "data:image/png;base64,=",
        "",
    ):
        assert read_picture(reference, tmp_path) is None
