"""`browser-gym export`: its samples against the rows they are made of."""

import base64
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from browser_gym.cli import app
from browser_gym.exporting.run import Choice, Counts, run_export
from browser_gym.exporting.samples import Format, Sample
from browser_gym.exporting.writers import read_samples
from browser_gym.tests.rows import Episode, Json, Turn, episodes, picture, text, write

FORMATS = get_args(Format)
EXAMPLES = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TWO = Episode([Turn("One."), Turn("Two.")])
CUT = Episode([Turn("One."), Turn("Two.", new_segment=True)], repeat=1)


def exported(
    folder: Path, rows: list[Json], form: Format, suffix: str = ".jsonl", **choice: Any
) -> tuple[list[Sample], Counts]:
    output = folder / f"{form}{suffix}"
    counts = run_export([write(folder, rows)], output, Choice(form, **choice))
    told = json.loads(output.with_suffix(".counts.json").read_text())
    assert told == {"format": form, **counts.as_json()}
    return list(read_samples(output)), counts


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@EXAMPLES
@given(several=st.lists(episodes, max_size=4))
def test_sequences_are_the_segments(tmp_path: Path, several: list[Episode]) -> None:
    """What a trainer learns from is what was sampled, in its place; nothing is lost or doubled."""
    rows = [episode.row() for episode in several]
    segmented, counts = exported(tmp_path, rows, "segmented")
    whole, _ = exported(tmp_path, rows, "whole")
    assert counts.exported + sum(counts.left_out.values()) == counts.rollouts == len(rows)
    assert counts.samples == len(segmented)

    valid = [row for row in rows if "segments" in row and not row["mask_sample"]]
    expected = [(row, segment) for row in valid for segment in row["segments"]]
    assert len(segmented) == len(expected)
    for sample, (row, segment) in zip(segmented, expected, strict=True):
        pieces = groupby(
            zip(sample["loss_mask"], sample["token_ids"], sample["log_probs"], strict=True),
            key=lambda token: token[0],
        )
        found = [(mask, [(token, p) for _, token, p in tokens]) for mask, tokens in pieces]
        steps = segment["steps"]
        assert found == [
            piece
            for step in steps
            for piece in (
                (0, [(token, 0.0) for token in step["new_prompt_token_ids"]]),
                (
                    1,
                    list(
                        zip(step["generation_token_ids"], step["generation_log_probs"], strict=True)
                    ),
                ),
            )
        ]
        assert sample["turns"] == [step["turn"] for step in steps]
        assert sample["images"] == [image for step in steps for image in step["new_images"]]
        assert sample["segments"] == len(row["segments"])
        assert sample["reward"] == row["reward"]
        assert sample["group"] == str(tmp_path / f"run/{row['_ng_task_index']}")
    assert [sample["token_ids"] for sample in whole] == [
        sample["token_ids"] for sample in segmented if sample["segments"] == 1
    ]


@EXAMPLES
@given(several=st.lists(episodes, max_size=4), form=st.sampled_from(FORMATS))
def test_parquet_holds_the_same_samples(
    tmp_path: Path, several: list[Episode], form: Format
) -> None:
    rows = [episode.row() for episode in several]
    as_lines, counts = exported(tmp_path, rows, form, include_masked=True)
    as_table, same = exported(tmp_path, rows, form, ".parquet", include_masked=True)
    assert as_table == as_lines
    assert same == counts


@EXAMPLES
@given(episode=episodes)
def test_chats_hold_each_reply_once(tmp_path: Path, episode: Episode) -> None:
    rows = [episode.row()]
    stepwise, _ = exported(tmp_path, rows, "stepwise", include_masked=True)
    [chat], _ = exported(tmp_path, rows, "sft", include_masked=True)
    turns = episode.turns

    replies = [m for m in chat["messages"] if m["role"] == "assistant"]
    assert ["".join(p["text"] for p in m["content"]) for m in replies] == [t.text for t in turns]
    assert [m.get("reasoning_content", "") for m in replies] == [t.thought for t in turns]
    assert ["tool_calls" in m for m in replies] == [t.call for t in turns]
    assert chat["images"] == [episode.image(turn) for turn in range(len(turns))]
    pictures = [p for m in chat["messages"] for p in m["content"] if p["type"] == "image"]
    assert len(pictures) == len(turns)

    assert [sample["completion"] for sample in stepwise] == [[reply] for reply in replies]
    for turn, sample in enumerate(stepwise):
        assert sample["images"] == [episode.image(turn)]
        parts = [p for m in sample["prompt"] for p in m["content"]]
        assert [p for p in parts if p["type"] == "image"] == [{"type": "image"}]
        assert sum(p.get("text") == "[screenshot omitted]" for p in parts) == turn
        assert sample["reward"] == episode.reward

    alone = {s["steps"][0]["turn"]: s["steps"] for s in episode.segments() if len(s["steps"]) == 1}
    for turn, sample in enumerate(stepwise):
        has_tokens = "token_ids" in sample
        assert has_tokens == (episode.tokens and turn in alone)
        if has_tokens:
            [step] = alone[turn]
            ids = step["new_prompt_token_ids"] + step["generation_token_ids"]
            assert sample["token_ids"] == ids


