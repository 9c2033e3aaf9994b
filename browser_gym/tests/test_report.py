"""`browser-gym report`."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from browser_gym.cli import app
from browser_gym.reporting.costs import Pricing
from browser_gym.reporting.figures import compare, figures
from browser_gym.reporting.intervals import (
    FEW_TASKS,
    Interval,
    difference_interval,
    success_interval,
    wilson,
)
from browser_gym.reporting.outcomes import outcome_of
from browser_gym.reporting.runs import Run
from browser_gym.rollouts import Rollout
from browser_gym.tests.rows import Episode, Json, Turn, write

EXAMPLES = Path("resources_servers/browser_gym/data/example_rollouts.jsonl")
HOSTILE = '_$\\frac{$</script><img src=x onerror=alert(1)>--> [red]"\x1b]0;\u202e'


def row(task: int, repeat: int, reward: float, **more: Any) -> Json:
    made = Episode([Turn()], task, repeat, reward, tokens=False, more=more).row()
    made["response"] |= {"model": "gpt-5.4-2026-03-05", "created_at": 1796034408.0}
    made["response"]["usage"] = {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 400},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    return {"agent_ref": {"name": "agent"}, "category": "ab"[task % 2], **made, **more}


def masked(task: int, repeat: int, **more: Any) -> Json:
    kind = {"mask_sample": True, "failure_kind": "session_lost", "termination_reason": "failure"}
    return row(task, repeat, 0.0, **kind, **more)


ROWS = [
    row(0, 0, 1.0, num_turns=2, total_seconds=10.0, cost_usd=0.5),
    row(0, 1, 0.0, num_turns=4, total_seconds=30.0, cost_usd=0.25, termination_reason="loop"),
    row(1, 0, 1.0, num_turns=3, total_seconds=20.0, cost_usd=0.25),
    masked(1, 1, num_turns=9, total_seconds=500.0, cost_usd=1.0),
    row(2, 0, 0.0, cost_usd=0.0, attempts=[{"failure_kind": "session_lost", "cost_usd": 2.0}]),
]


def run(*arguments: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.output


def test_the_figures(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    told = json.loads(run(path, "--json"))
    (only,) = told["runs"]
    assert (only["name"], only["models"]) == ("run", ["gpt-5.4-2026-03-05"])
    got = only["figures"]
    assert got["interval"].pop("method") == "wilson"
    # Wilson's for 1.5 of 3: the middle is 1/2, half the width z sqrt(1/12 + z²/36) / (1 + z²/3).
    assert got.pop("interval") == pytest.approx({"low": 0.125334, "high": 0.874666}, abs=1e-5)
    assert got == {
        "tasks": 3,
        "rollouts": 5,
        "valid": 4,
        "solved": 2,
        "success_rate": 0.5,
        "mean_reward": 0.5,
        # Of the tasks' rates 1/2, 1 and 0; only the first task has two valid rollouts.
        "pass_at_k": {"pass@1": pytest.approx(0.5), "pass@2": 1.0},
        "masked": {"session_lost": 1},
        "masked_share": 0.2,
        "failed_attempts": {"session_lost": 1},
        "terminations": {"finished": 3, "loop": 1},
        "steps_mean": 3.0,
        "steps_median": 3.0,
        "seconds_mean": 20.0,
        "model_seconds_mean": None,
        "browser_seconds_mean": None,
        "input_tokens_mean": 1000.0,
        "output_tokens_mean": 10.0,
        "tokens_per_solved": 5 * 1010 / 2,
        "cost_usd": 4.0,
        "cost_unknown": 0,
        "cost_per_solved_usd": 2.0,
    }
    assert {name: part[0]["solved"] for name, part in told["groups"].items()} == {"a": 1, "b": 1}
    words = run(path, "--by", "task")
    for part in (
        "2 of 4 valid",
        "session_lost 1",
        "finished 3, loop 1",
        "$2.0000",
        "T-2",
        "wilson",
    ):
        assert part in words


def test_costs(tmp_path: Path) -> None:
    """600 tokens at 2.5, 400 cached ones at 0.25 and 10 of output at 15 USD per million."""
    by_table = (600 * 2.5 + 400 * 0.25 + 10 * 15) / 1e6
    rows = [row(0, 0, 1.0, cost_usd=0.5), row(1, 0, 1.0, cost_usd=None)]
    path = write(tmp_path, rows)
    told = json.loads(run(path, "--json"))
    assert told["runs"][0]["figures"]["cost_usd"] == pytest.approx(0.5 + by_table)
    assert any("of 1 rollouts whose rows tell none" in note for note in told["notes"])
    assert any(str(json.loads(TABLE.read_text())["as_of"]) in note for note in told["notes"])

    own = tmp_path / "prices.json"
    price = {"input": 1, "cached_input": 1, "output": 0}
    own.write_text(json.dumps({"as_of": "2030-01-02", "models": {"gpt-5.4": price}}))
    told = json.loads(run(path, "--json", "--prices", own))
    assert told["runs"][0]["figures"]["cost_usd"] == pytest.approx(2 * 1000 / 1e6)
    assert any("2030-01-02" in note for note in told["notes"])

    unknown = row(2, 0, 1.0)
    unknown["response"]["model"] = "nobody-knows"
    told = json.loads(run(write(tmp_path, [*rows, unknown]), "--json"))["runs"][0]["figures"]
    assert (told["cost_usd"], told["cost_unknown"], told["cost_per_solved_usd"]) == (None, 1, None)


TABLE = Path("responses_api_agents/browser_agent/data/prices.json")


def test_runs_are_compared_on_the_tasks_of_both(tmp_path: Path) -> None:
    old = [*(row(task, 0, 0.0) for task in range(4)), row(9, 0, 1.0)]
    new = [row(0, 0, 1.0), row(0, 1, 0.0), row(1, 0, 1.0), row(2, 0, 0.0), masked(3, 0)]
    paths = [write(tmp_path, old, "old.jsonl"), write(tmp_path, new, "new.jsonl")]
    (told,) = json.loads(run(*paths, "--json"))["comparisons"]
    interval = told.pop("interval")
    assert told == {
        "run": "new",
        "baseline": "old",
        "tasks": 3,
        "difference": pytest.approx(0.5),
        "better": 2,
        "worse": 0,
        "left_out": 2,
        "unnamed": 0,
    }
    # Of three tasks drawn, all are the one of no difference, or all the one of 1, in 1 of 27.
    assert interval == {"low": 0.0, "high": 1.0, "method": "bootstrap"}
    words = run(*paths, "--label", "A", "--label", "B")
    assert "Compared with A" in words
    assert "+50.0" in words

    # One label: the files are one run. Several agents: a run for each.
    (one,) = json.loads(run(*paths, "--json", "--label", "A", "--label", "A"))["runs"]
    assert (one["figures"]["rollouts"], one["figures"]["tasks"]) == (10, 5)
    agents = [row(0, 0, 1.0), row(0, 0, 0.0) | {"agent_ref": {"name": "other"}}]
    told = json.loads(run(write(tmp_path, agents), "--json"))
    assert [part["name"] for part in told["runs"]] == ["run agent", "run other"]


def test_intervals() -> None:
    """Wilson's against published figures; draws over tasks, not over rollouts."""
    assert vars(wilson(8, 10)) == {
        "low": pytest.approx(0.4902, abs=1e-4),
        "high": pytest.approx(0.9433, abs=1e-4),
        "method": "wilson",
    }
    assert (wilson(0, 10).low, wilson(10, 10).high) == (0, 1)
    assert success_interval([]) is None
    assert success_interval([(0, 0)]) is None
    assert success_interval([(1, 1)] * 8 + [(0, 1)] * 2) == wilson(8, 10)
    # Ten equal rollouts of each task tell no more than one.
    tasks = [(10, 10)] * 30 + [(0, 10)] * 30
    drawn = success_interval(tasks)
    assert drawn
    assert drawn.method == "bootstrap"
    assert _width(drawn) == pytest.approx(_width(wilson(30, 60)), abs=0.03)
    assert success_interval(tasks) == drawn
    # Draws of what is always the same would be certain.
    assert success_interval([(4, 4)] * 50) == wilson(50, 50)
    assert success_interval([(4, 4), (0, 4)]) == wilson(1, 2)
    nothing = difference_interval([0.0] * 10)
    assert nothing
    assert (nothing.low, nothing.high) == (pytest.approx(-0.2775, abs=1e-4), -nothing.low)
    assert difference_interval([1.0] * 3) == Interval(pytest.approx(0.4385, abs=1e-3), 1, "wilson")  # type: ignore[arg-type]


