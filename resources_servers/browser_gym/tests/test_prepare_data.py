import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from resources_servers.browser_gym.demo_gym.server import create_app
from resources_servers.browser_gym.prepare_data import main
from resources_servers.browser_gym.task_row import TaskRow
from resources_servers.browser_gym.task_sets import task_set_id
from resources_servers.browser_gym.tests.fake_gym import (
    EXPECTED,
    FakeGym,
    answer,
    dropping_address,
    hang,
    refusing_address,
    running_fake_gym,
)
from tests.simulators.http_server import serve


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "tasks.jsonl"


def task(category: str | None = "form", **fields: Any) -> dict[str, Any]:
    told = {"prompt": "Do it", "assertions": [{"title": "t", "category": "x"}], **fields}
    return told if category is None else {**told, "category": category}


TWENTY = {f"T-{index:02}": task("form" if index % 4 else "drag") for index in range(20)}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def ids(path: Path) -> list[str]:
    return [row["verifier_metadata"]["task_id"] for row in read(path)]


def prepare(gym: FakeGym | str, output: Path, *options: str) -> int:
    url = gym if isinstance(gym, str) else gym.url
    return main(["--gym-url", url, "--output", str(output), *options])


# Rows


def test_a_row_holds_what_an_environment_needs(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks({"CRM-01": task(start_url=f"{gym.url}/crm/", viewport_size=[800, 600])})

    assert prepare(f"{gym.url}//", output) == 0

    rows = read(output)
    assert rows == [
        {
            "responses_create_params": {"input": [{"role": "user", "content": "Do it"}]},
            "verifier_metadata": {
                "task_id": "CRM-01",
                "gym_url": gym.url,
                "start_url": f"{gym.url}/crm/",
                "viewport": {"width": 800, "height": 600},
                "verifier": "gym_api",
                "category": "form",
            },
        }
    ]
    TaskRow.parse(rows[0])
    assert capsys.readouterr().out == f"{output}: task set 1 tasks, id {task_set_id(rows)}\n"


def test_how_the_browser_starts_is_kept(gym: FakeGym, output: Path):
    browser = {"local_storage": {gym.url: {"theme": "dark"}}}
    gym.set_tasks({"T": task(browser=browser)})

    assert prepare(gym, output) == 0

    [row] = read(output)
    assert row["verifier_metadata"]["browser"] == browser


def test_a_browser_that_cannot_start_so_is_named(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks({"T": task(browser={"color": "dark"})})

    assert prepare(gym, output) == 1

    assert "task 'T'" in (error := capsys.readouterr().err)
    assert "verifier_metadata.browser: unknown key 'color'" in error


@pytest.mark.parametrize(
    ("told", "viewport"),
    [
        ({}, (1280, 720)),
        ({"viewport_size": None}, (1280, 720)),
        ({"viewport_size": [640, 480]}, (640, 480)),
        ({"viewport_size": {"width": 640, "height": 480, "scale": 2}}, (640, 480)),
    ],
)
def test_viewports(told: dict[str, Any], viewport: tuple[int, int], gym: FakeGym, output: Path):
    gym.set_tasks({"T": task(**told)})

    assert prepare(gym, output) == 0

    [row] = read(output)
    assert tuple(row["verifier_metadata"]["viewport"].values()) == viewport


@pytest.mark.parametrize(
    ("told", "start"),
    [
        ({}, "{gym}"),
        ({"start_url": None}, "{gym}"),
        ({"start_url": "/crm/#leads"}, "{gym}/crm/#leads"),
        ({"start_url": "crm/"}, "{gym}/crm/"),
        ({"start_url": "http://other.test/"}, "http://other.test/"),
    ],
)
def test_start_urls(told: dict[str, Any], start: str, gym: FakeGym, output: Path):
    gym.set_tasks({"T": task(**told)})

    assert prepare(gym, output) == 0

    [row] = read(output)
    assert row["verifier_metadata"]["start_url"] == start.format(gym=gym.url)


def test_a_task_statement_goes_before_a_prompt_and_a_category_is_optional(
    gym: FakeGym, output: Path
):
    gym.set_tasks({"T": task(None, task_statement="Say \u2028 it", prompt="no")})

    assert prepare(gym, output) == 0

    [row] = read(output)
    assert row["responses_create_params"]["input"][0]["content"] == "Say \u2028 it"
    assert "category" not in row["verifier_metadata"]


def test_local_storage_rows_carry_the_assertions(gym: FakeGym, output: Path):
    checks = [{"title": "t", "query": "a", "equals": 1}]
    gym.set_tasks({"T": task(assertions=checks)})

    assert prepare(gym, output, "--verifier", "local_storage") == 0

    [row] = read(output)
    assert row["verifier_metadata"]["verifier"] == "local_storage"
    assert row["verifier_metadata"]["assertions"] == checks


def test_a_gym_that_only_knows_get(gym: FakeGym, output: Path):
    gym.set(EXPECTED, answer({"verifiers": TWENTY}), method="GET")

    assert prepare(gym, output) == 0
    assert len(read(output)) == 20
    assert [method for method, _ in gym.requests[EXPECTED]] == ["POST", "GET"]


def test_several_gyms_in_one_file_and_the_same_one_twice_is_once(gym: FakeGym, output: Path):
    gym.set_tasks({"A": task()})
    with running_fake_gym() as second:
        second.set_tasks({"B": task()})

        assert prepare(gym, output, "--gym-url", second.url, f"{gym.url}/") == 0

    assert ids(output) == ["A", "B"]
    assert gym.count(EXPECTED) == 1


# Choosing


def test_tasks_are_chosen_by_id_and_category_in_the_gyms_order(gym: FakeGym, output: Path):
    gym.set_tasks(TWENTY)

    assert prepare(gym, output, "--task-id", "T-09", "T-04", "--task-id", "T-09") == 0
    assert ids(output) == ["T-04", "T-09"]

    assert prepare(gym, output, "--category", "drag") == 0
    assert ids(output) == ["T-00", "T-04", "T-08", "T-12", "T-16"]

    assert prepare(gym, output, "--category", "drag", "form", "--limit", "2") == 0
    assert ids(output) == ["T-00", "T-01"]


def test_a_task_that_was_not_asked_for_may_be_broken(gym: FakeGym, output: Path):
    gym.set_tasks({"T": task(), "broken": 3})

    assert prepare(gym, output, "--task-id", "T") == 0
    assert ids(output) == ["T"]


def test_choices_are_the_seeds(gym: FakeGym, output: Path):
    gym.set_tasks(TWENTY)
    orders = []
    for seed in ("1", "1", "2"):
        assert prepare(gym, output, "--shuffle", "--seed", seed) == 0
        orders.append(ids(output))

    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(TWENTY)


def test_a_sample_has_its_share_of_each_category(gym: FakeGym, output: Path):
    gym.set_tasks(TWENTY)

    assert prepare(gym, output, "--sample", "8", "--seed", "5") == 0

    assert Counter(row["verifier_metadata"]["category"] for row in read(output)) == {
        "drag": 2,
        "form": 6,
    }


def test_splits_go_to_a_file_each(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks(TWENTY)

    assert prepare(gym, output, "--split", "train=0.8", "--split", "validation=0.2") == 0

    train, validation = (
        output.with_name(f"tasks_{name}.jsonl") for name in ("train", "validation")
    )
    assert not output.exists()
    assert sorted(ids(train) + ids(validation)) == list(TWENTY)
    assert sum(row["verifier_metadata"]["category"] == "drag" for row in read(validation)) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{train}: task set 16 tasks, id {task_set_id(read(train))}",
        f"{validation}: task set 4 tasks, id {task_set_id(read(validation))}",
    ]


# Errors: one line on stderr, exit status 1, and the old file as it was


def fails(capsys: Any, output: Path, *arguments: str) -> str:
    output.write_text("old")

    status = main([*arguments, "--output", str(output)])

    printed = capsys.readouterr()
    assert status == 1
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    assert output.read_text() == "old"
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    return printed.err


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer("<html>\nHello</html>"), "not JSON"),
        (answer("[1"), "not JSON"),
        (answer([]), "not an object"),
        (answer({"tasks": {}}), "without a 'verifiers' object"),
        (answer({"verifiers": [task()]}), "without a 'verifiers' object"),
        (answer({"verifiers": {}}), "has no tasks"),
        (answer('{"verifiers": {"T": {}, "T": {}}}'), "the key 'T' occurs twice"),
        (answer("boom\nboom", 500), "HTTP 500: 'boom boom'"),
        (answer("busy", 503), "HTTP 503: 'busy'"),
        (answer("nothing here", 404), "HTTP 404"),
        (answer("", 308, {"Location": "https://new.test/"}), "redirects to https://new.test/"),
        (answer({"verifiers": {"T": "x"}}), "task 'T' of http://127.0.0.1"),
        (answer({"verifiers": {"T": task(prompt=" ")}}), "task 'T' of {gym}: has no text in"),
        (answer({"verifiers": {"T": {"assertions": []}}}), "has no text in 'task_statement'"),
        (answer({"verifiers": {"T": task(prompt=["x"])}}), "has no text in 'task_statement'"),
        (answer({"verifiers": {"T": task(viewport_size="big")}}), "'viewport_size' is neither"),
        (answer({"verifiers": {"T": task(viewport_size=[1])}}), "'viewport_size' is neither"),
        (answer({"verifiers": {"T": task(viewport_size=[0, 1])}}), "viewport.width: Input should"),
        (answer({"verifiers": {"T": task(viewport_size={})}}), "viewport.width: Field required"),
        (answer({"verifiers": {"T": task(start_url=3)}}), "start_url: Input should be a valid str"),
        (answer({"verifiers": {"T": task(start_url="http://[x")}}), "start_url: not a web address"),
        (answer({"verifiers": {"T": task(start_url="file:///a")}}), "start_url: give a full web"),
        (answer({"verifiers": {"T": task(3)}}), "category: Input should be a valid string"),  # type: ignore[arg-type]
        (answer({"verifiers": {"": task()}}), "task_id: String should have at least 1"),
    ],
)
def test_a_gym_that_misbehaves(
    reply: Response, message: str, gym: FakeGym, output: Path, capsys: Any
):
    gym.set(EXPECTED, reply)

    assert message.format(gym=gym.url) in fails(capsys, output, "--gym-url", gym.url)
    assert gym.count(EXPECTED) == 1


