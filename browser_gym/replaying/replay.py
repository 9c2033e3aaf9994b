"""Plays a rollout's actions again in a fresh browser and tells what comes out differently."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from browser_gym.environment import CannotRun, Environment
from browser_gym.replaying.pixels import decoded, read_image, unequal_share
from browser_gym.replaying.steps import Step, steps_of, task_of
from browser_gym.rollouts import Rollout
from browser_gym.storage import value_at
from browser_gym.viewer.actions import describe
from resources_servers.browser_gym.browser.capture import ImageFormat
from resources_servers.browser_gym.verification.assertions import shown_value
from resources_servers.browser_gym.verification.errors import VerifierError
from resources_servers.browser_gym.verification.evidence_store import EvidenceStore
from resources_servers.browser_gym.verification.json_diff import diff_paths, to_pointer
from resources_servers.browser_gym.verification.storage_document import parse_document

Json = dict[str, Any]
Storage = dict[str, str]

PROJECT_ROOT = Path(__file__).resolve().parents[2]
MAX_PLACES = 20
"""How many places that differ in localStorage are named."""
_NOTHING = {
    "id": "replay",
    "object": "response",
    "created_at": 0,
    "model": "none",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


@dataclass(frozen=True)
class Difference:
    """What is not as it was.

    Attributes:
        what: is different.
        recorded: as it was.
        replayed: as it is now.
        share: of a screenshot's pixels, from 0 to 1.
        images: files of a screenshot as it was, and as it is now.
    """

    what: Literal["status", "url", "screenshot", "local_storage", "reward"]
    recorded: Any
    replayed: Any
    share: float | None = None
    images: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StepOutcome:
    """How a step went.

    Attributes:
        step: its name.
        actions: its actions in words.
        difference: the first, None if it went as it had gone.
        unequal: share of pixels that are not the same; None if there was nothing to compare with.
    """

    step: str
    actions: list[str]
    difference: Difference | None
    unequal: float | None


@dataclass
class Outcome:
    """How a replay went.

    Attributes:
        rollout: where the row is.
        task_id: of its task.
        steps: that were played.
        at_end: what is different at the end.
        not_compared: what could not be compared, and why.
        reward: of the replay, if it was graded.
        failure: why it could not be run, or not to its end.
    """

    rollout: str
    task_id: str
    steps: list[StepOutcome] = field(default_factory=list)
    at_end: list[Difference] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    reward: float | None = None
    failure: str | None = None

    @property
    def verdict(self) -> Literal["equal", "different", "failed"]:
        """In a word."""
        if self.failure is not None:
            return "failed"
        different = self.at_end or any(step.difference for step in self.steps)
        return "different" if different else "equal"

    def as_json(self) -> Json:
        """Return it for a program."""
        return {"verdict": self.verdict, **asdict(self)}


@dataclass(frozen=True)
class Settings:
    """How rollouts are replayed.

    Attributes:
        verify: whether the outcome is graded.
        tolerance: share of pixels that may differ.
        images: folder for screenshots that differ.
        tasks: `verifier_metadata` by task id, for rows that hide secrets.
    """

    verify: bool
    tolerance: float
    images: Path
    tasks: dict[str, Json] = field(default_factory=dict)


def length_of(rollout: Rollout) -> int:
    """Return how many steps a rollout has, the start page among them; 0 if it has none."""
    try:
        return len(steps_of(rollout.row))
    except CannotRun:
        return 0


def image_format_of(rollout: Rollout) -> ImageFormat:
    """Return what a rollout's screenshots are encoded as, by the names of their files."""
    first = rollout.row.get("first_observation") or {}
    suffix = str(first.get("screenshot") or "").rpartition(".")[2]
    return suffix if suffix in ("png", "webp") else "jpeg"


