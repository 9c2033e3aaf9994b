"""`browser-gym record`: a program does a task in the person's place, over CDP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, async_playwright
from typer.testing import CliRunner

from browser_gym.cli import app
from browser_gym.environment import Environment
from browser_gym.recording import watch
from browser_gym.recording.gestures import PAUSE_MS, Recorded
from browser_gym.recording.record import Asked, record
from browser_gym.replaying.replay import Settings, replay
from browser_gym.rollouts import read_rollouts
from resources_servers.browser_gym.actions import parse_action
from resources_servers.browser_gym.demo_gym.server import create_app
from responses_api_agents.browser_agent.tests.stack import (
    running_agent,
    served_environment,
    served_script,
)
from scripts.demo import free_port
from tests.simulators.http_server import serve

ANSWER_S = 30
PROMPT = "Change Priya's phone number to 123."


@pytest.fixture(scope="module")
def demo_gym() -> Iterator[str]:
    with serve(create_app()) as url:
        yield url


@asynccontextmanager
async def person(port: int) -> AsyncIterator[Page]:
    """Take the browser that listens there in hand."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        yield browser.contexts[0].pages[0]


async def new_tab(page: Page) -> Page:
    """Open a tab beside another, as a person does."""
    assert page.context.browser
    cdp = await page.context.browser.new_browser_cdp_session()
    here = await (await page.context.new_cdp_session(page)).send("Target.getTargetInfo")
    context_id = here["targetInfo"]["browserContextId"]
    async with page.context.expect_page() as opened:
        fields = {"url": "about:blank", "browserContextId": context_id}
        await cdp.send("Target.createTarget", fields)
    return await opened.value


