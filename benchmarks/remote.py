"""What remote sessions cost on this side: memory of this process and of Playwright's driver."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from benchmarks.measure import Figures, client_mb, figure
from benchmarks.ours import SETTINGS, Ours
from resources_servers.browser_gym.browser.remote_cdp import RemoteCdp
from resources_servers.browser_gym.browser.session_providers.static_cdp import StaticCdp
from resources_servers.browser_gym.session import Session
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.tests.remote_browsers import running_chromium

SESSIONS = 64
ROUNDS = 3
# As many of a session's last results are kept, should it ask for one again.
STEPS = 4


async def remote(url: str) -> Figures:
    """Memory of 64 sessions in a browser that something else started, without that browser's.

    Each round has a driver and a connection of its own, with one session before it begins.
    """
    per_session, whole = [], []
    async with running_chromium() as chromium:
        for _ in range(ROUNDS):
            supply = RemoteCdp(
                StaticCdp({"endpoints": [chromium.endpoint]}),
                max_sessions=SESSIONS + 1,
                queue_limit=SESSIONS,
                queue_timeout_s=120,
            )
            sessions = Sessions(supply, SETTINGS)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(sessions.close)
                await sessions.start()
                ours = Ours(supply, sessions, url)
                await _used_session(ours)
                before = client_mb()
                for _ in range(SESSIONS // 8):
                    await asyncio.gather(*(_used_session(ours) for _ in range(8)))
                whole.append(client_mb())
                per_session.append((whole[-1] - before) / SESSIONS)
    return {
        **figure("remote_mb_per_session", per_session),
        **figure("remote64_client_mb", whole),
    }


async def _used_session(ours: Ours) -> Session:
    session = await ours.seed()
    for number in range(STEPS):
        await ours.step(session, operation_id=str(number), type="click", x=100, y=40)
    return session