def test_a_gym_that_refuses(output: Path, capsys: Any):
    with refusing_address() as url:
        error = fails(capsys, output, "--gym-url", url)

    assert "could not connect" in error
    assert url in error


def test_a_gym_that_hangs_up(output: Path, capsys: Any):
    with dropping_address() as (url, _):
        assert "the connection broke" in fails(capsys, output, "--gym-url", url)


def test_a_gym_that_hangs(gym: FakeGym, output: Path, capsys: Any):
    gym.set(EXPECTED, hang)

    error = fails(capsys, output, "--gym-url", gym.url, "--timeout-s", "0.3")

    assert "no answer within 0.3 s" in error


@pytest.mark.parametrize("url", ["localhost:8777", "ftp://h/", "http://", "http://h:x"])
def test_an_address_that_is_none(url: str, output: Path, capsys: Any):
    fails(capsys, output, "--gym-url", url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task-id", "T-1"], "unknown task id 'T-1'; did you mean: T-"),
        (["--task-id", "T-01", "zzz"], "unknown task id 'zzz'; there are: T-00, T-01, "),
        (["--task-id", "zzz"], "T-19 and 5 more"),
        (["--category", "forms"], "unknown category 'forms'; did you mean: form"),
        (["--category", "zzz"], "unknown category 'zzz'; there are: drag, form"),
        (["--verifier", "local_storage"], "task 'T-00' of {gym}: the gym does not tell what"),
        (["--sample", "26"], "--sample: cannot sample 26 of 25 tasks"),
        (["--sample", "0"], "--sample: cannot sample 0"),
        (["--limit", "0"], "--limit: give a number of at least 1"),
        (["--split", "train=0.8"], "--split: the shares make 0.8 together, not 1"),
        (["--split", "a=0.5", "a=0.5"], "names a set twice"),
        (["--limit", "1", "--split", "a=0.5", "b=0.5"], "1 tasks are too few to give 'b' any"),
    ],
)
def test_wishes_that_cannot_be_met(
    options: list[str], message: str, gym: FakeGym, output: Path, capsys: Any
):
    gym.set_tasks(TWENTY | {f"X-{index}": task("form") for index in range(5)})

    error = fails(capsys, output, "--gym-url", gym.url, *options)

    assert message.format(gym=gym.url) in error


