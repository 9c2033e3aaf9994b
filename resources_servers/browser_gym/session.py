"""One rollout's browser session: how it is opened, what belongs to it, and its end."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from playwright.async_api import Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser import start_state
from resources_servers.browser_gym.browser.backend import (
    BrowserBackend,
    BrowserLease,
    BrowserLost,
    BrowserSpec,
)
from resources_servers.browser_gym.browser.capture import Image, ImageFormat, Storage
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.final_state import FinalState
from resources_servers.browser_gym.browser.observation import ActionResult, Observation
from resources_servers.browser_gym.browser.page import PageDriver
from resources_servers.browser_gym.browser.page_clock import PageClock
from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.browser.policy import (
    Reach,
    UrlNotAllowed,
    direct_places,
    normalize_url,
    origin_of,
)
from resources_servers.browser_gym.browser.reading import check_selectors
from resources_servers.browser_gym.browser.renderers import Freezer
from resources_servers.browser_gym.browser.tabs import DialogPolicy, Tab, Tabs
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.redaction import hide_secrets
from resources_servers.browser_gym.task_row import BrowserStart, ClockMode

_FIRST_TAB_TIMEOUT_S = 30

StepOutcome = tuple[list[ActionResult], Observation]


class SessionError(Exception):
    """A session cannot do what was asked; never the model's fault.

    Attributes:
        fault: the line of the table of faults.
    """

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(hide_secrets(message))
        self.fault = fault


class StartPageError(SessionError):
    """The start page could not be opened."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Fault.START_PAGE)


@dataclass(frozen=True)
class SessionSettings:
    """How sessions behave; see the server's README for each value."""

    image_format: ImageFormat = "jpeg"
    image_quality: int = 85
    settle_max_ms: int = 3_000
    action_timeout_s: float = 15
    navigation_timeout_s: float = 30
    dialog_policy: DialogPolicy = "accept"
    idle_timeout_s: float = 900
    clock: ClockMode = "real"
    locale: str = "en-US"
    timezone: str = "UTC"
    allow_private_addresses: bool = False
    ignore_tls_errors: bool = False


@dataclass(frozen=True)
class Opening:
    """What a session is opened for.

    Attributes:
        start_url: http(s) address.
        width: viewport width in CSS px.
        height: viewport height in CSS px.
        start: what the browser holds and tells pages, where not the server's defaults.
        gym_url: http(s) address that pages may reach beside the start page's origin.
        keep: what grading will want of the session.
        labels: what the rollout is called, see `BrowserSpec.labels`.
    """

    start_url: str
    width: int
    height: int
    start: BrowserStart = field(default_factory=BrowserStart)
    gym_url: str | None = None
    keep: Keep = KEEP_NOTHING
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A batch that was asked for under an id, and what becomes of it."""

    batch: list[act.Action]
    task: asyncio.Task[StepOutcome]


@dataclass(frozen=True)
class Owner:
    """For whom a caller chose a session's id: its episode and task, however they are named."""

    episode: str
    task: str


@dataclass(frozen=True)
class Finished:
    """What a task came to, fixed once: the state to grade, and the answer."""

    state: FinalState
    answer: str


@dataclass(eq=False)
class Session:
    """One rollout's browser.

    Attributes:
        owner: who chose the session's id; None for sessions whose id is the server's own.
        labels: what the rollout is called, see `BrowserSpec.labels`.
        operations: the last batches with an id.
        forgotten_operations: ids of those before.
        shown: what the last seed or step showed.
        steps: how many batches were run.
        batch: the one that runs, or ran last.
        finishing: set once the task is finished; from then on nothing acts in the browser.
    """

    session_id: str
    lease: BrowserLease
    tabs: Tabs
    reach: Reach
    driver: PageDriver
    width: int
    height: int
    folder: Path
    freezer: Freezer | None = None
    start_origin: str = "null"
    initial: Storage = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    opened: float = field(default_factory=time.monotonic)
    last_used: float = field(default_factory=time.monotonic)
    in_flight: int = 0
    operations: OrderedDict[str, Operation] = field(default_factory=OrderedDict)
    forgotten_operations: set[str] = field(default_factory=set)
    owner: Owner | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    shown: Observation | None = None
    steps: int = 0
    batch: list[act.Action] = field(default_factory=list)
    finishing: asyncio.Task[Finished] | None = None
    releasing: asyncio.Task[None] | None = None
    keep: Keep = KEEP_NOTHING
    screenshots: list[Image] = field(default_factory=list)

    def __str__(self) -> str:
        """Name it for the log; id and labels are others' words."""
        named = (f"{key}={value!r}" for key, value in self.labels.items())
        return " ".join([repr(self.session_id), *named])

    def remember(self, observation: Observation) -> None:
        """Keep what is shown for grading, as far as it is wanted; an enlarged region is not."""
        image = observation.image
        zoomed = any(event["type"] == "zoom" for event in observation.events)
        if image and not zoomed and self.screenshots[-1:] != [image]:
            first = len(self.screenshots) + 1 - self.keep.screenshots
            self.screenshots = [*self.screenshots, image][max(first, 0) :]

    async def remember_the_end(self) -> None:
        """Keep what is shown at the end, if pictures are wanted and the last step gave none."""
        if self.keep.screenshots and self.shown and self.shown.image is None:
            self.remember(replace(self.shown, image=await self.driver.picture()))

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """Let the pages run for the block, if they stand still between steps."""
        if self.freezer is None:
            yield
            return
        self.freezer.thaw()
        yield
        if not self.lease.lost:
            self.freezer.freeze(self.tabs)

    async def release(self) -> None:
        """End what runs on behalf of the session, and give its browser back.

        Callers share one attempt; after one that raised, the next call tries again.
        """
        if self.releasing is None or (self.releasing.done() and self.releasing.exception()):
            parts = (self.lease, self.tabs, self.reach, self.freezer, self.folder)
            self.releasing = asyncio.create_task(_release(*parts))
        await asyncio.shield(self.releasing)


