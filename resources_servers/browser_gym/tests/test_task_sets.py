import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources_servers.browser_gym.task_sets import (
    jsonl_line,
    sample,
    shuffle,
    split,
    task_set_id,
    write_jsonl,
)


def row(task_id: str, category: str | None = None, prompt: str = "p") -> dict[str, Any]:
    metadata = {"task_id": task_id, **({"category": category} if category else {})}
    return {"responses_create_params": {"input": prompt}, "verifier_metadata": metadata}


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["verifier_metadata"]["task_id"] for row in rows]


def categories(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["verifier_metadata"].get("category") for row in rows)


ROW_LISTS = st.lists(
    st.tuples(st.text(min_size=1, max_size=5), st.sampled_from(["a", "b", "c", None])),
    min_size=1,
    max_size=40,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: [row(*pair) for pair in pairs])
SHARES = {"train": Fraction(7, 10), "validation": Fraction(2, 10), "test": Fraction(1, 10)}
FORTY = [row(f"T-{index:02}", "abcd"[index % 4]) for index in range(40)]


# Identity


def test_a_task_set_is_known_by_its_rows_not_their_order_or_spelling():
    reordered_keys = [dict(reversed(row.items())) for row in FORTY]

    assert task_set_id(FORTY) == task_set_id(FORTY[::-1]) == task_set_id(reordered_keys)
    assert len(task_set_id(FORTY)) == 12
    assert int(task_set_id(FORTY), 16) >= 0


@pytest.mark.parametrize(
    "other", [FORTY[:-1], [*FORTY, FORTY[0]], [*FORTY[:-1], row("T-39", "d", "q")], []]
)
def test_other_rows_are_another_task_set(other: list[dict[str, Any]]):
    assert task_set_id(other) != task_set_id(FORTY)


def test_the_identity_does_not_change_between_versions():
    assert task_set_id([row("T-1", "a", "é \ud800")]) == "59ece3721acd"


# Order


def test_a_shuffle_is_a_permutation_set_by_the_seed():
    assert shuffle(FORTY, 1) == shuffle(FORTY[::-1], 1)
    assert shuffle(FORTY, 1) != shuffle(FORTY, 2)
    assert shuffle(FORTY, 1) != FORTY
    assert sorted(ids(shuffle(FORTY, 1))) == ids(FORTY)


def test_a_new_task_leaves_the_others_in_their_order():
    order = [task for task in ids(shuffle([*FORTY, row("NEW")], 1)) if task != "NEW"]

    assert order == ids(shuffle(FORTY, 1))


# Splits and samples


@given(ROW_LISTS, st.integers(0, 5))
def test_every_task_is_in_exactly_one_set_and_the_sizes_are_the_shares(
    rows: list[dict[str, Any]], seed: int
):
    parts = split(rows, SHARES, seed)

    assert sorted(ids([row for part in parts.values() for row in part])) == sorted(ids(rows))
    for name, share in SHARES.items():
        assert abs(len(parts[name]) - share * len(rows)) < 1
        assert parts[name] == [row for row in rows if row in parts[name]], "in the given order"


@given(ROW_LISTS, st.integers(0, 5))
def test_each_category_is_split_in_proportion(rows: list[dict[str, Any]], seed: int):
    parts = split(rows, SHARES, seed)

    for category, total in categories(rows).items():
        for name, share in SHARES.items():
            assert abs(categories(parts[name])[category] - share * total) < 2


@given(ROW_LISTS, st.data())
def test_a_sample_has_its_size_and_the_categories_in_proportion(
    rows: list[dict[str, Any]], data: st.DataObject
):
    size = data.draw(st.integers(1, len(rows)))

    picked = sample(rows, size, seed=3)

    assert len(picked) == len({*ids(picked)}) == size
    for category, total in categories(rows).items():
        assert abs(categories(picked)[category] - Fraction(size * total, len(rows))) <= 1


@pytest.mark.parametrize("size", [0, -1, 41])
def test_a_sample_that_cannot_be_had_is_refused(size: int):
    with pytest.raises(ValueError, match=f"cannot sample {size} of 40"):
        sample(FORTY, size, seed=0)


def test_the_seed_chooses_the_sets():
    assert split(FORTY, SHARES, 1) == split(FORTY, SHARES, 1)
    assert split(FORTY, SHARES, 1) != split(FORTY, SHARES, 2)
    assert {*ids(split(FORTY[::-1], SHARES, 1)["test"])} == {*ids(split(FORTY, SHARES, 1)["test"])}


def test_a_new_task_moves_few_others_to_another_set():
    def set_of(rows: list[dict[str, Any]]) -> dict[str, str]:
        return {task: name for name, part in split(rows, SHARES, 1).items() for task in ids(part)}

    before, after = set_of(FORTY), set_of([*FORTY, row("NEW", "a")])
    moved = [task for task in before if before[task] != after[task]]

    assert len(moved) <= 2 * len(categories(FORTY))


# Files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


NASTY = "a\u2028b\u2029c\u0085d\x0be\x1cf\ud800 🚀\nend"


def test_a_line_has_no_other_line_break_in_it(tmp_path: Path):
    path = tmp_path / "tasks.jsonl"

    write_jsonl({path: [row("T-1", prompt=NASTY), row("T-2")]})

    data = path.read_bytes()
    lines = data.decode("utf-8").splitlines()
    assert data.count(b"\n") == len(lines) == 2
    assert b"\r" not in data
    assert data.endswith(b"}\n")
    assert json.loads(lines[0])["responses_create_params"]["input"] == NASTY


@given(st.text())
def test_any_text_survives_as_one_line(text: str):
    line = jsonl_line(row("T-1", prompt=text)).decode("utf-8")

    assert len(line.splitlines()) == 1
    assert json.loads(line)["responses_create_params"]["input"] == text


def test_text_stays_readable():
    assert "Grüße 🚀".encode() in jsonl_line(row("T-1", prompt="Grüße 🚀"))


def test_folders_are_made_and_an_old_file_is_replaced(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "tasks.jsonl"

    write_jsonl({path: FORTY})
    write_jsonl({path: FORTY[:1]})

    assert path.read_bytes().count(b"\n") == 1
    assert names(path.parent) == ["tasks.jsonl"]


def test_a_link_stays_a_link(tmp_path: Path):
    (tmp_path / "real.jsonl").write_text("old")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")

    write_jsonl({link: FORTY[:1]})

    assert link.is_symlink()
    assert (tmp_path / "real.jsonl").read_bytes() == jsonl_line(FORTY[0])


def test_a_failure_leaves_every_old_file_and_no_other(tmp_path: Path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text("old first")
    second.write_text("old second")
    unwritable = row("T-1")
    unwritable["verifier_metadata"]["note"] = object()

    with pytest.raises(TypeError):
        write_jsonl({first: FORTY, second: [*FORTY, unwritable]})

    assert first.read_text() == "old first"
    assert second.read_text() == "old second"
    assert names(tmp_path) == ["first.jsonl", "second.jsonl"]


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path):
    (tmp_path / "tasks.jsonl").mkdir()

    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_jsonl({tmp_path / "first.jsonl": FORTY, tmp_path / "tasks.jsonl": FORTY})

    assert names(tmp_path) == ["tasks.jsonl"]