def test_a_reply_that_saw_more_has_no_tokens_as_a_step(tmp_path: Path) -> None:
    """The sample shows one screenshot, and those tokens stand for two."""
    row = CUT.row()
    row["segments"][1]["steps"][0]["new_images"].insert(0, CUT.image(0))
    steps, _ = exported(tmp_path, [row], "stepwise")
    assert ["token_ids" in sample for sample in steps] == [True, False]


def test_steps_have_no_tokens_where_replies_cannot_be_told_apart(tmp_path: Path) -> None:
    """A turn without an item would shift those of all behind it, whose screen is the same."""
    row = Episode([Turn(new_segment=True) for _ in range(3)]).row()
    row["response"]["output"].pop(2)
    row = json.loads(re.sub(r"0-0-\d", "0-0-0", json.dumps(row)))
    steps, _ = exported(tmp_path, [row], "stepwise")
    assert ["token_ids" in sample for sample in steps] == [False, False]


def test_why_rollouts_are_left_out(tmp_path: Path) -> None:
    lost = {"mask_sample": True, "failure_kind": "session_lost", "failure_reason": "It died."}
    nan = Episode([Turn()], repeat=4).row()
    nan["segments"][0]["steps"][0]["generation_log_probs"][0] = float("nan")
    short = Episode([Turn()], repeat=5).row()
    short["segments"][0]["steps"][0]["generation_log_probs"].pop()
    named = Episode([Turn()], repeat=7).row()
    named["segments"][0]["steps"][0]["new_prompt_token_ids"][0] = "token_id:1"
    foreign = Episode([Turn()], tokens=False).row()
    foreign["response"]["output"].append({"type": "web_search_call", "id": "w"})
    rows = [
        TWO.row(),
        CUT.row(),
        Episode([Turn()], repeat=2, tokens=False, more=lost).row(),
        Episode([Turn()], repeat=3, tokens=False, reward=0).row(),
        nan,
        short,
        named,
        foreign,
        Episode([Turn()], repeat=6, more={"instance_config": {"mask_sample": True}}).row(),
    ]
    _, counts = exported(tmp_path, rows, "whole")
    assert counts.left_out == {
        "masked: unknown": 1,
        "several segments": 1,
        "masked: session_lost": 1,
        "no token ids": 2,
        "unusable token ids": 3,
    }
    path = tmp_path / "run.jsonl"
    assert counts.first["masked: session_lost"] == f"{path}:3: It died."
    where = "segments[0].steps[0].generation_log_probs"
    assert counts.first["unusable token ids"] == f"{path}:5: {where} holds what is no finite number"

    _, counts = exported(tmp_path, rows, "sft", min_reward=1)
    assert counts.left_out == {
        "masked: unknown": 1,
        "masked: session_lost": 1,
        "reward below 1": 1,
        "something that chats do not have": 1,
    }
    (tmp_path / TWO.image(1)).unlink()
    samples, counts = exported(tmp_path, [TWO.row()], "whole")
    assert samples  # write() has made it again
    (tmp_path / TWO.image(1)).unlink()
    counts = run_export([path], tmp_path / "again.jsonl", Choice("whole"))
    assert counts.left_out == {"a missing image": 1}
    assert (
        f"{TWO.image(1)} is no image file, seen from {tmp_path}; keep"
        in counts.first["a missing image"]
    )


def test_images_hold_from_the_output_on(tmp_path: Path) -> None:
    row = TWO.row()
    path = write(tmp_path / "runs", [row])
    output = tmp_path / "out" / "train.jsonl"
    run_export([path], output, Choice("sft"))
    [sample] = read_samples(output)
    assert sample["images"] == [f"../runs/{TWO.image(turn)}" for turn in range(2)]

    data = base64.b64encode(picture("data")).decode()
    parts = row["responses_create_params"]["input"][1]["content"]
    parts[1]["image_url"] = f"data:image/jpeg;base64,{data}"
    row["first_observation"]["screenshot"] = parts[1]["image_url"]
    row["response"]["output"][1]["content"][1]["image_url"] = (
        (tmp_path / "runs" / TWO.image(1)).resolve().as_uri()
    )
    parts.append({"type": "input_image", "image_url": "https://example.com/a.png"})
    path.write_text(json.dumps(row) + "\n")
    run_export([path], output, Choice("sft", images="copy"))
    [sample] = read_samples(output)
    first, web, second = sample["images"]
    assert web == "https://example.com/a.png"
    assert (output.parent / first).read_bytes() == picture("data")
    assert (output.parent / second).read_bytes() == picture(TWO.image(1))
    assert {Path(image).parent.name for image in (first, second)} == {"train_images"}
    run_export([path], output, Choice("sft"))
    [sample] = read_samples(output)
    assert sample["images"][0] == parts[1]["image_url"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_half_a_surrogate_pair_can_be_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, [Episode([Turn(text="\ud83d!")]).row()])
    run_export([path], tmp_path / name, Choice("sft"))
    (sample,) = read_samples(tmp_path / name)
    assert sample["messages"][-1]["content"] == [{"type": "text", "text": "\ufffd!"}]


