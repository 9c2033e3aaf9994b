"""NeMo Gym's own browser environment, as a baseline."""

from __future__ import annotations

from typing import Any

from resources_servers.interactive_browser.browser.local_playwright import LocalPlaywrightBackend

from resources_servers.browser_gym.browser.chromium import (
    find_chromium,
    launch_args,
    running_as_root,
)


class PeerBackend(LocalPlaywrightBackend):
    """The `interactive_browser` backend, a Chromium per rollout, with the Chromium we found.

    It looks only for Playwright's own download.
    """

    async def _connect(self, playwright: Any) -> Any:
        browser = await playwright.chromium.launch(
            executable_path=str(find_chromium().executable), args=launch_args(running_as_root())
        )
        return browser, await browser.new_context(), True