async def open_session(
    backend: BrowserBackend, settings: SessionSettings, opening: Opening, session_id: str
) -> tuple[Session, Observation]:
    """Open a session, or leave nothing behind; see `Sessions.opening`."""
    start, start_url = opening.start, normalize_url(opening.start_url)
    width, height, keep, labels = opening.width, opening.height, opening.keep, opening.labels
    own = [start_url, *([opening.gym_url] if opening.gym_url else []), *start.allowed_origins]
    own_origins = [origin_of(url) for url in own]
    defaults = BrowserSpec(
        width,
        height,
        settings.locale,
        settings.timezone,
        ignore_tls_errors=settings.ignore_tls_errors,
        labels=labels,
    )
    if start.allowed_hosts is not None or not settings.allow_private_addresses:
        defaults = replace(defaults, direct=direct_places(own_origins))
    asked = time.monotonic()
    lease = await backend.acquire(start_state.context_spec(start, defaults, start_url))
    acquire_ms = round((time.monotonic() - asked) * 1000, 1)
    # Not named after the session, whose id may be anything.
    folder = Path(tempfile.gettempdir(), f"browser-gym-{uuid.uuid4()}")
    tabs = Tabs(
        lease.context,
        dialog_policy=settings.dialog_policy,
        download_dir=folder / "downloads",
        files={name: folder / "files" / name for name in start.files},
        remote_files=lease.remote_files,
        gateway=lease.gateway,
    )
    freezer: Freezer | None = None
    reach = Reach(
        lease.context,
        own_origins=own_origins,
        allow_private=settings.allow_private_addresses,
        report=tabs.report,
        allowed_hosts=start.allowed_hosts,
        gateway=lease.gateway,
    )
    try:
        if start.files:
            await asyncio.to_thread(_write_files, folder / "files", start)
        # Playwright waits for ever when Chromium is frozen.
        async with asyncio.timeout(_FIRST_TAB_TIMEOUT_S):
            (clock, first), _ = await asyncio.gather(
                _first_tab(start, start_url, settings.clock, lease, tabs),
                reach.enforce(),
            )
        await start_state.store(start, first.page)
        driver = PageDriver(
            lease.context,
            tabs,
            clock,
            reach,
            width=width,
            height=height,
            image_format=settings.image_format,
            image_quality=settings.image_quality,
            settle_max_ms=settings.settle_max_ms,
            action_timeout_s=settings.action_timeout_s,
            navigation_timeout_s=settings.navigation_timeout_s,
        )
        if clock.stands_still and lease.renderers:
            freezer = Freezer(lease.context, lease.renderers)
        session = Session(
            session_id, lease, tabs, reach, driver, width, height, folder, freezer, labels=labels
        )
        try:
            observation, session.initial = await driver.open(start_url)
        except (ActionError, UrlNotAllowed) as error:
            if lease.lost:
                raise BrowserLost(f"the browser died during seed: {error}") from error
            hint = "; see ignore_tls_errors" if "certificate" in str(error) else ""
            raise StartPageError(f"the start page did not open: {error}{hint}") from error
        observation.timings_ms["acquire"] = acquire_ms
        session.shown = observation
        session.start_origin = origin_of(tabs.active.page.url)
        session.keep = keep
        session.remember(observation)
        if keep.selectors:
            await check_selectors(tabs.active, keep.selectors)
        if freezer:
            freezer.freeze(tabs)
    except BaseException as error:
        await _release(lease, tabs, reach, freezer, folder)
        if isinstance(error, (Error, TimeoutError)):
            reason = str(error) or "it did not answer in time"
            raise BrowserLost(f"the browser failed during seed: {reason}") from error
        if isinstance(error, OSError):
            reason = f"the task's files could not be written: {error}"
            raise SessionError(reason, Fault.SERVER_DISK) from error
        raise
    return session, observation


async def _release(
    lease: BrowserLease, tabs: Tabs, reach: Reach, freezer: Freezer | None, folder: Path
) -> None:
    try:
        if freezer:
            await freezer.stop()
        await tabs.stop()
        await reach.stop()
    finally:
        try:
            await lease.release()
        finally:  # also if the server shuts down meanwhile
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _first_tab(
    start: BrowserStart, start_url: str, clock: ClockMode, lease: BrowserLease, tabs: Tabs
) -> tuple[PageClock, Tab]:
    """Bring a context to a task's state; return its clock and its first tab."""
    page_clock = await start_state.prepare(start, lease.context, start_url, clock)
    return page_clock, await tabs.open_first()


def _write_files(folder: Path, start: BrowserStart) -> None:
    """Write a task's files to `folder`, as the browser reads what it uploads from the disk."""
    folder.mkdir(parents=True)
    for name, file in start.files.items():
        (folder / name).write_bytes(file.content)
