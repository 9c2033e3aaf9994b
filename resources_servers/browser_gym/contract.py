"""Bodies of the resources server's own routes.

`/seed_session`, `/step`, `/dump_local_storage`, `/close`, `/health` and `/sessions`; `/verify` and
`/aggregate_metrics` have NeMo Gym's bodies, the first extended in `verify_body.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from resources_servers.browser_gym.actions import MAX_BATCH, Action
from resources_servers.browser_gym.browser.final_state import More
from resources_servers.browser_gym.task_row import MAX_VIEWPORT_PX, MIN_VIEWPORT_PX

EPISODE_KEY = "browser_episode"
"""Key of an agent's response under which it tells of the episode, if `/verify` is another's call.

`/verify` moves these fields to the row; with a `failure_kind` the row is masked and not graded.
"""
EPISODE_FIELDS = (
    "final_answer",
    "termination_reason",
    "first_observation",
    "turns",
    "num_turns",
    "segments",
    "responses_create_params",
    "cost_usd",
    "model_seconds",
    "browser_seconds",
    "queue_seconds",
    "total_seconds",
    "failure_kind",
    "failure_reason",
)


class SeedRequest(BaseModel):
    """Open a browser session on a page.

    Unknown fields are let through: the body may be a whole task row.

    Attributes:
        env_id: the session's id, if the caller chooses it: the seed may then be repeated, and the
            id closed although the answer was lost.
        start_url: page to open; may also stand in `verifier_metadata`.
        viewport_width: CSS px; else `verifier_metadata.viewport`, else the server's default.
        viewport_height: CSS px.
        verifier_metadata: the task row's; checked now so that a bad task is not found at the end.
    """

    model_config = ConfigDict(extra="allow")

    env_id: str | None = Field(default=None, min_length=1, max_length=200)
    start_url: str | None = None
    viewport_width: int | None = Field(default=None, ge=MIN_VIEWPORT_PX, le=MAX_VIEWPORT_PX)
    viewport_height: int | None = Field(default=None, ge=MIN_VIEWPORT_PX, le=MAX_VIEWPORT_PX)
    verifier_metadata: dict[str, Any] | None = None


class Tab(BaseModel):
    """One open tab."""

    tab_id: str
    index: int
    url: str
    title: str
    active: bool


class ObservationBody(BaseModel):
    """What a session shows.

    Attributes:
        screenshot: base64 of the encoded image, no data-URL prefix: the viewport, or the region
            that a `zoom` event names, as large as fits the viewport; empty when the page drew
            nothing in time (`error` says so).
        media_type: of the screenshot.
        events: what happened by itself, each with a `type`; the README lists them.
        settled: whether the page was quiet when the screenshot was taken.
        timings_ms: act, settle, capture; of a seed also acquire, until there was a browser.
    """

    screenshot: str
    media_type: str
    current_url: str
    title: str
    tabs: list[Tab]
    events: list[dict[str, Any]]
    settled: bool
    timings_ms: dict[str, float]


class SeedResponse(ObservationBody):
    """A session is open; also the answer of `/observation`.

    Attributes:
        env_id: names the session in the other routes.
        viewport_width: CSS px, of every screenshot.
        viewport_height: CSS px.
    """

    env_id: str
    viewport_width: int
    viewport_height: int


class SessionRequest(BaseModel):
    """Names a session by id; without one the session cookie does."""

    model_config = ConfigDict(extra="forbid")

    env_id: str | None = None


class StepRequest(SessionRequest):
    """Run one action or a batch, then take one screenshot.

    Attributes:
        action: one canonical action.
        actions: several, run in order up to the first failure.
        operation_id: repeating a request with the same id returns the first result again
            instead of acting twice. An id belongs to one batch.
    """

    action: Action | None = None
    actions: list[Action] | None = Field(default=None, max_length=MAX_BATCH)
    operation_id: str | None = Field(default=None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _exactly_one(self) -> StepRequest:
        if (self.action is None) == (self.actions is None):
            raise ValueError("give exactly one of 'action' and 'actions'")
        return self

    @property
    def batch(self) -> list[Action]:
        """The actions to run."""
        return self.actions if self.actions is not None else [self.action]  # type: ignore[list-item]


class ActionResultBody(BaseModel):
    """What became of one action."""

    type: str
    status: Literal["ok", "error", "not_run"]
    error: str | None = None
    text: str | None = None


class StepResponse(ObservationBody):
    """The batch ran.

    Attributes:
        results: one per action, in order.
        error: the first action's error, for the model; null when all went well.
    """

    results: list[ActionResultBody]
    error: str | None = None


class DumpRequest(SessionRequest):
    """Read what is stored in a session's browser.

    Attributes:
        include: what to read beside localStorage.
    """

    include: list[More] = []


class DumpResponse(BaseModel):
    """localStorage of the start origin, and of all; the rest is null unless it was asked for.

    Attributes:
        local_storage_dump: JSON text of the start origin's `{key: value}` now.
        initial_local_storage: the same right after the start page had loaded.
        start_origin: the origin both belong to.
        origins: `{origin: {key: value}}` of every origin the session touched.
        session_storage: the same of the pages that are open; of two tabs the active one's.
        cookies: all, in Playwright's shape.
        indexed_db: `{origin: [name]}`, the databases of the origins of pages that are open.
    """

    local_storage_dump: str
    initial_local_storage: str
    start_origin: str
    origins: dict[str, dict[str, str]]
    session_storage: dict[str, dict[str, str]] | None = None
    cookies: list[dict[str, Any]] | None = None
    indexed_db: dict[str, list[str]] | None = None


class RunningSession(BaseModel):
    """What an open session does.

    Attributes:
        task_id: of its task; empty if it has none, as `episode_id`.
        state: `acting` during a request, `finished` once its task is, else `waiting`.
        age_s: since it was opened.
        since_request_s: since the last request for it.
        steps: batches that were run.
        actions: the batch that runs, or ran last: the first ones, long texts cut.
        actions_left_out: how many more it has.
        url: as its last observation told, likewise `title` and the number of `tabs`.
        picture: whether that observation has a screenshot.
    """

    env_id: str
    task_id: str
    episode_id: str
    state: Literal["acting", "finished", "waiting"]
    age_s: float
    since_request_s: float
    steps: int
    actions: list[dict[str, Any]]
    actions_left_out: int
    url: str
    title: str
    tabs: int
    picture: bool
    viewport_width: int
    viewport_height: int


class SessionsResponse(BaseModel):
    """All open sessions."""

    sessions: list[RunningSession]


class GradedRow(BaseModel):
    """What metrics read of a graded row; the rest is kept.

    Attributes:
        task_index: NeMo Gym's number of the task; rows of one task are its repeats.
        rollout_index: NeMo Gym's number of the repeat.
    """

    model_config = ConfigDict(extra="allow")

    task_index: int | None = Field(default=None, alias="_ng_task_index", strict=True, ge=0)
    rollout_index: int | None = Field(default=None, alias="_ng_rollout_index", strict=True, ge=0)
    reward: float = Field(strict=True, allow_inf_nan=False)
    mask_sample: bool | None = Field(default=None, strict=True)
    failure_kind: str | None = None
    termination_reason: str | None = None
    category: str | None = None


class AggregateRequest(BaseModel):
    """Aggregate a run's graded rows."""

    verify_responses: list[GradedRow]


class CloseResponse(BaseModel):
    """Tells whether a session was closed by this call, and if not, why."""

    success: bool
    message: str


class HealthResponse(BaseModel):
    """Occupancy of the browser supply.

    Attributes:
        status: `ok`, or `degraded` when a browser is gone and not replaced yet.
        queued: callers waiting for a slot.
        warm: contexts opened ahead of need.
        browsers: one entry per Chromium process: `index`, `alive`, `sessions`, `retired`, `rss_mb`;
            or per remote browser, then with `host` and without a memory.
        rss_mb: resident memory of all Chromium processes in MB; shared pages count each time;
            null if they run elsewhere.
        restarts: processes replaced because they died or no longer answered.
        recycled: processes replaced because they had carried enough sessions, or grown too large.
        unreleased: remote sessions that their service did not end when asked to.
        chromium: version and source of the browser.
    """

    status: Literal["ok", "degraded"]
    sessions: int
    max_sessions: int
    queued: int
    warm: int
    browsers: list[dict[str, Any]]
    rss_mb: float | None
    restarts: int
    recycled: int
    unreleased: int
    chromium: str
