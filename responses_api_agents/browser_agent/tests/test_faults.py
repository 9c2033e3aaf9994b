"""Every line of the table of faults, produced for real: `test_<line>` for each `Fault`."""

import asyncio
import json
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from nemo_gym.failure_kinds import is_namespaced, is_registered
from nemo_gym.tool_access import DirectHTTPToolAccess
from starlette.responses import PlainTextResponse, Response

from resources_servers.browser_gym.browser import pulse
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.tests.fake_gym import (
    ACTUAL,
    FakeGym,
    answer,
    dropping_address,
    hang,
    refusing_address,
    running_fake_gym,
)
from resources_servers.browser_gym.tests.fake_judge import (
    JUDGE_REF,
    FakeJudge,
    OwnClient,
    Reply,
    client_of,
    fails,
    running_fake_judge,
    says,
)
from responses_api_agents.browser_agent import episode
from responses_api_agents.browser_agent.failures import RolloutFailure
from responses_api_agents.browser_agent.tests.conftest import Start
from responses_api_agents.browser_agent.tests.fake_vllm import FakeVllm
from responses_api_agents.browser_agent.tests.stack import served_environment
from responses_api_agents.browser_agent.tests.test_token_trace import (
    clicks,
    on_items,
    run_clicks,
    steps_of,
)
from responses_api_agents.browser_agent.transport import GrantedTransport
from tests.front import Passing, front_of
from tests.full_disk import filled_up
from tests.simulators import openai_scripts as scripts
from tests.simulators.faults import CutOff
from tests.simulators.openai_scripts import (
    Item,
    Policy,
    SimTurn,
    click,
    computer_call,
    function_call,
    message,
    script,
)
from tests.started import Started, kill, renderers
from tests.waiting import eventually

Row = dict[str, Any]

LOOK = {"type": "screenshot"}
SECOND = click(60, 40)  # the link to the second page, which solves the task
DOWNLOAD = click(60, 220)
ENDLESS_LOOP = click(60, 340)
DEAD_ADDRESS = "http://127.0.0.1:9/"


def test_every_fault_has_a_test_and_a_known_kind() -> None:
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {fault.name.lower() for fault in Fault} - tests == set()
    masked = [fault for fault in Fault if fault.outcome == "masked"]
    unknown = [f for f in masked if not is_registered(f.kind) and not is_namespaced(f.kind)]
    assert unknown == []
    assert {fault.kind for fault in Fault if fault.outcome != "masked"} == {""}


def is_masked(row: Row, fault: Fault, words: str) -> None:
    assert (row["mask_sample"], row["failure_kind"]) == (True, fault.kind), row["failure_reason"]
    assert row["instance_config"]["mask_sample"] is True
    assert words in row["failure_reason"]
    assert row["reward"] == 0


def is_told(row: Row, words: str) -> None:
    """The model read of it, and what it did afterwards counts."""
    told = [text for turn in row["turns"] for call in turn["calls"] for text in call["texts"]]
    assert any(words in text for text in told), told
    assert (row["reward"], row["mask_sample"]) == (1, False)


def happened(row: Row, event: str) -> None:
    events = [e["type"] for turn in row["turns"] for call in turn["calls"] for e in call["events"]]
    assert event in events


def solving(*before: list[Item]) -> Policy:
    """A model that does something else first."""
    return script(*before, [computer_call(SECOND)])


# What the model does wrong.


async def test_bad_action(start: Start, site: str) -> None:
    stack = await start(solving([computer_call(click(5000, 40))]))
    is_told(await stack.run(f"{site}/links.html"), "5000")


async def test_unreadable_call(start: Start, site: str) -> None:
    broken = {"type": "function_call", "name": "navigate", "arguments": '{"url": '}
    stack = await start(solving([broken]))
    is_told(await stack.run(f"{site}/links.html"), "arguments")


async def test_dead_link(start: Start, site: str) -> None:
    back = [function_call("navigate", url=f"{site}/links.html")]
    stack = await start(solving([function_call("navigate", url=DEAD_ADDRESS)], back))
    is_told(await stack.run(f"{site}/links.html"), "ERR_UNSAFE_PORT")


# What happens by itself.


