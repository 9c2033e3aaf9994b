"""Only the web opens: no file, settings, source, inspector or extension, by whatever way."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from conftest import Client
from resources_servers.browser_gym.browser import page
from tests.simulators.http_server import serve
from tests.site import create_site

ADDRESSES = (
    "file:///etc/passwd",
    "chrome://version",
    "devtools://devtools/bundled/inspector.html",
    "view-source:about:blank",
    "chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/index.html",
    "javascript:document.title=1",
    "data:text/html,<title>data</title>",
    "blob:null/1",
    "filesystem:file:///temporary/x",
    "about:settings",
)


def _redirect(request: Request) -> Response:
    return Response(status_code=302, headers={"location": ADDRESSES[request.path_params["which"]]})


@pytest.fixture(scope="module")
def pages() -> Any:
    app = Starlette(routes=[Route("/to/{which:int}", _redirect), Mount("/", create_site())])
    with serve(app) as url:
        yield url


async def test_nothing_but_the_web_opens(
    client: Client, pages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    observe = page.PageDriver.observe

    async def observing(self: page.PageDriver, *args: Any, **more: Any) -> page.Observation:
        observed = await observe(self, *args, **more)
        seen.update(frame.url for tab in self._tabs.all for frame in tab.page.frames)
        return observed

    monkeypatch.setattr(page.PageDriver, "observe", observing)
    env_id = (await client.seed(f"{pages}/second.html"))["env_id"]

    async def step(*actions: dict[str, Any]) -> dict[str, Any]:
        return await client.step(env_id, *actions)

    for which, address in enumerate(ADDRESSES):
        for kind in ("navigate", "new_tab"):
            answer = await step({"type": kind, "url": address})
            assert "only http and https addresses" in answer["error"], address
            assert len(answer["tabs"]) == 1
        await step({"type": "navigate", "url": f"{pages}/to/{which}"})
    await step({"type": "navigate", "url": f"{pages}/second.html"})
    # By links, windows, frames and scripts, all at once.
    await step({"type": "navigate", "url": f"{pages}/schemes.html"}, {"type": "wait", "ms": 500})
    allowed = (f"{pages}/", "about:blank", "about:srcdoc", "chrome-error://chromewebdata/")
    assert {url for url in seen if url and not url.startswith(allowed)} == set()
    assert f"{pages}/second.html" in seen
