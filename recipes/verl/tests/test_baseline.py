"""Advantages of valid rollouts alone; without verl."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.verl.baseline import Advantages, Rollouts, group_advantages


@dataclass(frozen=True)
class Row:
    group: str
    session: int
    score: float
    valid: bool = True
    position: int = 0


def advantages(rows: list[Row], **options: float | bool | None) -> Advantages:
    return group_advantages(
        [row.score for row in rows],
        Rollouts(
            [row.group for row in rows],
            [row.session for row in rows],
            [row.position for row in rows],
            [row.valid for row in rows],
        ),
        **options,  # type: ignore[arg-type]
    )


def rollouts(*scores: float, group: str = "a", valid: bool = True, first: int = 0) -> list[Row]:
    return [Row(group, first + index, score, valid) for index, score in enumerate(scores)]


REWARDS = st.sampled_from([0.0, 0.25, 0.5, 1.0])
GROUPS = st.sampled_from("abc")


@st.composite
def _batches(draw: st.DrawFn) -> list[Row]:
    """Return valid rollouts of some groups, of one to three segments each."""
    batch = []
    for session in range(draw(st.integers(0, 12))):
        group, score = draw(GROUPS), draw(REWARDS)
        for position in range(draw(st.integers(1, 3))):
            batch.append(Row(group, session, score, position=position))
    return draw(st.permutations(batch))


@st.composite
def _invalid_rows(draw: st.DrawFn) -> list[Row]:
    scores = st.floats(-1e6, 1e6) | st.just(float("nan"))
    count = draw(st.integers(0, 8))
    return [Row(draw(GROUPS), 100 + n, draw(scores), valid=False) for n in range(count)]


@settings(max_examples=60, deadline=None)
@given(_batches(), _invalid_rows(), _invalid_rows(), st.booleans(), st.randoms())
def test_invalid_rollouts_change_nothing_for_the_valid_ones(
    valid: list[Row], some: list[Row], others: list[Row], by_std: bool, random: object
) -> None:
    alone = advantages(valid, by_std=by_std)
    for invalid in (some, others):
        mixed = [*valid, *invalid]
        random.shuffle(mixed)  # type: ignore[attr-defined]
        with_them = advantages(mixed, by_std=by_std, max_invalid_share=1)
        found = {id(row): value for row, value in zip(mixed, with_them.values, strict=True)}
        assert [found[id(row)] for row in valid] == pytest.approx(alone.values.tolist())
        assert all(found[id(row)] == 0 for row in invalid)
        assert with_them.invalid == len(invalid)


@settings(max_examples=40, deadline=None)
@given(_batches())
def test_a_rollout_counts_once_and_all_its_segments_have_its_advantage(rows: list[Row]) -> None:
    single = {(row.group, row.session): Row(row.group, row.session, row.score) for row in rows}
    alone = dict(zip(single, advantages([*single.values()]).values, strict=True))
    for row, value in zip(rows, advantages(rows).values, strict=True):
        assert value == pytest.approx(alone[row.group, row.session])


def test_the_last_segment_speaks_for_its_rollout() -> None:
    segments = [Row("a", 0, 1.0, position=1), Row("a", 0, 0.3, position=0)]
    found = advantages([*segments, Row("a", 1, 0.0)], by_std=False).values
    assert found.tolist() == [0.5, 0.5, -0.5]


def test_the_numbers() -> None:
    assert advantages(rollouts(1, 0, 0, 1), by_std=False).values.tolist() == [0.5, -0.5, -0.5, 0.5]
    assert advantages(rollouts(1, 0, 0, 1)).values == pytest.approx(
        np.array([1, -1, -1, 1]) * 0.5 / np.std([1, 0, 0, 1], ddof=1), rel=1e-4
    )
    assert advantages(rollouts(1, 1, 1)).values.tolist() == [0, 0, 0]
    assert advantages([]).values.tolist() == []


def test_a_group_with_too_few_valid_rollouts_is_idle() -> None:
    one = advantages([*rollouts(1), *rollouts(0, 0, valid=False, first=1)])
    assert one.values.tolist() == [0, 0, 0]
    assert (one.groups, one.idle_groups, one.rollouts, one.invalid) == (1, 1, 3, 2)

    mixed = [*rollouts(1, 0), *rollouts(0, 0, valid=False, first=2)]
    assert advantages(mixed).idle_groups == 0
    assert advantages(mixed, max_invalid_share=0.4).idle_groups == 1
    assert advantages(mixed, min_valid=3).values.tolist() == [0, 0, 0, 0]
    # Those that were left out count too.
    left_out = advantages(rollouts(1, 0), group_size=5)
    assert (left_out.idle_groups, left_out.rollouts, left_out.invalid) == (1, 5, 3)
    assert advantages(rollouts(1, 0), group_size=4).idle_groups == 0
    # One group's trouble is its own.
    both = advantages([*rollouts(1, group="b"), *rollouts(1, 0)], by_std=False)
    assert both.values.tolist() == [0, 0.5, -0.5]
