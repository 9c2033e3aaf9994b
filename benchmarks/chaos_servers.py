"""The resources servers of the chaos: their processes, and what they leave behind."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.chaos_episodes import SILENCE_S
from benchmarks.leftovers import chromiums, started
from resources_servers.browser_gym.browser.chromium import find_chromium
from resources_servers.browser_gym.tests.fake_judge import JUDGE_REF, OwnClient, client_of
from responses_api_agents.browser_agent.tests.stack import served_environment
from tests.full_disk import filled_up
from tests.waiting import eventually


class Servers:
    """Six resources servers.

    `main` is for most episodes. The Chromium of `fragile` is killed, sessions of `impatient` expire
    soon, `hasty` waits a short while only for a verifier; `full` has room for one session, `broken`
    a Chromium that cannot be started again.
    """

    def __init__(self, stack: ExitStack, folder: Path, at_once: int, judge_url: str) -> None:
        """Start them, up until `stack` ends.

        Args:
            stack: ends them.
            folder: for the launcher of a Chromium.
            at_once: how many sessions `main` has room for.
            judge_url: of the judge's model server.
        """
        self.urls: dict[str, str] = {}
        self._processes: dict[str, set[psutil.Process]] = {}
        launcher = folder / "chromium"
        launcher.write_text(f'#!/bin/sh\nexec "{find_chromium().executable}" "$@"\n')
        launcher.chmod(0o755)
        judge: dict[str, Any] = {
            "server_client": client_of(OwnClient, judge_url),
            "judge_model_server": JUDGE_REF,
            "judge_attempts": 2,
        }
        few: dict[str, Any] = {**judge, "browser_processes": 1, "warm_contexts": 0}
        configs: dict[str, dict[str, Any]] = {
            "main": {**judge, "browser_processes": 2, "max_sessions": at_once, "warm_contexts": 2},
            "hasty": {**few, "verify_timeout_s": SILENCE_S},
            "fragile": few,
            "impatient": {**few, "session_idle_timeout_s": 2},
            "full": {**few, "max_sessions": 1, "queue_limit": 0},
            "broken": {**few, "chromium_path": str(launcher)},
        }
        for name, config in configs.items():
            before = set(psutil.Process().children())
            self.urls[name] = stack.enter_context(served_environment(**config))
            self._processes[name] = set(psutil.Process().children()) - before
        launcher.write_text("#!/bin/sh\nexit 1\n")
        self.kill("broken", "headless")

    def kill(self, server: str, words: str) -> None:
        """Kill the processes of a server whose command line has these words."""
        for driver in self._processes[server]:
            for process, arguments in started(driver):
                if words in " ".join(arguments):
                    _kill(process)

    def kill_one_of_main(self, rng: random.Random) -> bool:
        """Kill a Chromium of `main`; return whether there was one."""
        mains = [process for driver in self._processes["main"] for process in chromiums(driver)]
        if mains:
            _kill(rng.choice(mains))
        return bool(mains)

    async def left(self) -> dict[str, dict[str, Any]]:
        """Return the health of each server that does not get rid of its sessions and callers."""
        left = {}
        for name, url in self.urls.items():
            async with httpx.AsyncClient(base_url=url, timeout=60) as http:

                async def empty(http: httpx.AsyncClient = http) -> bool:
                    health = (await http.get("/health")).json()
                    return health["sessions"] == health["queued"] == 0

                try:
                    await eventually(empty)
                except TimeoutError:
                    left[name] = (await http.get("/health")).json()
        return left


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):  # it has ended meanwhile
        process.kill()


@contextmanager
def full_disk() -> Iterator[Path]:
    """A folder that nothing can be written to: on a full file system, or else no folder at all."""
    folder = Path(tempfile.mkdtemp(prefix="full-disk-"))
    try:
        with filled_up(folder) as full:
            if not full:
                (folder / "file").touch()
            yield folder if full else folder / "file"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