def _width(interval: Interval) -> float:
    return interval.high - interval.low


_counts = st.integers(0, 4).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=60, deadline=None)
@given(st.lists(_counts, max_size=2 * FEW_TASKS), st.integers(1, 3))
def test_intervals_hold_the_rate(tasks: list[tuple[int, int]], more: int) -> None:
    found = success_interval(tasks)
    valid = sum(n for _, n in tasks)
    assert (found is None) == (not valid)
    if found:
        rate = sum(solved for solved, _ in tasks) / valid
        assert 0 <= found.low <= rate + 1e-9
        assert rate - 1e-9 <= found.high <= 1
        assert found.high > found.low
        assert success_interval([*tasks, *[(0, 0)] * more]) == found


_rollouts = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0]), st.booleans()),
    min_size=1,
    max_size=20,
)


@settings(max_examples=40, deadline=None)
@given(_rollouts, st.sampled_from([0.0, 1.0]))
def test_masked_rollouts_count_in_no_rate(made: list[tuple[int, float, bool]], lie: float) -> None:
    """Whatever reward stands in a masked row; and what is told adds up."""
    rows = [
        masked(task, index) if spoiled else row(task, index, reward)
        for index, (task, reward, spoiled) in enumerate(made)
    ]
    lying = [one | {"reward": lie} if one["mask_sample"] else one for one in rows]
    pricing = Pricing()
    honest, other = (
        [outcome_of(Rollout(one, Path("r.jsonl"), 1), pricing) for one in some]
        for some in (rows, lying)
    )
    told = figures(honest)
    assert figures(other) == told
    assert told.valid + sum(told.masked.values()) == told.rollouts == len(rows)
    assert sum(told.terminations.values()) == told.valid
    known = [one for one in rows if not one["mask_sample"]]
    if known:
        clean = figures([one for one in honest if not one.masked])
        assert (clean.success_rate, clean.pass_at_k) == (told.success_rate, told.pass_at_k)
        assert clean.interval == told.interval
    same = compare(Run("a", honest), Run("b", other))
    assert same.difference in (0, None)
    assert (same.tasks, same.left_out) == (len({one["_ng_task_index"] for one in known}), 0)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_the_page_and_the_plots(tmp_path: Path) -> None:
    """Also that names of tasks, models and runs are words in all of them."""
    named = {"category": HOSTILE, "termination_reason": HOSTILE, "failure_kind": HOSTILE}
    rows = [row(task, repeat, float(task == 0)) for task in range(3) for repeat in range(2)]
    odd = [*(one | named for one in rows), masked(7, 0, cost_usd=1.0) | named]
    odd[0] |= {"response": {"model": HOSTILE}}
    paths = [write(tmp_path, rows, "a.jsonl"), write(tmp_path, odd, "b.jsonl")]
    output, folder = tmp_path / "new" / "report.html", tmp_path / "plots"
    labels = ("--label", "plain", "--label", HOSTILE)
    words = run(*paths, *labels, "-o", output, "--png", folder)
    assert "[red]" in words
    assert not set("\x1b\u202e") & set(words)
    html = output.read_text("utf-8")
    page = _Page()
    page.feed(html)
    assert page.tags <= {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "div", "table"),
        *("thead", "tbody", "tr", "th", "td", "img", "ul", "li"),
    }
    assert page.attributes <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "scope", "alt", "src"),
    }
    assert "default-src 'none'" in html
    assert html.count("data:image/svg+xml;base64,") == 5
    names = {"success", "groups", "differences", "pass_at_k", "endings"}
    assert {path.stem for path in folder.iterdir()} == names
    for path in folder.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
    run(*paths, *labels, "-o", output)
    assert output.read_text("utf-8") == html


