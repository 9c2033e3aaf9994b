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
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from benchmarks.chaos_episodes import (
    ALONE,
    OTHER_AGENT,
    OTHER_SERVER,
    SILENCE_S,
    Episode,
    Report,
    plan,
    report,
)
from benchmarks.chaos_servers import Servers, full_disk
from benchmarks.leftovers import left, own_temp_folder, started
from resources_servers.browser_gym.tests.fake_gym import (
    ACTUAL,
    answer,
    dropping_address,
    refusing_address,
    running_fake_gym,
)
from resources_servers.browser_gym.tests.fake_judge import NO, YES, fails, running_fake_judge, says
from responses_api_agents.browser_agent.tests.stack import (
    MODEL,
    running_agent,
    served_model,
)
from tests.front import Passing, front_of
from tests.simulators import openai_scripts as scripts
from tests.simulators.faults import CutOff
from tests.simulators.http_server import serve
from tests.simulators.openai_api import OpenAISimulator
from tests.simulators.openai_scripts import Item, SimTurn, click, computer_call, function_call
from tests.site import create_site
from tests.waiting import eventually

Json = dict[str, Any]

RESULTS = Path(__file__).resolve().parents[1] / "results" / "chaos.json"
DEAD_ADDRESS = "http://127.0.0.1:9"
COUNT = computer_call(click(100, 50))
LOOK = computer_call({"type": "wait"})

