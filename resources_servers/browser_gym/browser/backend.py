"""The contract between sessions and whatever supplies their browsers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from playwright.async_api import BrowserContext

from resources_servers.browser_gym.browser.gateway import Gateway
from resources_servers.browser_gym.browser.remote_files import RemoteFiles
from resources_servers.browser_gym.browser.renderers import RendererProcesses
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.redaction import hide_secrets


class BrowserError(Exception):
    """The browser supply failed; never the model's fault.

    Attributes:
        fault: the line of the table of faults.
        retry_after_s: seconds after which another try makes sense, if known.
    """

    def __init__(self, message: str, fault: Fault, retry_after_s: float | None = None) -> None:
        super().__init__(hide_secrets(message))
        self.fault = fault
        self.retry_after_s = retry_after_s


class BrowserUnavailable(BrowserError):
    """No browser could be started or reached."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, Fault.NO_BROWSER, retry_after_s)


class PoolFull(BrowserError):
    """Every session that there may be is in use, here or at the service that lends browsers."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, Fault.POOL_FULL, retry_after_s)


class BrowserLost(BrowserError):
    """The browser behind a running session is gone."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Fault.BROWSER_DIED)


@dataclass(frozen=True)
class BrowserSpec:
    """What a session's browser context looks like.

    Attributes:
        width: viewport width in CSS px (the device scale factor is always 1).
        height: viewport height in CSS px.
        locale: BCP 47 tag.
        timezone: IANA name.
        color_scheme: what pages are told the user prefers.
        reduced_motion: whether pages are told that the user wants less motion.
        geolocation: (latitude, longitude) in degrees.
        permissions: what every page may do without asking, in Playwright's words.
        ignore_tls_errors: whether pages open although their server's certificate is not valid.
        http_credentials: (origin, user name, password) of the one origin that may ask for them.
        direct: `host:port` of what pages reach directly, all else through a gateway that asks who
            uses the context; None for no gateway.
        labels: what the rollout is called (`episode_id`, `task_id` …), for logs and for services
            that lend browsers; it does not shape the context.
    """

    width: int
    height: int
    locale: str
    timezone: str
    color_scheme: Literal["light", "dark"] = "light"
    reduced_motion: bool = False
    geolocation: tuple[float, float] | None = None
    permissions: tuple[str, ...] = ()
    ignore_tls_errors: bool = False
    http_credentials: tuple[str, str, str] | None = field(default=None, repr=False)
    direct: tuple[str, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)

    def context_options(self) -> dict[str, Any]:
        """Return the keyword arguments of Playwright's `new_context`."""
        options: dict[str, Any] = {
            "viewport": {"width": self.width, "height": self.height},
            "device_scale_factor": 1,
            "locale": self.locale,
            "timezone_id": self.timezone,
            "color_scheme": self.color_scheme,
            "reduced_motion": "reduce" if self.reduced_motion else "no-preference",
            "accept_downloads": True,
            # A service worker's requests pass by our request policy, and its cache outlives a
            # reload; pages fall back to the network without one.
            "service_workers": "block",
        }
        if self.ignore_tls_errors:
            options["ignore_https_errors"] = True
        if self.geolocation:
            latitude, longitude = self.geolocation
            options["geolocation"] = {"latitude": latitude, "longitude": longitude}
        if self.permissions:
            options["permissions"] = list(self.permissions)
        if self.http_credentials:
            origin, username, password = self.http_credentials
            options["http_credentials"] = {
                "origin": origin,
                "username": username,
                "password": password,
            }
        return options


class BrowserLease(Protocol):
    """One isolated browser context, held until released.

    Attributes:
        context: unused; it may have one blank page.
        gateway: the context's way out, if its spec asks for one and this machine is its way.
    """

    context: BrowserContext
    gateway: Gateway | None

    @property
    def renderers(self) -> RendererProcesses | None:
        """The renderer processes of its browser, if they run on this machine and are known."""
        ...

    @property
    def remote_files(self) -> RemoteFiles | None:
        """What moves files to and from its browser's machine, if that is another one."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the browser behind the context is gone."""
        ...

    async def release(self) -> None:
        """Give the context back. Safe to call again; only the first call acts.

        One that raised has not given it back: then the next call tries again.
        """
        ...


@dataclass
class BackendHealth:
    """What `/health` and `/metrics` tell about the browser supply.

    Attributes:
        sessions: leases not released yet.
        max_sessions: how many there may be.
        queued: callers waiting for a slot.
        chromium: version and source of the browser.
        warm: contexts opened ahead of need.
        browsers: `{index, alive, sessions, retired, rss_mb}` of each process, or of each remote
            browser, then with its `host`; those being opened count as its sessions.
        rss_mb: resident memory of all of them in MB; pages that processes share count each time.
            None where browsers run elsewhere.
        restarts: processes replaced because they died or no longer answered.
        recycled: processes replaced because they had carried enough sessions, or grown too large.
        unreleased: remote sessions that their service did not end when asked to.
    """

    sessions: int
    max_sessions: int
    queued: int
    chromium: str
    warm: int = 0
    browsers: list[dict[str, Any]] = field(default_factory=list)
    rss_mb: float | None = None
    restarts: int = 0
    recycled: int = 0
    unreleased: int = 0


class BrowserBackend(Protocol):
    """Supplies browser contexts.

    `acquire` either returns a lease or raises, leaving nothing behind, also when cancelled.
    """

    async def start(self) -> None:
        """Make the supply ready.

        Raises:
            BrowserUnavailable: no browser can be started or reached.
        """
        ...

    async def acquire(self, spec: BrowserSpec) -> BrowserLease:
        """Return a fresh isolated context.

        Raises:
            PoolFull: no session became free in time.
            BrowserUnavailable: no browser could be started or reached.
        """
        ...

    async def health(self) -> BackendHealth:
        """Return occupancy, queue, browsers and their memory."""
        ...

    async def close(self) -> None:
        """Release everything; safe to call again."""
        ...