async def replay(
    rollout: Rollout,
    server: Environment,
    settings: Settings,
    progress: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Play a rollout again; the session is closed whatever happens.

    Args:
        rollout: of browser_agent. Of one that failed, what there is of it is played.
        server: to play it on.
        settings: how.
        progress: told of each step that was played.
    """
    outcome = Outcome(rollout.place, rollout.task_id)
    player = _Player(rollout, server, settings, outcome)
    try:
        await player.play(progress)
    except CannotRun as error:
        outcome.failure = str(error)
    finally:
        await player.close()
    return outcome


class _Player:
    def __init__(
        self, rollout: Rollout, server: Environment, settings: Settings, outcome: Outcome
    ) -> None:
        self._rollout = rollout
        self._row = rollout.row
        self._server = server
        self._settings = settings
        self._outcome = outcome
        self._env_id = ""

    async def play(self, progress: Callable[[int], None]) -> None:
        steps = steps_of(self._row)
        metadata = task_of(self._row, self._settings.tasks, graded=self._settings.verify)
        for step in steps:
            if step.turn is None:
                seen = await self._server.post("/seed_session", self._seed(step, metadata))
                self._env_id = seen["env_id"]
            else:
                body = {"env_id": self._env_id, "actions": step.actions}
                seen = await self._server.post("/step", body)
            self._outcome.steps.append(self._compared(step, seen))
            progress(1)
        await self._end(metadata)

    async def close(self) -> None:
        if self._env_id:
            with suppress(CannotRun):
                await self._server.post("/close", {"env_id": self._env_id})

    def _seed(self, step: Step, metadata: Json) -> Json:
        body: Json = {"verifier_metadata": metadata}
        if not metadata.get("viewport"):
            # The server that it was collected with had a default; the screenshots have its size.
            image = read_image(step.screenshot, self._rollout.folder) if step.screenshot else None
            if image:
                body |= {"viewport_width": image.width, "viewport_height": image.height}
        return body

    def _compared(self, step: Step, seen: Json) -> StepOutcome:
        name = "start" if step.turn is None else f"turn {step.turn}"
        if step.call:
            name += f", call {step.call}"
        unequal, pictures = self._screenshots(step, seen, name)
        statuses = [result["status"] for result in seen.get("results", [])]
        difference = None
        if statuses != step.statuses:
            replayed = seen.get("error") or ", ".join(statuses)
            difference = Difference("status", ", ".join(step.statuses), replayed)
        elif step.url and step.url != seen["current_url"]:
            difference = Difference("url", step.url, seen["current_url"])
        elif pictures:
            difference = Difference("screenshot", *pictures, unequal, list(pictures))
        actions = [describe(action) for action in step.actions]
        return StepOutcome(name, actions, difference, unequal)

    def _screenshots(
        self, step: Step, seen: Json, name: str
    ) -> tuple[float | None, tuple[str, str] | None]:
        """Return the share of pixels that differ, and the files of both images if it is too much.

        The share is None if one of them is missing.
        """
        if not step.screenshot:
            return None, None
        recorded = read_image(step.screenshot, self._rollout.folder)
        if recorded is None:
            self._outcome.not_compared.append(f"{name}: there is no image {step.screenshot:.200}")
            return None, None
        if not seen["screenshot"]:
            self._outcome.not_compared.append(f"{name}: the page drew nothing in time")
            return None, None
        data = base64.b64decode(seen["screenshot"])
        replayed = decoded(data)
        share = unequal_share(recorded, replayed)
        if share <= self._settings.tolerance:
            return share, None
        folder = self._settings.images
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self._rollout.line}-{name.replace(', ', '-').replace(' ', '')}"
        was, now = folder / f"{stem}-recorded.png", folder / f"{stem}-replayed.png"
        recorded.save(was)
        replayed.save(now)
        return share, (str(was), str(now))

    async def _end(self, metadata: Json) -> None:
        """End the session as a verdict does, and compare what it left behind."""
        row, verify = self._row, self._settings.verify
        graded = await self._server.post(
            "/verify",
            {
                "env_id": self._env_id,
                "verifier_metadata": metadata,
                "responses_create_params": row["responses_create_params"]
                if verify
                else {"input": "replay"},
                "response": row["response"] if verify else _NOTHING,
                "final_answer": row.get("final_answer") or "",
            },
        )
        self._env_id = ""
        if graded.get("mask_sample") or graded.get("failure_kind"):
            raise CannotRun(f"{graded.get('failure_kind')}: {graded.get('failure_reason')}")
        await self._compare_storage(graded)
        if verify:
            self._compare_reward(graded["reward"])

    async def _compare_storage(self, graded: Json) -> None:
        recorded, replayed = await final_storage(self._row), await final_storage(graded)
        if recorded is None or replayed is None:
            whose = "the row" if recorded is None else "the server"
            self._outcome.not_compared.append(f"localStorage: {whose} does not tell it")
            return
        was, now = parse_document(recorded), parse_document(replayed)
        places = list(diff_paths(was, now))
        if places:
            told = [(to_pointer(path), path) for path in places[:MAX_PLACES]]
            difference = Difference(
                "local_storage",
                {pointer: shown_value(value_at(was, path)) for pointer, path in told},
                {pointer: shown_value(value_at(now, path)) for pointer, path in told},
            )
            self._outcome.at_end.append(difference)
        if len(places) > MAX_PLACES:
            left = len(places) - MAX_PLACES
            self._outcome.not_compared.append(f"localStorage: {left} more places differ")

    def _compare_reward(self, reward: float) -> None:
        self._outcome.reward = reward
        if self._row.get("mask_sample"):
            self._outcome.not_compared.append("reward: the row is masked, so it has none")
        elif self._row["reward"] != reward:
            self._outcome.at_end.append(Difference("reward", self._row["reward"], reward))


async def final_storage(row: Json) -> Storage | None:
    """Return the start origin's localStorage at the end of a graded row; None if it is not known.

    Args:
        row: holds it if it is small; else the evidence does, if it is on this machine.
    """
    if row.get("final_local_storage") is not None:
        return row["final_local_storage"]
    if reference := row.get("deliverables_dir"):
        with suppress(VerifierError):
            return dict((await EvidenceStore(Path(), PROJECT_ROOT).load(reference)).final_storage)
    return None