PATIENCE_S = 300
"""How long an answer that comes may take; no machine is as busy."""
PROVIDER_FAULTS = {
    "provider out of quota": scripts.rate_limited(0),
    "provider errs": scripts.server_error(),
    "provider cuts": scripts.cut_connection(),
    "provider silent": scripts.hang(),
    "provider refuses": scripts.Fault("status", 401, {"error": {"message": "no such key"}}),
    "provider fails once": scripts.rate_limited(0),
}


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
        self._episodes = plan(episodes, self._random)
        self._of_session: dict[str, Episode] = {}
        self._alone = {OTHER_SERVER[fault]: asyncio.Semaphore(1) for fault in ALONE}
        self._kills: list[float] = []
        self._complaints: list[str] = []

    async def run(self) -> Report:
        """Run all episodes and count what is wrong and what is left."""
        began = time.monotonic()
        with own_temp_folder("chaos-") as folder:
            before = _own_counts(folder)
            sessions_left = await self._run_all()
            leaked = await left(lambda: _own_counts(folder), before)
        leaked["sessions and callers"] += sessions_left
        self._complaints += [
            f"{number} {kind} are left" for kind, number in leaked.items() if number
        ]
        seconds = time.monotonic() - began
        return report(self._episodes, self._kills, self._complaints, leaked.total(), seconds)

    async def _run_all(self) -> int:
        """Start the servers, run all episodes, and return how many sessions are left then."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
            self._site = stack.enter_context(serve(create_site()))
            self._gym = stack.enter_context(running_fake_gym())
            self._gym.set(ACTUAL, self._verdict)
            self._refusing = stack.enter_context(refusing_address())
            self._dropping, _ = stack.enter_context(dropping_address())
            judge = stack.enter_context(running_fake_judge())
            judge.replies = [self._judged]
            self._servers = Servers(stack, folder, self._at_once, judge.url)
            await self._run_episodes(stack, folder)
            busy = await self._servers.left()
        for name, health in busy.items():
            self._complaints.append(f"the server {name!r} has sessions left: {health}")
        return sum(health["sessions"] + health["queued"] for health in busy.values())

    async def _run_episodes(self, stack: ExitStack, folder: Path) -> None:
        simulator = OpenAISimulator(self._policy)
        api = stack.enter_context(simulator.serve())
        api = stack.enter_context(front_of(api.removesuffix("/v1"), self._treat_provider)) + "/v1"
        environment = stack.enter_context(front_of(DEAD_ADDRESS, self._treat_environment))
        disk = stack.enter_context(full_disk())
        waits: dict[str, tuple[float, Path]] = {
            "normal": (PATIENCE_S, folder),
            "diskless": (PATIENCE_S, disk),
            "hasty": (SILENCE_S, folder),
        }
        common: Json = {"model": MODEL, "state": "stateless", "queue_timeout_s": 0}
        async with AsyncExitStack() as running:
            agents: dict[str, httpx.AsyncClient] = {}
            for name, (wait_s, artifacts) in waits.items():
                model = stack.enter_context(
                    served_model(api, MODEL, max_retries=1, timeout_s=wait_s)
                )
                agent = running_agent(
                    environment,
                    model,
                    folder,
                    **common,
                    environment_timeout_s=wait_s,
                    artifact_dir=str(artifacts / "artifacts"),
                )
                agents[name] = await running.enter_async_context(agent)
            async with self._held():
                free = asyncio.Semaphore(self._at_once)

                async def play(episode: Episode) -> None:
                    fault = episode.fault
                    turn = self._alone[OTHER_SERVER[fault]] if fault in ALONE else free
                    async with turn:
                        await self._play(episode, agents[OTHER_AGENT.get(fault, "normal")])

                await asyncio.gather(*map(play, self._episodes))

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """Keep the server with one slot full."""
        async with httpx.AsyncClient(
            base_url=self._servers.urls["full"], timeout=PATIENCE_S
        ) as http:
            seeded = await http.post(
                "/seed_session", json={"start_url": f"{self._site}/links.html"}
            )
            yield
            await http.post("/close", json={"env_id": seeded.json()["env_id"]})

    # One episode.

    async def _play(self, episode: Episode, http: httpx.AsyncClient) -> None:
        episode.started = time.monotonic()
        run = asyncio.create_task(http.post("/run", json=self._row(episode), timeout=None))
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
        assertion = {"title": "clicks", "query": "count", "equals": episode.asked_clicks}
        metadata: Json = {
            "task_id": str(episode.number),
            "start_url": f"{self._site}/counter.html",
            "verifier": episode.verifier,
        }
        if episode.verifier == "local_storage":
            metadata["assertions"] = [assertion]
        elif episode.verifier == "gym_api":
            metadata["gym_url"] = self._gym.url
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
                    self._servers.kill("fragile", "--type=renderer")
                replies[1:1] = [LOOK, LOOK]
            case "browser dies":
                if turn.number == 1 and episode.once("killed"):
                    self._servers.kill("fragile", "headless")
            case "neighbour dies":
                once = turn.number == 1 and episode.once("killed")
                if once and self._servers.kill_one_of_main(self._random):
                    self._kills.append(time.monotonic())
        return [replies[turn.number]] if turn.number < len(replies) else [scripts.message("Done.")]

    def _to(self, page: str) -> Item:
        return function_call("navigate", url=f"{self._site}/{page}")

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
        # A rollout that is cancelled may close its session before it is seeded.
        episode = self._of_session.get(passing.body["env_id"])
        url = self._servers.urls[OTHER_SERVER.get(episode.fault if episode else "", "main")]
        async with httpx.AsyncClient(base_url=url, timeout=None, verify=False) as client:
            passing = Passing(passing.path, passing.body, client, passing.request)
            return await (self._treat(episode, passing) if episode else passing.forward())

    async def _treat_seed(self, passing: Passing) -> Response:
        number = int(passing.body["verifier_metadata"]["task_id"])
        episode = next(e for e in self._episodes if e.number == number)
        self._of_session[passing.body["env_id"]] = episode
        url = self._servers.urls[OTHER_SERVER.get(episode.fault, "main")]
        async with httpx.AsyncClient(base_url=url, timeout=None, verify=False) as client:
            seeded = await Passing(passing.path, passing.body, client, passing.request).forward()
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
            case "verdicts cut" if passing.path == "/verify":
                await passing.forward()
                return CutOff()
            case "verdict cut once" if passing.path == "/verify" and episode.once("verdict cut"):
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
        result = "pass" if stored.get("count") == str(episode.asked_clicks) else "fail"
        return answer({"assertions": [{"title": "clicks", "result": result}]})

    def _judged(self, body: Json) -> Response:
        episode = self._asked_about(body["input"])
        match episode.fault:
            case "judge fails":
                return fails(503)(body)
            case "judge rambles":
                return says("Hard to say.")(body)
        return (YES if episode.reward else NO)(body)


def _own_counts(folder: Path) -> Counter[str]:
    """What this process has started, and what that has in the temporary folder."""
    return Counter(
        {
            "processes": sum(1 for _ in started()),
            "temp folders": sum(1 for _ in folder.iterdir()),
        }
    )


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

    found = asyncio.run(run())
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(asdict(found), indent=2) + "\n")
    print(json.dumps(asdict(found), indent=2))
    wrong = (found.wrong_rewards, found.wrong_kinds, found.leaked)
    return int(found.rows != found.episodes or any(wrong))


if __name__ == "__main__":
    sys.exit(main())
