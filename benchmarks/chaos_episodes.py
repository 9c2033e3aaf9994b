"""The episodes of the chaos: the fault of each, what must come of it, and what did."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from resources_servers.browser_gym.faults import Fault

Json = dict[str, Any]

CANCELLED_SHARE = 0.05

FAULTS: dict[str, Fault | None] = {
    "none": None,
    "too few clicks": None,
    "bad action": None,
    "dead link": None,
    "page hangs": None,
    "tab crashes": None,
    "seed cut once": None,
    "step cut once": None,
    "verdict cut once": None,
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
    "verdicts cut": Fault.SERVER_DROPPED,
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
    "judge fails": Fault.JUDGE_FAILED,
    "judge rambles": Fault.JUDGE_UNPARSEABLE,
    "disk full": Fault.DISK_FULL,
}
"""What is injected, and the line of the table of faults that the row must name, if it is masked."""

PLAIN = ("none", "too few clicks")
ALONE = ("tab crashes", "browser dies", "session expires")
"""Faults that would hit others too: these episodes have a server to themselves, one at a time."""
SILENCE_S = 8
"""How long those wait who get no answer; a busy machine may take longer for one to all others."""
OTHER_AGENT = {
    "disk full": "diskless",
    "environment silent": "hasty",
    "provider silent": "hasty",
}
OTHER_SERVER = {
    "verifier silent": "hasty",
    "pool full": "full",
    "no browser": "broken",
    "tab crashes": "fragile",
    "browser dies": "fragile",
    "session expires": "impatient",
}
GRADED_BY = {
    **dict.fromkeys(("verifier errs", "verdict unusable", "verifier silent"), "gym_api"),
    **dict.fromkeys(("judge fails", "judge rambles"), "judge"),
}
VERIFIERS = ("local_storage", "local_storage", "gym_api", "judge")


@dataclass
class Episode:
    """One episode, as planned and as it went."""

    number: int
    fault: str
    clicks: int
    cancelled: bool
    verifier: str
    seen: Counter[str] = field(default_factory=Counter)
    started: float = 0
    ended: float = 0
    rows: list[Json] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        """What the model is asked, by which its requests are known."""
        return f"Episode {self.number}: click."

    @property
    def asked_clicks(self) -> int:
        """How many clicks the task wants."""
        return self.clicks + (self.fault == "too few clicks")

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


def plan(episodes: int, rng: random.Random) -> list[Episode]:
    """Return that many episodes and a few that are cancelled, in random order.

    Each fault comes once, as far as that goes; of the rest, every second episode has one.
    """
    others = [name for name in FAULTS if name not in PLAIN]
    planned = []
    for number in range(episodes + round(episodes * CANCELLED_SHARE)):
        cancelled = number >= episodes
        every = number if number < len(others) else rng.randrange(2 * len(others))
        fault = others[every] if every < len(others) else "none"
        if fault == "none" and rng.random() < 0.3:
            fault = "too few clicks"
        verifier = GRADED_BY.get(fault) or rng.choice(VERIFIERS)
        clicks = rng.randint(2, 4)
        fault = "none" if cancelled else fault
        planned.append(Episode(number, fault, clicks, cancelled, verifier))
    rng.shuffle(planned)
    # What takes longest, or waits for its turn, does not come last.
    planned.sort(key=lambda e: "silent" not in e.fault and e.fault not in ALONE)
    return planned


def report(
    episodes: list[Episode], kills: list[float], complaints: list[str], leaked: int, seconds: float
) -> Report:
    """Judge the rows.

    Args:
        episodes: all that ran.
        kills: when a Chromium was killed that many episodes shared, on the monotonic clock.
        complaints: what is known to be wrong already.
        leaked: how much was left.
        seconds: how long it took.
    """
    counted = [e for e in episodes if not e.cancelled]
    complaints = list(complaints)
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
                complaints.append(f"{told}: reward {row.get('reward')}: {_end_of(row)}")
            continue
        masked += 1
        right = row["failure_kind"] == (expected.kind if expected else None)
        if not (right or _was_neighbour(episode, row, kills)) or not row["instance_config"]:
            wrong_kinds += 1
            complaints.append(f"{told}: {row['failure_kind']}: {row['failure_reason'][:300]}")
    return Report(
        episodes=len(counted),
        rows=sum(len(episode.rows) for episode in counted),
        wrong_rewards=wrong_rewards,
        wrong_kinds=wrong_kinds,
        leaked=leaked,
        cancelled=len(episodes) - len(counted),
        masked=masked,
        seconds=round(seconds, 1),
        faults=dict(Counter(e.fault for e in counted).most_common()),
        complaints=complaints,
    )


def _was_neighbour(episode: Episode, row: Json, kills: list[float]) -> bool:
    """Whether the row was lost to a Chromium of the shared server that was killed meanwhile."""
    return (
        episode.fault not in OTHER_SERVER
        and row["failure_kind"] == Fault.BROWSER_DIED.kind
        and any(episode.started <= kill <= episode.ended for kill in kills)
    )


def _end_of(row: Json) -> str:
    texts = [t for turn in row["turns"][-2:] for call in turn["calls"] for t in call["texts"]]
    return f"{row['termination_reason']}, {row['num_turns']} turns, told {texts}"[:300]