def test_a_broken_assertion_is_named(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks({"T": task(assertions=[{"title": "t", "query": "a[", "equals": 1}])})

    error = fails(capsys, output, "--gym-url", gym.url, "--verifier", "local_storage")

    assert "task 'T'" in error
    assert "verifier_metadata.assertions[0] ('t').query: not a JMESPath query" in error


def test_two_gyms_with_the_same_task(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks({"T": task()})
    with running_fake_gym() as second:
        second.set_tasks({"T": task()})

        error = fails(capsys, output, "--gym-url", gym.url, second.url)

    assert f"duplicate task 'T': {gym.url} and {second.url} both have it" in error


def test_a_folder_that_cannot_be_written_to(gym: FakeGym, output: Path, capsys: Any):
    gym.set_tasks(TWENTY)
    output.write_text("a file where a folder should be")

    assert prepare(gym, output / "tasks.jsonl") == 1
    assert str(output) in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["train", "train=", "train=x", "train=0", "=1", "a/b=1", "a=1/0"]
)
def test_a_split_that_makes_no_sense_is_a_usage_error(option: str, output: Path, capsys: Any):
    with pytest.raises(SystemExit) as raised:
        prepare("http://127.0.0.1:9", output, "--split", option)

    assert raised.value.code == 2
    assert "is not NAME=SHARE" in capsys.readouterr().err


# Our own gym


def test_the_demo_gym_can_be_prepared(output: Path):
    with serve(create_app()) as url:
        assert prepare(url, output) == 0
        assert prepare(url, output.with_name("local.jsonl"), "--verifier", "local_storage") == 1

    rows = read(output)
    assert len(rows) >= 20
    assert len({row["verifier_metadata"]["category"] for row in rows}) >= 5
    assert all(row["verifier_metadata"]["start_url"].startswith(url) for row in rows)