def test_rows_that_name_no_task_are_no_group(tmp_path: Path) -> None:
    nameless = Episode([Turn()], more={"verifier_metadata": {}}).row()
    del nameless["_ng_task_index"]
    samples, _ = exported(tmp_path, [nameless, nameless], "whole")
    assert [sample["group"] for sample in samples] == [
        f"{tmp_path / 'run'}/line 1",
        f"{tmp_path / 'run'}/line 2",
    ]


def test_rows_of_other_agents(tmp_path: Path) -> None:
    """Without token ids they are chats; with ids on their items alone they are sequences too."""
    call = {"type": "computer_call", "call_id": "c0", "status": "completed"}
    call |= {"actions": [{"type": "click", "x": 1, "y": 2, "keys": None}]}
    shown = {"type": "computer_screenshot", "image_url": "artifacts/b.jpg", "text": "A dialog."}
    done = {"type": "message", "role": "assistant", "content": [text("Done.")]}
    row = {
        "responses_create_params": {"input": "Do it.", "instructions": "Be brief."},
        "first_observation": {"screenshot": "artifacts/a.jpg"},
        "response": {
            "output": [
                {"type": "reasoning", "summary": [], "content": None},
                call,
                {"type": "computer_call_output", "call_id": "c0", "output": shown},
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "user", "content": "Go on."},
                done,
            ]
        },
        "turns": [{"index": 0}, {"index": 1, "nudged": True}, {"index": 2}],
        "reward": 1,
    }
    [sample], _ = exported(tmp_path, [row], "sft")
    function = {"name": "computer", "arguments": '{"actions": [{"type": "click", "x": 1, "y": 2}]}'}
    words, picture = [{"type": "text", "text": "Do it."}], {"type": "image"}
    assert sample["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [*words, picture]},
        {
            "role": "assistant",
            "content": [],
            "tool_calls": [{"id": "c0", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": "c0",
            "content": [{"type": "text", "text": "A dialog."}, picture],
        },
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]
    assert sample["images"] == ["artifacts/a.jpg", "artifacts/b.jpg"]
    steps, _ = exported(tmp_path, [row], "stepwise")
    assert [sample["turn"] for sample in steps] == [0, 2]

    def ids(prompt: list[int], generated: list[int]) -> Json:
        return {
            "prompt_token_ids": prompt,
            "generation_token_ids": generated,
            "generation_log_probs": [-0.5] * len(generated),
        }

    row["response"]["output"][1] |= ids([1, 2], [3])
    row["response"]["output"][5] |= ids([1, 2, 3, 4], [5, 6])
    [sample], _ = exported(tmp_path, [row], "whole")
    assert sample["token_ids"] == [1, 2, 3, 4, 5, 6]
    assert sample["loss_mask"] == [0, 0, 1, 0, 1, 1]
    assert sample["images"] == ["artifacts/b.jpg"]
    row["response"]["output"][5] |= ids([1, 2, 9, 4], [5, 6])
    _, counts = exported(tmp_path, [row], "segmented")
    assert counts.left_out == {"unusable token ids": 1}


def test_the_command(tmp_path: Path) -> None:
    path = write(tmp_path, [TWO.row(), Episode([Turn()], repeat=1, reward=0).row()])
    output = tmp_path / "sft.parquet"
    result = run("export", path, "--format", "sft", "-o", output)
    assert result.exit_code == 0, result.output
    assert f"{output}: 1 samples of 1 of 2 rollouts" in result.output
    assert f"left out, reward below 1: 1; first {path}:2" in result.output
    assert len(list(read_samples(output))) == 1
    assert {p.name for p in tmp_path.glob("sft*")} == {"sft.parquet", "sft.counts.json"}

    result = run("export", path, "--format", "sft", "-o", output, "--min-reward", "2")
    assert result.exit_code == 1
    assert "nothing to export" in result.output


@pytest.mark.parametrize(
    ("content", "output", "told"),
    [
        ('{"reward": 1', "a.jsonl", "run.jsonl:1: is no JSON"),
        ("[1]", "a.jsonl", "run.jsonl:1: is no rollout row: it has no `response` and `reward`"),
        ('{"reward": null, "response": {}}', "a.jsonl", "run.jsonl:1: `reward` is None"),
        ('{"reward": NaN, "response": {}}', "a.jsonl", "run.jsonl:1: `reward` is nan"),
        ("[" * 100_000, "a.jsonl", "run.jsonl:1: is no JSON"),
        ('{"reward": 1, "response": {}}', "a.jsonl", "run.jsonl:1: a field is not as agents write"),
        ("", "a.csv", "give a name that ends in .jsonl or .parquet"),
        ("", "run.jsonl", "is one of the rollout files"),
        (None, "a.jsonl", "run.jsonl: cannot be read: No such file"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, content: str | None, output: str, told: str
) -> None:
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_text(content)
    result = run("export", path, "--format", "sft", "-o", tmp_path / output)
    assert result.exit_code == 1
    assert told in " ".join(result.output.split())
    assert {p.name for p in tmp_path.iterdir()} <= {"run.jsonl"}
