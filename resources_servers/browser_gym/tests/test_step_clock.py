"""`clock: step`: page time passes only during steps, whoever waits and for how long."""

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym.browser import settle
from resources_servers.browser_gym.browser.page_clock import StepClock

GRADED = {"verifier": "local_storage", "assertions": [{"title": "t", "only_changed": []}]}
STEP = {
    "verifier_metadata": {**GRADED, "browser": {"clock": "step", "time": "2030-01-01T00:00:00Z"}}
}
START_MS = 1_893_456_000_000
LOOK = {"type": "screenshot"}


def click(y: float, **fields: Any) -> dict[str, Any]:
    return {"type": "click", "x": 60, "y": y, **fields}


@pytest.fixture
async def env_id(client: Client, site: str) -> str:
    return (await client.seed(f"{site}/clock.html", **STEP))["env_id"]


async def log(client: Client, env_id: str) -> list[tuple[str, int]]:
    """What the page wrote: (what, how long after the session's start in ms)."""
    answer = await client.step(env_id, {"type": "page_text"})
    lines = re.findall(r"^(.+?) +at (\d+)$", answer["results"][0]["text"], re.MULTILINE)
    return [(what, int(time) - START_MS) for what, time in lines]


@pytest.mark.parametrize("clock", ["real", "step"])
async def test_functions_of_time_are_a_browsers(client: Client, site: str, clock: str) -> None:
    metadata = {**GRADED, "browser": {"clock": clock}}
    seeded = await client.seed(f"{site}/natives.html", verifier_metadata=metadata)
    assert (seeded["title"], seeded["settled"]) == ("all right", True)


async def test_no_time_passes_while_nobody_acts(client: Client, site: str) -> None:
    seen = []
    for pause_s in (0, 0.5):
        env_id = (await client.seed(f"{site}/clock.html", **STEP))["env_id"]
        for action in (click(40), click(100), click(160), click(40)):
            await asyncio.sleep(pause_s)  # a model thinks
            answer = await client.step(env_id, action)
        seen.append((answer["title"], await log(client, env_id)))
    assert seen[0] == seen[1]
    # Three seconds with a timer of 100 ms, two with frames.
    counts = re.fullmatch(r'{"ticks":(\d+),"frames":(\d+)}', seen[0][0])
    assert counts
    assert 29 <= int(counts[1]) <= 30
    assert 119 <= int(counts[2]) <= 121


async def test_a_step_is_a_second_and_wait_what_it_says(client: Client, env_id: str) -> None:
    await client.step(env_id, click(40))
    for _ in range(4):
        await client.step(env_id, LOOK)
    entries = await log(client, env_id)  # a step, too
    assert entries == [("opened", 0), ("toast shown", 1000)]
    shown, gone = (await log(client, env_id))[1:]
    assert gone == ("toast gone", shown[1] + 5000)

    answer = await client.step(env_id, click(40), {"type": "wait", "ms": 30_000}, click(340))
    shown, gone, spun = (await log(client, env_id))[3:]
    assert gone == ("toast gone", shown[1] + 5000)
    assert spun[1] - shown[1] == pytest.approx(30_100, abs=100)
    assert answer["timings_ms"]["act"] < 30_000


async def test_what_a_step_starts_is_finished_at_its_end(client: Client, env_id: str) -> None:
    for y in (220, 340, 400, 520):
        answer = await client.step(env_id, click(y))
        assert answer["settled"]
    entries = [what for what, _ in await log(client, env_id)]
    # A transition and a timer after it; a loop until the time has changed; an answer after 200 ms
    # that the page gives up after 120 ms of its own time, of which none passes while it is waited
    # for; an error in a timer.
    assert entries[1] == "moved"
    assert re.fullmatch(r"spun 3\d", entries[2])
    assert entries[3] == "answered"
    assert entries[4].startswith("error Uncaught Error: late")


async def test_a_step_ends_with_the_last_short_timer(client: Client, env_id: str) -> None:
    await client.step(env_id, click(640))
    await client.step(env_id, click(40))
    entries = await log(client, env_id)
    assert entries == [("opened", 0), ("later", 2200), ("toast shown", 2200)]


