"""What a server has done and is doing, in Prometheus' text format.

Each server instance has a registry of its own, so that several can live in one process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from resources_servers.browser_gym.browser.backend import BackendHealth
from resources_servers.browser_gym.browser.policy import UrlNotAllowed
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.verification.errors import InvalidTask

CONTENT_TYPE = CONTENT_TYPE_LATEST

# An agent may tell of any other, and each would be a time series of its own.
_OUTCOMES = {"passed", "failed", *(fault.kind for fault in Fault)}
_SECONDS = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 30, 60, 120)


class Telemetry:
    """Counts and times one server's work."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seeds = Counter(
            "browser_gym_seeds",
            "Sessions asked for, by outcome: ok, or the failure kind.",
            ["outcome"],
            registry=self._registry,
        )
        self._steps = Counter(
            "browser_gym_steps", "Steps that were answered.", registry=self._registry
        )
        self._verifies = Counter(
            "browser_gym_verifies",
            "Rollouts graded, by outcome: passed, failed, or the failure kind.",
            ["outcome"],
            registry=self._registry,
        )
        self._seed_seconds = Histogram(
            "browser_gym_seed_seconds",
            "Time to open a session, waiting for a free one included.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._step_seconds = Histogram(
            "browser_gym_step_seconds",
            "Time of a step, by phase: act, settle, capture.",
            ["phase"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._supply = _Supply()
        self._registry.register(self._supply)

    @contextmanager
    def seeding(self) -> Iterator[None]:
        """Count the block as a seed; only one that succeeds is timed."""
        started = time.monotonic()
        try:
            yield
        except BaseException as error:
            self._seeds.labels(_failure_kind(error)).inc()
            raise
        self._seeds.labels("ok").inc()
        self._seed_seconds.observe(time.monotonic() - started)

    def stepped(self, timings_ms: dict[str, float]) -> None:
        """Count a step with the times of its phases in ms."""
        self._steps.inc()
        for phase, ms in timings_ms.items():
            self._step_seconds.labels(phase).observe(ms / 1000)

    def verified(self, outcome: str) -> None:
        """Count a graded rollout: `passed`, `failed` or a failure kind, if that is one of ours."""
        self._verifies.labels(outcome if outcome in _OUTCOMES else "other").inc()

    def render(self, health: BackendHealth) -> bytes:
        """Return everything as Prometheus text, with the browser supply as given."""
        self._supply.health = health
        return generate_latest(self._registry)


class _Supply(Collector):
    """The browser supply's numbers, which the supply itself keeps."""

    health: BackendHealth | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers; none before the first health is known."""
        if self.health is None:
            return
        health = self.health
        gauges = {
            "sessions": (health.sessions, "Sessions open now."),
            "queued": (health.queued, "Callers waiting for a session."),
            "warm": (health.warm, "Browser contexts opened ahead of need."),
            "browsers": (sum(b["alive"] for b in health.browsers), "Chromium processes alive."),
        }
        for name, (value, text) in gauges.items():
            yield GaugeMetricFamily(f"browser_gym_{name}", text, value=value)
        counters = {
            "restarts": (health.restarts, "Chromium processes replaced because they failed."),
            "recycled": (health.recycled, "Chromium processes replaced for their age or size."),
            "unreleased": (health.unreleased, "Remote sessions that their service did not end."),
        }
        for name, (value, text) in counters.items():
            yield CounterMetricFamily(f"browser_gym_{name}", text, value=value)


def _failure_kind(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, InvalidTask | UrlNotAllowed):
        return Fault.TASK_UNUSABLE.kind
    fault = getattr(error, "fault", None)
    return fault.kind if fault else "error"