async def test_page_hangs(start: Start, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BUSY_AFTER_S", 1)
    back = [function_call("navigate", url=f"{site}/links.html")]
    row = await (await start(solving([computer_call(ENDLESS_LOOP)], back))).run(
        f"{site}/links.html"
    )
    happened(row, "busy")
    is_told(row, "The page is busy")


async def test_tab_crashed(start: Start, site: str) -> None:
    def crash_then_solve(turn: SimTurn) -> list[Item]:
        if turn.number == 1:
            kill(renderers())
        return [computer_call({"type": "wait"})] if turn.number < 3 else [computer_call(SECOND)]

    stack = await start(
        lambda turn: crash_then_solve(turn) if turn.number < 4 else [message("Done.")]
    )
    row = await stack.run(f"{site}/links.html")
    happened(row, "crash")
    is_told(row, "crashed")


async def test_download_failed(
    start: Start, site: str, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(full_disk))
    row = await (await start(solving([computer_call(DOWNLOAD)]))).run(f"{site}/links.html")
    happened(row, "download_failed")
    is_told(row, "A download failed: report.csv: no space left on device")


# What the browsers do.


async def test_pool_full(start: Start, site: str) -> None:
    with served_environment(max_sessions=1, queue_limit=0) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            body = {"start_url": f"{site}/links.html"}
            held = (await http.post("/seed_session", json=body)).json()
            stack = await start(script(), environment_url=url, queue_timeout_s=0)
            row = await stack.run(f"{site}/links.html")
            await http.post("/close", json={"env_id": held["env_id"]})
    is_masked(row, Fault.POOL_FULL, "")


async def test_no_browser(start: Start, site: str, tmp_path: Path, started: Started) -> None:
    launcher = tmp_path / "chromium"
    launcher.write_text(f'#!/bin/sh\nexec "{find_chromium().executable}" "$@"\n')
    launcher.chmod(0o755)
    with served_environment(chromium_path=str(launcher)) as url:
        launcher.write_text("#!/bin/sh\nexit 1\n")
        started.kill_chromiums()
        row = await (await start(script(), environment_url=url)).run(f"{site}/links.html")
    is_masked(row, Fault.NO_BROWSER, "")


async def test_start_page(start: Start) -> None:
    row = await (await start(script())).run(DEAD_ADDRESS)
    is_masked(row, Fault.START_PAGE, "start page did not open")


async def test_a_start_page_that_drew_nothing_is_looked_at_again(
    start: Start, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "BUSY_AFTER_S", 0.1)
    back = [function_call("navigate", url=f"{site}/links.html")]
    row = await (await start(solving(back))).run(f"{site}/slow_start.html")
    assert (row["reward"], row["mask_sample"]) == (1, False)
    assert row["first_observation"]["screenshot"]


async def test_server_disk(
    start: Start, site: str, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(full_disk))
    files = {"report.csv": {"text": "x" * 100_000}}
    row = await run(await start(script()), f"{site}/links.html", browser={"files": files})
    is_masked(row, Fault.SERVER_DISK, "No space left on device")


async def test_browser_died(start: Start, site: str, started: Started) -> None:
    with served_environment() as url:

        def kill_then_look(turn: SimTurn) -> list[Item]:
            if turn.number == 1:
                started.kill_chromiums()
            return [computer_call(LOOK)]

        row = await (await start(kill_then_look, environment_url=url)).run(f"{site}/links.html")
    is_masked(row, Fault.BROWSER_DIED, "")
    assert row["num_turns"] == 2
    assert row["turns"][0]["screenshot"], "what was collected before is lost"


async def test_session_gone(start: Start, site: str, environment: str) -> None:
    async def close_before_a_step(passing: Passing) -> Response:
        if passing.path == "/step":
            await passing.client.post("/close", json={"env_id": passing.body["env_id"]})
        return await passing.forward()

    with front_of(environment, close_before_a_step) as url:
        row = await (await start(solving(), environment_url=url)).run(f"{site}/links.html")
    is_masked(row, Fault.SESSION_GONE, "was closed before")


async def test_session_expired(start: Start, site: str) -> None:
    async def wait_before_a_step(passing: Passing) -> Response:
        async def expired() -> bool:
            return (await passing.client.get("/health")).json()["sessions"] == 0

        if passing.path == "/step":
            await eventually(expired)
        return await passing.forward()

    with ExitStack() as stack:
        environment = stack.enter_context(served_environment(session_idle_timeout_s=0.5))
        url = stack.enter_context(front_of(environment, wait_before_a_step))
        row = await (await start(solving(), environment_url=url)).run(f"{site}/links.html")
    is_masked(row, Fault.SESSION_EXPIRED, "expired after 0.5 s")


@pytest.mark.parametrize(("field", "value"), [("verifier", "magic"), ("viewport", "1280x720")])
async def test_task_unusable(start: Start, site: str, field: str, value: str) -> None:
    row = await run(await start(script()), f"{site}/links.html", **{field: value})
    is_masked(row, Fault.TASK_UNUSABLE, f"verifier_metadata.{field}")


async def test_repeat_differs(start: Start, site: str, environment: str) -> None:
    async def always_the_same_operation(passing: Passing) -> Response:
        if passing.path == "/step":
            passing.body["operation_id"] = "1"
        return await passing.forward()

    with front_of(environment, always_the_same_operation) as url:
        stack = await start(solving([computer_call(LOOK)]), environment_url=url)
        row = await stack.run(f"{site}/links.html")
    is_masked(row, Fault.REPEAT_DIFFERS, "operation_id")


# What the servers do.


async def test_wrong_token(start: Start, site: str, caplog: pytest.LogCaptureFixture) -> None:
    metadata = {
        "start_url": f"{site}/second.html?token=canary",
        "browser": {
            "headers": {"X-Key": "canary"},
            "cookies": [{"name": "a", "value": "canary", "url": site}],
        },
        "verifier": "local_storage",
        "assertions": [{"title": "any", "only_changed": []}],
    }
    with served_environment(auth_token="right-one") as url:
        for token in ("right-one", "wrong-one"):
            policy = script([message("Done.")])
            stack = await start(policy, environment_url=url, auth_token=token)
            row = await stack.run(site, verifier_metadata=metadata)
            shown = json.dumps(row) + caplog.text
            assert not [s for s in ("canary", "right-one", "wrong-one") if s in shown]
            if token == "right-one":
                assert row["mask_sample"] is False
    is_masked(row, Fault.WRONG_TOKEN, "auth_token")


async def test_body_too_large(start: Start, site: str) -> None:
    with served_environment(max_request_bytes=2000) as url:
        stack = await start(script([message("Done. " * 500)]), environment_url=url)
        row = await stack.run(f"{site}/links.html")
    is_masked(row, Fault.BODY_TOO_LARGE, "max_request_bytes")


async def test_server_unreachable(start: Start, site: str) -> None:
    stack = await start(script(), environment_url=DEAD_ADDRESS)
    is_masked(await stack.run(f"{site}/links.html"), Fault.SERVER_UNREACHABLE, "browser_gym")
    assert stack.simulator.requests == []
    stack = await start(script(), model_url=DEAD_ADDRESS)
    is_masked(await stack.run(f"{site}/links.html"), Fault.SERVER_UNREACHABLE, "policy_model")


async def test_server_dropped(start: Start, site: str, environment: str) -> None:
    verdicts = []

    async def cut_verdicts(passing: Passing) -> Response:
        answered = await passing.forward()
        if passing.path != "/verify":
            return answered
        verdicts.append(passing.body["env_id"])
        return CutOff() if len(verdicts) <= cuts else answered

    for cuts in (1, 99):
        with front_of(environment, cut_verdicts) as url:
            row = await (await start(solving(), environment_url=url)).run(f"{site}/links.html")
        if cuts == 1:  # the verdict that was lost is given again
            assert (row["reward"], row["mask_sample"], len(verdicts)) == (1, False, 2), row
        else:
            is_masked(row, Fault.SERVER_DROPPED, "browser_gym")


async def test_a_connection_that_is_reset_is_dropped_not_unreachable() -> None:
    def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        at = {"name": "gym", "required": True, "base_url": f"http://{host}:{port}"}
        access = DirectHTTPToolAccess.model_validate(at)
        with pytest.raises(RolloutFailure) as failed:
            await GrantedTransport(access).post("/step", {"filler": "x" * 1_000_000})
    assert failed.value.kind == Fault.SERVER_DROPPED.kind, failed.value


async def test_step_whose_answer_is_cut_is_run_once(
    start: Start, site: str, environment: str
) -> None:
    seen = []

    async def cut_each_step_once(passing: Passing) -> Response:
        answered = await passing.forward()
        if passing.path != "/step":
            return answered
        seen.append(passing.body["operation_id"])
        return CutOff() if seen.count(seen[-1]) == 1 else answered

    count = click(100, 50)
    with front_of(environment, cut_each_step_once) as url:
        stack = await start(
            script([computer_call(count, count)], [computer_call(count)]), environment_url=url
        )
        assertion = {"title": "three clicks", "query": "count", "equals": 3}
        row = await run(stack, f"{site}/counter.html", assertions=[assertion])
    assert (row["reward"], row["mask_sample"]) == (1, False), row
    assert seen == ["1", "1", "2", "2"]


async def test_session_whose_seed_is_cut_is_found_again_or_closed(
    start: Start, site: str, environment: str
) -> None:
    seeds = []

    async def cut_seeds(passing: Passing) -> Response:
        answered = await passing.forward()
        if passing.path != "/seed_session":
            return answered
        seeds.append(passing.body["env_id"])
        return CutOff() if len(seeds) <= cuts else answered

    for cuts in (1, 99):
        with front_of(environment, cut_seeds) as url:
            row = await (await start(solving(), environment_url=url)).run(f"{site}/links.html")
        if cuts == 1:
            assert (row["reward"], row["mask_sample"]) == (1, False), row
            assert len(seeds) == 2
        else:
            is_masked(row, Fault.SERVER_DROPPED, "browser_gym")
    assert len(set(seeds)) == 2, "each rollout has one session, and the fixture finds none left"


async def test_server_silent(start: Start, site: str, environment: str) -> None:
    async def no_answer_to_a_step(passing: Passing) -> Response:
        return await (passing.silence() if passing.path == "/step" else passing.forward())

    with front_of(environment, no_answer_to_a_step) as url:
        stack = await start(solving(), environment_url=url, environment_timeout_s=10)
        row = await stack.run(f"{site}/links.html")
    is_masked(row, Fault.SERVER_SILENT, "no answer to /step in 10 s")


@pytest.mark.parametrize(("status", "text"), [(500, "Internal Server Error"), (200, "<html>")])
async def test_server_error(
    start: Start, site: str, environment: str, status: int, text: str
) -> None:
    async def error_for_a_step(passing: Passing) -> Response:
        if passing.path == "/step":
            return PlainTextResponse(text, status)
        return await passing.forward()

    with front_of(environment, error_for_a_step) as url:
        row = await (await start(solving(), environment_url=url)).run(f"{site}/links.html")
    is_masked(row, Fault.SERVER_ERROR, f"HTTP {status}: {text}")


# What the model's provider does.


async def failed_model(start: Start, site: str, fault: scripts.Fault, timeout_s: float = 30) -> Row:
    """Run with a provider that fails once more than it is asked again."""
    config = {"timeout_s": timeout_s, "max_retries": 1}
    stack = await start(solving(), model_server_config=config)
    stack.simulator.fail_next(fault, times=2)
    row = await stack.run(f"{site}/links.html", check=False)
    assert row["termination_reason"] == "failure"
    return row


async def test_model_quota(start: Start, site: str) -> None:
    is_masked(await failed_model(start, site, scripts.rate_limited(0)), Fault.MODEL_QUOTA, "429")


@pytest.mark.parametrize(
    "fault",
    [
        scripts.server_error(),
        scripts.unavailable(),
        scripts.cut_connection(),
        scripts.malformed_json(),
    ],
)
async def test_model_down(start: Start, site: str, fault: scripts.Fault) -> None:
    is_masked(await failed_model(start, site, fault), Fault.MODEL_DOWN, "model server answered")


async def test_model_silent(start: Start, site: str) -> None:
    is_masked(await failed_model(start, site, scripts.hang(), 1), Fault.MODEL_SILENT, "504")


async def test_model_refuses(start: Start, site: str) -> None:
    stack = await start(solving(), model_server_config={"openai_api_key": "sk-wrong"})
    row = await stack.run(f"{site}/links.html", check=False)
    is_masked(row, Fault.MODEL_REFUSES, "401")


# What the verifier does.


@pytest.fixture
def gym() -> Iterator[FakeGym]:
    with running_fake_gym() as gym:
        yield gym


async def graded_by(
    start: Start, site: str, gym_url: str, environment_url: str | None = None
) -> Row:
    config = {"environment_url": environment_url} if environment_url else {}
    stack = await start(solving(), **config)
    return await run(stack, f"{site}/links.html", verifier="gym_api", gym_url=gym_url)


@pytest.mark.parametrize(
    "verdict",
    [answer("boom", 500), answer({"assertions": "all good"}), answer({"assertions": [{}]})],
)
async def test_verifier_failed(start: Start, site: str, gym: FakeGym, verdict: Response) -> None:
    gym.set(ACTUAL, verdict)
    row = await graded_by(start, site, gym.url)
    is_masked(row, Fault.VERIFIER_FAILED, "get_actual_state")
    assert row["termination_reason"] == "finished"


async def test_verifier_unreachable(start: Start, site: str) -> None:
    with refusing_address() as url:
        is_masked(await graded_by(start, site, url), Fault.VERIFIER_UNREACHABLE, url)


async def test_verifier_dropped(start: Start, site: str) -> None:
    with dropping_address() as (url, received):
        is_masked(await graded_by(start, site, url), Fault.VERIFIER_DROPPED, url)
        assert len(received) == 4, "what only reads is asked for again, within a bound"


async def test_verifier_silent(start: Start, site: str, gym: FakeGym) -> None:
    gym.set(ACTUAL, hang)
    with served_environment(verify_timeout_s=1) as url:
        row = await graded_by(start, site, gym.url, url)
    is_masked(row, Fault.VERIFIER_SILENT, "no answer within 1 s")


async def judged_by(start: Start, site: str, judge: FakeJudge, reply: Reply) -> Row:
    judge.replies = [reply]
    client = client_of(OwnClient, judge.url)
    judging = {"judge_model_server": JUDGE_REF, "judge_attempts": 1}
    with served_environment(server_client=client, **judging) as url:
        stack = await start(solving(), environment_url=url)
        return await run(stack, f"{site}/links.html", verifier="judge")


async def test_judge_failed(start: Start, site: str) -> None:
    with running_fake_judge() as judge:
        row = await judged_by(start, site, judge, fails(401))
    is_masked(row, Fault.JUDGE_FAILED, "HTTP 401")
    assert row["_ng_failure_class"] == "judge_failed"


async def test_judge_unparseable(start: Start, site: str) -> None:
    with running_fake_judge() as judge:
        row = await judged_by(start, site, judge, says("VERDICT 12345678: YES"))
    is_masked(row, Fault.JUDGE_UNPARSEABLE, "does not end with a verdict")
    assert row["_ng_failure_class"] == "judge_invalid"


# What the agent does.


async def test_disk_full(start: Start, site: str, full_disk: Path) -> None:
    stack = await start(solving(), artifact_dir=str(full_disk / "artifacts"))
    row = await stack.run(f"{site}/links.html")
    is_masked(row, Fault.DISK_FULL, "No space left on device")


async def test_agent_fault(start: Start, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = await start(lambda _: [computer_call(SECOND)], loop_limit=2)
    monkeypatch.setattr(episode, "_fingerprint", lambda _: 1 / 0)
    row = await stack.run(f"{site}/links.html")
    is_masked(row, Fault.AGENT_FAULT, "ZeroDivisionError")
    assert [turn["url"] for turn in row["turns"]] == [f"{site}/second.html"] * 2


# Helpers.


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small file system without room for anything."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with filled_up(folder) as full:
        if not full:
            pytest.skip("a small file system may not be mounted here")
        with pytest.raises(OSError, match="No space"):
            (folder / "more").write_bytes(bytes(17_000))
        yield folder


async def run(stack: Any, start_url: str, **metadata: Any) -> Row:
    """Run the usual task with other `verifier_metadata`."""
    task = {
        "task_id": "T-1",
        "start_url": start_url,
        "verifier": "local_storage",
        "assertions": [{"title": "second page seen", "query": "second", "equals": "visited"}],
    }
    if "gym_url" in metadata:
        del task["assertions"]
    return await stack.run(start_url, verifier_metadata=task | metadata, check=False)


async def test_tokens_drifted(tmp_path: Path) -> None:
    server = FakeVllm(clicks(5), drifting_at=3)
    row = await run_clicks(server, tmp_path, 5)
    assert (row["mask_sample"], row["instance_config"]) == (True, {"mask_sample": True})
    assert row["failure_kind"] == Fault.TOKENS_DRIFTED.kind
    assert "turn 3 differs from the tokens before it at 0 of 15" in row["failure_reason"]
    (steps,) = steps_of(row)
    assert len(steps) == 3
    assert on_items(row) == server.tokens[:3]
    assert row["num_turns"] == 4
