"""Many episodes at once while everything fails at random: is a row lost, wrong, or named wrongly?

Every episode counts clicks in a browser of its own, driven by a simulated model, and each has a
fault of its own or none: a Chromium or a tab that is killed, a full pool, an expired session, a
provider, verifier or server that fails, a full disk, a cut connection. An episode must give one row
with the right reward, or a masked one that names its fault, and nothing may be left afterwards.

    python -m benchmarks.chaos --episodes 300 --at-once 16
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from conftest import eventually
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.tests.fake_gym import (
    ACTUAL,
    answer,
    dropping_address,
    refusing_address,
    running_fake_gym,
)
from responses_api_agents.browser_agent.tests.stack import (
    MODEL,
    running_agent,
    served_environment,
    served_model,
)
from tests.front import CutOff, Passing, front_of
from tests.simulators import openai_scripts as scripts
from tests.simulators.http_server import serve
from tests.simulators.openai_api import OpenAISimulator
from tests.simulators.openai_scripts import Item, SimTurn, click, computer_call, function_call
from tests.site import create_site

Json = dict[str, Any]

RESULTS = Path(__file__).resolve().parents[1] / "results" / "chaos.json"
DEAD_ADDRESS = "http://127.0.0.1:9"
CANCELLED_SHARE = 0.05
COUNT = computer_call(click(100, 50))
LOOK = computer_call({"type": "wait"})

FAULTS: dict[str, Fault | None] = {
    "none": None,
    "too few clicks": None,
    "bad action": None,
    "dead link": None,
    "page hangs": None,
    "tab crashes": None,
    "seed cut once": None,
    "step cut once": None,
    "provider fails once": None,
    "neighbour dies": None,
    "browser dies": Fault.BROWSER_DIED,
    "pool full": Fault.POOL_FULL,
    "no browser": Fault.NO_BROWSER,
    "start page dead": Fault.START_PAGE,
    "session closed": Fault.SESSION_GONE,
    "session expires": Fault.SESSION_EXPIRED,
    "task unusable": Fault.TASK_UNUSABLE,
    "environment silent": Fault.SERVER_SILENT,
    "environment errs": Fault.SERVER_ERROR,
    "seeds cut": Fault.SERVER_DROPPED,
    "verdict cut": Fault.SERVER_DROPPED,
    "provider out of quota": Fault.MODEL_QUOTA,
    "provider errs": Fault.MODEL_DOWN,
    "provider cuts": Fault.MODEL_DOWN,
    "provider silent": Fault.MODEL_SILENT,
    "provider refuses": Fault.MODEL_REFUSES,
    "verifier errs": Fault.VERIFIER_FAILED,
    "verdict unusable": Fault.VERIFIER_FAILED,
    "verifier unreachable": Fault.VERIFIER_UNREACHABLE,
    "verifier drops": Fault.VERIFIER_DROPPED,
    "verifier silent": Fault.VERIFIER_SILENT,
    "disk full": Fault.DISK_FULL,
}
"""What is injected, and the line of the table of faults that the row must name, if it is masked."""

PLAIN = ("none", "too few clicks")
ALONE = ("tab crashes", "browser dies", "session expires")
"""Faults that would hit others too: these episodes have a server to themselves, one at a time."""
OTHER_SERVER = {"pool full": "full", "no browser": "broken", **dict.fromkeys(ALONE, "fragile")}
OF_VERIFIER = ("verifier errs", "verdict unusable", "verifier silent")
PROVIDER_FAULTS = {
    "provider out of quota": scripts.rate_limited(0),
    "provider errs": scripts.server_error(),
    "provider cuts": scripts.cut_connection(),
    "provider silent": scripts.hang(),
    "provider refuses": scripts.Fault("status", 401, {"error": {"message": "no such key"}}),
    "provider fails once": scripts.rate_limited(0),
}


@dataclass
class Episode:
    """One episode, as planned and as it went."""

    number: int
    fault: str
    clicks: int
    cancelled: bool
    by_gym: bool
    seen: Counter[str] = field(default_factory=Counter)
    started: float = 0
    ended: float = 0
    rows: list[Json] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        """What the model is asked, by which its requests are known."""
        return f"Episode {self.number}: click."

    @property
    def reward(self) -> float:
        """What it earns if it is not masked."""
        return float(self.fault != "too few clicks")

    def once(self, what: str) -> bool:
        """Say yes the first time only."""
        self.seen[what] += 1
        return self.seen[what] == 1


@dataclass
class Report:
    """What a run found; all but the first two should be 0."""

    episodes: int
    rows: int
    wrong_rewards: int
    wrong_kinds: int
    leaked: int
    cancelled: int
    masked: int
    seconds: float
    faults: dict[str, int]
    complaints: list[str]


class Chaos:
    """The servers, what happens to them, and the episodes.

    Args:
        episodes: how many, each with a row.
        at_once: how many run at a time.
        seed: of the choice of faults.
    """

    def __init__(self, episodes: int, at_once: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._at_once = at_once
        self._episodes = self._plan(episodes)
        self._servers: dict[str, str] = {}
        self._processes: dict[str, set[psutil.Process]] = {}
        self._of_session: dict[str, Episode] = {}
        self._fragile = asyncio.Semaphore(1)
        self._kills: list[float] = []
        self._complaints: list[str] = []

    def _plan(self, episodes: int) -> list[Episode]:
        others = [name for name in FAULTS if name not in PLAIN]
        planned = []
        for number in range(episodes + round(episodes * CANCELLED_SHARE)):
            cancelled = number >= episodes
            # Each fault once, as far as that goes; then every second episode has one.
            every = number if number < len(others) else self._random.randrange(2 * len(others))
            fault = others[every] if every < len(others) else "none"
            if fault == "none" and self._random.random() < 0.3:
                fault = "too few clicks"
            by_gym = fault in OF_VERIFIER or self._random.random() < 0.3
            clicks = self._random.randint(2, 4)
            planned.append(
                Episode(number, "none" if cancelled else fault, clicks, cancelled, by_gym)
            )
        self._random.shuffle(planned)
        return planned

    async def run(self) -> Report:
        """Run all episodes and count what is wrong and what is left."""
        started = time.monotonic()
        before = set(psutil.Process().children(recursive=True))
        folders = set(_session_folders())
        with ExitStack() as stack:
            self._site = stack.enter_context(serve(create_site()))
            self._gym = stack.enter_context(running_fake_gym())
            self._gym.set(ACTUAL, self._verdict)
            self._refusing = stack.enter_context(refusing_address())
            self._dropping, _ = stack.enter_context(dropping_address())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
            self._start_servers(stack, folder)
            await self._run_episodes(stack, folder)
            leaked = await self._left_in_servers()
        leaked += len(set(_session_folders()) - folders)
        leaked += sum(_lives(p) for p in set(psutil.Process().children(recursive=True)) - before)
        if leaked:
            self._complaints.append(f"{leaked} sessions, callers, folders or processes are left")
        return self._report(leaked, time.monotonic() - started)

    # The servers.

    def _start_servers(self, stack: ExitStack, folder: Path) -> None:
        launcher = folder / "chromium"
        launcher.write_text(f'#!/bin/sh\nexec "{find_chromium().executable}" "$@"\n')
        launcher.chmod(0o755)
        few: Json = {"browser_processes": 1, "warm_contexts": 0}
        configs: dict[str, Json] = {
            "main": {"max_sessions": self._at_once, "verify_timeout_s": 20, "warm_contexts": 2},
            "fragile": {**few, "session_idle_timeout_s": 5},
            "full": {**few, "max_sessions": 1, "queue_limit": 0},
            "broken": {**few, "chromium_path": str(launcher)},
        }
        for name, config in configs.items():
            before = set(psutil.Process().children(recursive=True))
            self._servers[name] = stack.enter_context(served_environment(**config))
            self._processes[name] = set(psutil.Process().children()) - before
        launcher.write_text("#!/bin/sh\nexit 1\n")
        self._kill("broken", "headless")

    async def _run_episodes(self, stack: ExitStack, folder: Path) -> None:
        simulator = OpenAISimulator(self._policy)
        api = stack.enter_context(simulator.serve())
        api = stack.enter_context(front_of(api.removesuffix("/v1"), self._treat_provider)) + "/v1"
        model = stack.enter_context(served_model(api, MODEL, max_retries=1, timeout_s=10))
        environment = stack.enter_context(front_of(DEAD_ADDRESS, self._treat_environment))
        disk = stack.enter_context(full_disk())
        common: Json = {"model": MODEL, "state": "stateless", "environment_timeout_s": 60}
        async with AsyncExitStack() as agents:
            normal, diskless = [
                await agents.enter_async_context(
                    running_agent(environment, model, folder, **common, artifact_dir=str(artifacts))
                )
                for artifacts in (folder / "artifacts", disk / "artifacts")
            ]
            async with self._held():
                free = asyncio.Semaphore(self._at_once)

                async def play(episode: Episode) -> None:
                    async with free:
                        await self._play(
                            episode, diskless if episode.fault == "disk full" else normal
                        )

                await asyncio.gather(*map(play, self._episodes))

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """Keep the server with one slot full."""
        async with httpx.AsyncClient(base_url=self._servers["full"], timeout=60) as http:
            seeded = await http.post(
                "/seed_session", json={"start_url": f"{self._site}/links.html"}
            )
            yield
            await http.post("/close", json={"env_id": seeded.json()["env_id"]})

    async def _left_in_servers(self) -> int:
        left = 0
        for name, url in self._servers.items():
            async with httpx.AsyncClient(base_url=url, timeout=60) as http:

                async def empty(http: httpx.AsyncClient = http) -> bool:
                    health = (await http.get("/health")).json()
                    return health["sessions"] == health["queued"] == 0

                try:
                    await eventually(empty)
                except TimeoutError:
                    health = (await http.get("/health")).json()
                    left += health["sessions"] + health["queued"]
                    self._complaints.append(f"the server {name!r} has sessions left: {health}")
        return left

    def _kill(self, server: str, words: str) -> None:
        """Kill the processes of a server whose command line has these words."""
        for driver in self._processes[server]:
            for process in driver.children(recursive=True):
                try:
                    if words in " ".join(process.cmdline()):
                        process.kill()
                except psutil.Error:
                    pass  # it has ended meanwhile

    # One episode.

    async def _play(self, episode: Episode, http: httpx.AsyncClient) -> None:
        episode.started = time.monotonic()
        run = asyncio.create_task(http.post("/run", json=self._row(episode), timeout=600))
        if episode.cancelled:
            # Somewhere in the episode; where is left to chance.
            await asyncio.wait([run], timeout=self._random.uniform(0.1, 5))
            if not run.done():
                run.cancel()
                await asyncio.wait([run])
                return
        try:
            answered = await run
            episode.rows.append(answered.json())
        except Exception as error:  # any is a lost row, whatever it is
            self._complaints.append(f"episode {episode.number} has no row: {error!r}")
        episode.ended = time.monotonic()

    def _row(self, episode: Episode) -> Json:
        # The gym and the assertion want what the model does, or one click more.
        asked = episode.clicks + (episode.fault == "too few clicks")
        assertion = {"title": "clicks", "query": "count", "equals": asked}
        metadata: Json = {
            "task_id": str(episode.number),
            "start_url": f"{self._site}/counter.html",
            "verifier": "local_storage",
            "assertions": [assertion],
        }
        if episode.by_gym:
            del metadata["assertions"]
            metadata |= {"verifier": "gym_api", "gym_url": self._gym.url}
        match episode.fault:
            case "start page dead":
                metadata["start_url"] = f"{DEAD_ADDRESS}/"
            case "task unusable":
                metadata["verifier"] = "magic"
            case "verifier unreachable":
                metadata |= {"verifier": "gym_api", "gym_url": self._refusing}
            case "verifier drops":
                metadata |= {"verifier": "gym_api", "gym_url": self._dropping}
        params = {"input": [{"role": "user", "content": episode.prompt}]}
        return {"responses_create_params": params, "verifier_metadata": metadata}

    def _policy(self, turn: SimTurn) -> list[Item]:
        episode = self._asked_about(turn.conversation)
        replies: list[Item] = [COUNT] * episode.clicks
        match episode.fault:
            case "bad action":
                replies.insert(0, computer_call(click(5000, 5)))
            case "dead link":
                replies[:0] = [
                    function_call("navigate", url=DEAD_ADDRESS),
                    self._to("counter.html"),
                ]
            case "page hangs":
                loop = computer_call(click(60, 340))
                replies[1:1] = [self._to("links.html"), loop, self._to("counter.html")]
            case "tab crashes":
                if turn.number == 1 and episode.once("killed"):
                    self._kill("fragile", "--type=renderer")
                replies[1:1] = [LOOK, LOOK]
            case "browser dies":
                if turn.number == 1 and episode.once("killed"):
                    self._kill("fragile", "headless")
            case "neighbour dies":
                if turn.number == 1 and episode.once("killed"):
                    self._kill_one_of_main()
        return [replies[turn.number]] if turn.number < len(replies) else [scripts.message("Done.")]

    def _to(self, page: str) -> Item:
        return function_call("navigate", url=f"{self._site}/{page}")

    def _kill_one_of_main(self) -> None:
        mains = [
            process
            for driver in self._processes["main"]
            for process in driver.children()
            if "headless" in process.name()
        ]
        if mains:
            self._kills.append(time.monotonic())
            self._random.choice(mains).kill()

    def _asked_about(self, conversation: object) -> Episode:
        number = re.search(r"Episode (\d+): click", json.dumps(conversation))
        assert number, "a request without its prompt"
        return next(e for e in self._episodes if e.number == int(number[1]))

    # What happens on the way.

    async def _treat_provider(self, passing: Passing) -> Response:
        episode = self._asked_about(passing.body["input"])
        fault = PROVIDER_FAULTS.get(episode.fault)
        replies = sum(item.get("type") == "computer_call" for item in passing.body["input"])
        if fault is None or replies < 1:
            return await passing.forward()
        if episode.fault == "provider fails once" and not episode.once(f"failed {replies}"):
            return await passing.forward()
        match fault.kind:
            case "hang":
                return await passing.silence()
            case "cut":
                return CutOff()
            case _:
                return JSONResponse(fault.body, fault.status, fault.headers)

    async def _treat_environment(self, passing: Passing) -> Response:
        if passing.path == "/seed_session":
            return await self._treat_seed(passing)
        episode = self._of_session[passing.body["env_id"]]
        url = self._servers[OTHER_SERVER.get(episode.fault, "main")]
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            passing = Passing(passing.path, passing.body, client, passing.request)
            try:
                return await self._treat(episode, passing)
            finally:
                ends = passing.path in ("/verify", "/close")
                if ends and episode.fault in ALONE and episode.once("released"):
                    self._fragile.release()

    async def _treat_seed(self, passing: Passing) -> Response:
        number = int(passing.body["verifier_metadata"]["task_id"])
        episode = next(e for e in self._episodes if e.number == number)
        if episode.fault in ALONE:
            await self._fragile.acquire()
        url = self._servers[OTHER_SERVER.get(episode.fault, "main")]
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            seeded = await Passing(passing.path, passing.body, client, passing.request).forward()
        body = json.loads(bytes(seeded.body))
        if "env_id" in body:
            self._of_session[body["env_id"]] = episode
        elif episode.fault in ALONE:
            self._fragile.release()
        cut = episode.fault == "seeds cut"
        cut = cut or (episode.fault == "seed cut once" and episode.once("seed cut"))
        return CutOff() if cut else seeded

    async def _treat(self, episode: Episode, passing: Passing) -> Response:
        stepping = passing.path == "/step"
        match episode.fault:
            case "session closed" if stepping and episode.once("closed"):
                await passing.client.post("/close", json={"env_id": passing.body["env_id"]})
            case "session expires" if stepping and episode.once("expired"):

                async def expired() -> bool:
                    return (await passing.client.get("/health")).json()["sessions"] == 0

                await eventually(expired)
            case "environment silent" if stepping:
                return await passing.silence()
            case "environment errs" if stepping:
                return PlainTextResponse("Internal Server Error", 500)
            case "step cut once" if stepping and episode.once(str(passing.body["operation_id"])):
                await passing.forward()
                return CutOff()
            case "verdict cut" if passing.path == "/verify":
                await passing.forward()
                return CutOff()
        return await passing.forward()

    async def _verdict(self, request: Request) -> Response:
        form = request.state.form
        episode = next(e for e in self._episodes if str(e.number) == form["taskId"])
        stored = json.loads(form["localStorageDump"][2])
        match episode.fault:
            case "verifier errs":
                return answer("boom", 500)
            case "verdict unusable":
                return answer({"assertions": "all good"})
            case "verifier silent":
                while (await request.receive())["type"] != "http.disconnect":
                    pass
        asked = episode.clicks + (episode.fault == "too few clicks")
        result = "pass" if stored.get("count") == str(asked) else "fail"
        return answer({"assertions": [{"title": "clicks", "result": result}]})

    # What came of it.

    def _report(self, leaked: int, seconds: float) -> Report:
        counted = [e for e in self._episodes if not e.cancelled]
        wrong_rewards = wrong_kinds = masked = 0
        for episode in counted:
            if len(episode.rows) != 1:
                continue
            row = episode.rows[0]
            told = f"episode {episode.number} ({episode.fault})"
            expected = FAULTS[episode.fault]
            if not row.get("mask_sample"):
                if expected or row.get("reward") != episode.reward:
                    wrong_rewards += 1
                    self._complaints.append(f"{told}: reward {row.get('reward')}: {_end_of(row)}")
                continue
            masked += 1
            right = row["failure_kind"] == (expected.kind if expected else None)
            if not (right or self._was_neighbour(episode, row)) or not row["instance_config"]:
                wrong_kinds += 1
                self._complaints.append(
                    f"{told}: {row['failure_kind']}: {row['failure_reason'][:300]}"
                )
        return Report(
            episodes=len(counted),
            rows=sum(len(episode.rows) for episode in counted),
            wrong_rewards=wrong_rewards,
            wrong_kinds=wrong_kinds,
            leaked=leaked,
            cancelled=len(self._episodes) - len(counted),
            masked=masked,
            seconds=round(seconds, 1),
            faults=dict(Counter(e.fault for e in counted).most_common()),
            complaints=self._complaints,
        )

    def _was_neighbour(self, episode: Episode, row: Json) -> bool:
        """Whether the row was lost to a Chromium of the shared server that was killed meanwhile."""
        return (
            episode.fault not in OTHER_SERVER
            and row["failure_kind"] == Fault.BROWSER_DIED.kind
            and any(episode.started <= kill <= episode.ended for kill in self._kills)
        )


def _end_of(row: Json) -> str:
    texts = [t for turn in row["turns"][-2:] for call in turn["calls"] for t in call["texts"]]
    return f"{row['termination_reason']}, {row['num_turns']} turns, told {texts}"[:300]


def _session_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("browser-gym-*"))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@contextmanager
def full_disk() -> Iterator[Path]:
    """A folder that nothing can be written to: on a full file system, or else no folder at all."""
    folder = Path(tempfile.mkdtemp(prefix="full-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        if mounted:
            with (folder / "filler").open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, 16_000)
            yield folder
        else:
            (folder / "file").touch()
            yield folder / "file"
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run the chaos, write `results/chaos.json`; 1 if anything is lost, wrong or left."""
    parser = argparse.ArgumentParser(description="Run episodes while everything fails.")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.CRITICAL)  # the faults are many, and known

    async def run() -> Report:
        return await Chaos(options.episodes, options.at_once, options.seed).run()

    report = asyncio.run(run())
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(asdict(report), indent=2) + "\n")
    print(json.dumps(asdict(report), indent=2))
    wrong = (report.wrong_rewards, report.wrong_kinds, report.leaked)
    return int(report.rows != report.episodes or any(wrong))


if __name__ == "__main__":
    sys.exit(main())