class Command:
    """`browser-gym record` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self) -> str:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), ANSWER_S)
        return line.decode()


@asynccontextmanager
async def recording(*arguments: str) -> AsyncIterator[Command]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "browser_gym", "record", "--headless", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_recording_can_be_replayed_and_followed(demo_gym: str, tmp_path: Path) -> None:
    output = tmp_path / "mine.jsonl"
    asked = (
        f"{demo_gym}/crm/?token=s3cret",
        "-o",
        str(output),
        "--prompt",
        PROMPT,
        "--answer",
        "It is 123.",
    )
    async with recording(*asked) as command:
        address = re.search(r"http://127\.0\.0\.1:(\d+)", await command.says())
        assert address
        async with person(int(address[1])) as page:
            await page.mouse.click(150, 301)  # Priya's lead
            assert "click" in await command.says()
            await page.mouse.click(1156, 267)
            assert "click" in await command.says()
            await page.keyboard.press("Control+A")
            assert "Control" in await command.says()
            await page.keyboard.type("123")
            assert "123" in await command.says()
            await page.mouse.click(883, 385)  # save
            assert "click" in await command.says()
        command.process.send_signal(signal.SIGINT)
        rest, _ = await command.process.communicate()
        assert command.process.returncode == 0, rest
    task = json.loads(output.read_text())
    assertions = task["verifier_metadata"]["assertions"]
    assert [one.get("equals", one.get("only_changed")) for one in assertions[:2]] == [
        "123",
        ["/crm:leads/L-1003/phone"],
    ]
    # The task keeps what it takes to start; what is shown of it does not tell.
    assert task["verifier_metadata"]["start_url"].endswith("?token=s3cret")
    for path in (output.with_suffix(".rollout.jsonl"), output.with_suffix(".sft.jsonl")):
        assert "s3cret" not in path.read_text()
    sample = json.loads(output.with_suffix(".sft.jsonl").read_text())
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["user", *["assistant", "tool"] * 5, "assistant"]
    assert len(sample["images"]) == 6
    with served_environment() as environment:
        # Played again, it is the same.
        (rollout,) = read_rollouts([output.with_suffix(".rollout.jsonl")])
        async with httpx.AsyncClient(base_url=environment, timeout=120) as http:
            tasks = {"mine": task["verifier_metadata"]}
            images = tmp_path / "images"
            settings = Settings(verify=True, tolerance=0.001, images=images, tasks=tasks)
            outcome = await replay(rollout, Environment(http, environment), settings)
        assert outcome.verdict == "equal", outcome
        assert outcome.reward == 1
        assert [step.unequal is None for step in outcome.steps] == [False] * 6
        # A model that follows the script solves the task.
        with served_script(output.with_suffix(".script.json")) as model:
            async with running_agent(environment, model, tmp_path, model="computer") as agent:
                answer = await agent.post("/run", json=task)
        assert answer.json()["reward"] == 1, answer.json()


async def test_all_that_a_person_does_is_recorded(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "QUIET_MS", 100)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.05)
    stop, ready, port = asyncio.Event(), asyncio.Event(), free_port()
    seen: asyncio.Queue[Recorded] = asyncio.Queue()
    asked = Asked(f"{site}/recorder.html", 1280, 720, port)
    task = asyncio.create_task(record(asked, stop, ready.set, seen.put_nowait))

    async def leads_to(work: Awaitable[Any], *kinds: str) -> None:
        """Do something, and wait until it has been seen what came of it."""
        await work
        for kind in kinds:
            recorded = await asyncio.wait_for(seen.get(), ANSWER_S)
            assert recorded.action["type"] == kind, recorded.action

    async def pause() -> None:
        """Let what follows be no consequence of what was before."""
        await asyncio.sleep(PAUSE_MS / 1000)

    try:
        await asyncio.wait_for(ready.wait(), ANSWER_S)
        async with person(port) as page:
            mouse, keyboard = page.mouse, page.keyboard
            await leads_to(mouse.dblclick(100, 40), "click")
            await leads_to(keyboard.insert_text("é🚀"), "type")
            await leads_to(mouse.click(500, 100, button="right"), "click")
            await leads_to(page.drag_and_drop("#card", "#drop"), "drag")
            await mouse.move(500, 300)
            await leads_to(mouse.wheel(0, 200), "scroll")
            # The options of a select are in the page, as a model sees them.
            await leads_to(mouse.click(800, 315), "click")
            await leads_to(keyboard.press("ArrowDown"), "key")
            await leads_to(keyboard.press("Enter"), "key")
            await leads_to(page.goto(f"{site}/links.html"), "navigate")
            await leads_to(mouse.click(100, 40), "click")  # a link
            await pause()
            await leads_to(page.go_back(), "go_back")
            await leads_to(page.reload(), "reload")
            async with page.context.expect_page() as opened:
                await leads_to(mouse.click(100, 100), "click")  # opens a tab
            second = await opened.value
            page.on("dialog", lambda _: None)  # the recording answers it
            await leads_to(mouse.click(100, 160), "switch_tab", "click")  # asks a question
            await pause()
            await leads_to(second.close(), "switch_tab", "close_tab")
            third = await new_tab(page)
            await leads_to(third.goto(f"{site}/frames.html"), "new_tab", "navigate")
            # Points are those of the viewport, whatever a frame has around it.
            await third.add_style_tag(content="iframe { border: 15px solid; padding: 9px 7px; }")
            await leads_to(third.mouse.click(117, 99), "click")
            await leads_to(third.mouse.click(497, 99), "click")  # in a frame of another site
            stop.set()
            recording = await asyncio.wait_for(task, ANSWER_S)
    finally:
        stop.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    actions = [recorded.action for recorded in recording.actions]
    assert all(parse_action(action) for action in actions)
    assert actions[0] == {"type": "click", "x": 100, "y": 40, "count": 2}
    assert actions[3]["path"][0] == {"x": 810, "y": 50}
    assert actions[3]["path"][-1] == {"x": 860, "y": 210}
    assert [(one["x"], one["y"]) for one in actions[-2:]] == [(117, 99), (497, 99)]
    assert actions[8]["url"] == f"{site}/links.html"
    assert json.loads(recording.left["values"]) | {"pageTop": 0} == {
        "input": "é🚀",
        "area": "",
        "rich": "",
        "select": "two",
        "paneTop": 200,
        "paneLeft": 0,
        "pageTop": 0,
        "dropped": "card",
    }
    assert recording.left["clicked"] == "?near"
    assert recording.left["confirmed"] == "true"
    assert recording.notes == ["a page asked 'Delete it?', which was accepted as in an episode"]


def refused(*arguments: object, **environment: str | None) -> str:
    """Return what the command says to what it cannot do."""
    result = CliRunner(env=environment).invoke(app, ["record", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    return result.output


def test_what_cannot_be_recorded_says_what_to_do(site: str, tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"
    url = f"{site}/second.html"
    (tmp_path / "b.script.json").touch()
    cases: list[tuple[tuple[object, ...], str]] = [
        ((url, "-o", tmp_path / "a.json"), "give a name that ends in .jsonl"),
        ((url, "-o", tmp_path / "b.jsonl"), "b.script.json is there already"),
        ((url, "-o", "/proc/a.jsonl"), "--output /proc/a.jsonl: "),
        ((url, "-o", tmp_path / f"{'a' * 245}.jsonl"), "File name too long"),
        ((url, "-o", output, "--viewport", "10x720"), "--viewport 10x720: give width and height"),
        (("ftp://a.test", "-o", output, "--headless"), "ftp://a.test"),
        (("http://127.0.0.1:9/", "-o", output, "--headless"), "is the app running?"),
    ]
    for arguments, reason in cases:
        assert reason in refused(*arguments)
    if sys.platform == "linux":
        nowhere: dict[str, Any] = {"DISPLAY": None, "WAYLAND_DISPLAY": None}
        assert "no display" in refused(url, "-o", output, **nowhere)
        shell = tmp_path / "headless_shell"
        shell.write_text("#!/bin/sh\necho Chromium 156.0.0.0\n")
        shell.chmod(0o755)
        only = {"DISPLAY": ":0", "BROWSER_GYM_CHROMIUM": str(shell)}
        assert "has no window" in refused(url, "-o", output, **only)
    assert not output.exists()