def test_real_rows() -> None:
    rows = [json.loads(line) for line in EXAMPLES.read_text("utf-8").splitlines()]
    told = json.loads(run(EXAMPLES, "--json"))["runs"][0]["figures"]
    assert told["rollouts"] == len(rows)
    valid = [one for one in rows if not one.get("mask_sample")]
    assert told["solved"] == sum(one["reward"] == 1 for one in valid)
    assert told["valid"] == len(valid)


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    good = write(tmp_path, [row(0, 0, 1.0)], "good.jsonl")

    def refused(*arguments: object) -> str:
        return run(*arguments, status=1).replace("\n", " ")

    def bad(**more: Any) -> str:
        return refused(good, write(tmp_path, [row(0, 0, 1.0), row(0, 1, 1.0) | more], "bad.jsonl"))

    assert "is given twice" in refused(good, good)
    assert "2 labels" in refused(good, "--label", "a", "--label", "b")
    assert "cannot be read" in refused(tmp_path / "none.jsonl")
    assert "has no rollouts" in refused(write(tmp_path, [], "empty.jsonl"))
    assert "bad.jsonl:2: is rollout 0 of task T-0 again" in bad(_ng_rollout_index=0)
    assert "bad.jsonl:2: `reward` is nan" in bad(reward=float("nan"))
    assert "bad.jsonl:2: `num_turns` is 'x'" in bad(num_turns="x")
    assert "bad.jsonl:2: `usage.input_tokens` is -1" in bad(
        response={"usage": {"input_tokens": -1}}
    )
    assert "bad.jsonl:2: names no task" in bad(verifier_metadata={}, _ng_task_index=None)
    assert "bad.jsonl:2: is no rollout row" in refused(
        write(tmp_path, [row(0, 0, 1.0), {"responses_create_params": {}}], "bad.jsonl")
    )
    prices = tmp_path / "prices.json"
    for text, words in (
        ("{", "is no JSON"),
        ("[]", "has no `models`"),
        ('{"models": {"a": {"input": "x", "output": 1}}}', "`models.a.input`"),
    ):
        prices.write_text(text)
        assert words in refused(good, "--prices", prices)
    assert "cannot be written" in refused(good, "-o", tmp_path)