async def test_as_much_time_passes_on_a_slow_machine(
    client: Client, env_id: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the page is moved on, that takes longer than all waiting for quiet may last."""
    late_s = 0.0
    monotonic, run = time.monotonic, StepClock._run

    async def run_slowly(*args: Any, **options: Any) -> bool:
        nonlocal late_s
        late_s += 3.1
        return await run(*args, **options)

    async def play(env_id: str) -> list[tuple[str, int]]:
        actions = click(40), {"type": "wait", "ms": 300}, click(400), click(640), click(40)
        answer = await client.step(env_id, *actions)
        assert (answer["error"], answer["settled"]) == (None, True)
        return await log(client, env_id)

    fast = await play(env_id)
    env_id = (await client.seed(f"{site}/clock.html", **STEP))["env_id"]
    monkeypatch.setattr(settle, "time", SimpleNamespace(monotonic=lambda: monotonic() + late_s))
    monkeypatch.setattr(StepClock, "_run", run_slowly)
    assert await play(env_id) == fast


async def test_answers_are_waited_for_while_a_script_blocks(
    new_client: ClientFactory, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script takes longer than an answer is waited for, as on a slow machine."""
    monkeypatch.setattr(settle, "_MOST_BOUNDS", 100)
    client = await new_client(browser_processes=1, settle_max_ms=1000)
    env_id = (await client.seed(f"{site}/clock.html", **STEP))["env_id"]
    answer = await client.step(env_id, click(700))
    assert answer["settled"]
    assert await log(client, env_id) == [("opened", 0), ("heard", 1000)]


async def test_long_press_lasts_as_long_for_the_page(client: Client, env_id: str) -> None:
    await client.step(env_id, click(280, hold_ms=300))
    await client.step(env_id, click(280, hold_ms=800))
    entries = [what for what, _ in await log(client, env_id)]
    assert entries == ["opened", "released", "long press", "released"]


async def test_documents_to_come_have_the_same_time(client: Client, env_id: str, site: str) -> None:
    await client.step(env_id, LOOK)
    await client.step(env_id, click(460))  # a popup: it opens in the third second
    assert await log(client, env_id) == [("opened", 2000)]
    other = site.replace("127.0.0.1", "localhost")
    await client.step(env_id, {"type": "navigate", "url": f"{other}/clock.html"})
    assert await log(client, env_id) == [("opened", 4000)]
    await client.step(env_id, {"type": "reload"})
    assert await log(client, env_id) == [("opened", 6000)]
    await client.step(env_id, {"type": "close_tab"})
    await client.step(env_id, click(40))
    assert await log(client, env_id) == [("opened", 0), ("toast shown", 9000)]


async def test_frames_have_the_same_time(client: Client, site: str) -> None:
    env_id = (await client.seed(f"{site}/clock-frames.html", **STEP))["env_id"]
    for _ in range(2):
        answer = await client.step(env_id, LOOK)
    # Its own ticks, a frame's of its origin and one's of another, in 100 ms; counts once a second.
    assert answer["title"] == "30 30 30"


@pytest.mark.parametrize("clock", ["real", "step"])
@pytest.mark.parametrize("page", ["inert-frames", "broken-arrays"])
async def test_documents_that_answer_nothing_hold_up_no_step(
    client: Client, site: str, clock: str, page: str
) -> None:
    metadata = {**GRADED, "browser": {"clock": clock}}
    seeded = await client.seed(f"{site}/{page}.html", verifier_metadata=metadata)
    answer = await client.step(seeded["env_id"], LOOK)
    assert (seeded["settled"], answer["settled"]) == (True, True)


async def test_requests_that_never_leave_the_page_hold_up_no_time(
    client: Client, site: str
) -> None:
    seeded = await client.seed(f"{site}/blocked-fetch.html", **STEP)
    answer = await client.step(seeded["env_id"], LOOK)
    counted = [int(seeded["title"]), int(answer["title"])]
    assert (counted[1] - counted[0], answer["settled"]) == (10, True)
