"""The viewer as a person sees it, in Chromium, and what its server refuses."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect
from typer.testing import CliRunner

from browser_gym.cli import app
from browser_gym.tests import viewed
from browser_gym.viewer.index import RolloutFile
from browser_gym.viewer.server import ViewerServer
from browser_gym.viewer.written import write_page
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    find_chromium,
    launch_args,
    running_as_root,
)

REAL = Path(__file__).parents[2] / "resources_servers/browser_gym/data/example_rollouts.jsonl"
DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
RUN_AXE = """async () => {
  const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const { violations, passes } = await axe.run({ runOnly, resultTypes: ["violations"] });
  return {
    violations: violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]),
    passes: passes.map(({ id }) => id),
  };
}"""
EVIL = '"><img src=x onerror="hacked=1"></script><script>hacked=1</script><!--\u202e{{x}}'


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> RolloutFile:
    """Five real rows, then a task three times, a masked row, and one that is hostile throughout."""
    real = [json.loads(line) for line in REAL.read_text().splitlines()]
    other = viewed.row("VIEW-1", 1, turns=8, reward=0.0)
    other["turns"][3]["calls"][0]["actions"] = [{"type": "wait", "ms": 1}]
    failure = {"mask_sample": True, "failure_kind": "session_lost", "failure_reason": "It died."}
    rows = [
        *real,
        viewed.row("VIEW-1", 0),
        other,
        viewed.row("VIEW-2", 0, reward=0.0, termination_reason="failure", **failure),
        _hostile(viewed.row("EVIL", 0, reward=0.5)),
    ]
    path = viewed.write(tmp_path_factory.mktemp("view") / "run.jsonl", rows)
    (path.parent / "artifacts" / "4.jpg").unlink()
    file = RolloutFile(path)
    file.read_on()
    return file


def _hostile(row: Any) -> Any:
    """Return a row with hostile text wherever there is one, and in names of things too."""
    if isinstance(row, dict):
        return {
            key: value if key in ("type", "screenshot", "image_url", "role") else _hostile(value)
            for key, value in row.items()
        }
    if isinstance(row, list):
        return [_hostile(value) for value in row]
    return f"javascript:hacked=1 {row} {EVIL}" if isinstance(row, str) else row


@pytest.fixture(scope="module")
def served(rollouts: RolloutFile) -> Iterator[str]:
    server = ViewerServer(rollouts)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
async def written(rollouts: RolloutFile, tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("written") / "page.html"
    rows = list(range(len(rollouts.summaries)))
    await asyncio.to_thread(write_page, rollouts, rows, output, 10_000_000)
    return output.as_uri()


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium().executable,
            args=launch_args(running_as_root()),
            ignore_default_args=list(UNWANTED_PLAYWRIGHT_ARGS),
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(browser: Browser, url: str, **options: Any) -> AsyncIterator[Page]:
    """Open the viewer, and fail if it has errors or asks for what is not its own."""
    faults: list[str] = []
    context = await browser.new_context(viewport=options.pop("viewport", DESKTOP), **options)
    context.set_default_timeout(20_000)
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on("console", lambda message: faults.append(message.text))
    context.on("request", lambda sent: faults.append(sent.url) if _foreign(sent.url, url) else None)
    page = await context.new_page()
    try:
        await page.goto(url)
        yield page
        assert [fault for fault in faults if "404" not in fault] == []  # one screenshot is gone
    finally:
        await context.close()


def _foreign(requested: str, url: str) -> bool:
    return not requested.startswith((url.partition("#")[0], "blob:"))


async def test_a_rollout_is_walked_through(browser: Browser, served: str):
    async with opened(browser, served) as page:
        await expect(page.locator("#counts")).to_have_text(
            "9 rollouts, mean reward 0.688, 1 masked"
        )
        await page.get_by_role("link", name="VIEW-1 reward 1").click()
        title = page.locator(".pane h3")
        await expect(title).to_have_text("Step 1 of 6")
        # The click is where it was, whatever size the picture has.
        ring, image = page.locator(".marks circle.line"), page.locator(".screen img")
        box = await image.bounding_box()
        mark = await ring.bounding_box()
        assert box
        assert mark
        x, y = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
        assert abs((x - box["x"]) / box["width"] - 320 / 1280) < 0.01
        assert abs((y - box["y"]) / box["height"] - 180 / 720) < 0.01
        await expect(page.locator(".label")).to_have_text("click right ×2")
        await expect(page.locator(".told")).to_contain_text("I do number 1.")
        await page.keyboard.press("a")
        await expect(page.locator(".choice [aria-pressed=true]")).to_have_text("afterwards")
        await expect(ring).to_have_count(0)
        for step, drawn in enumerate(
            (
                "1 type “Book a room”",
                "drag",
                "600 px down",
                "navigate http://127.0.0.1/shop/",
                "zoom",
            ),
            2,
        ):
            await page.keyboard.press("j")
            await expect(title).to_have_text(f"Step {step} of 6")
            if step == 5:  # its file is gone
                await expect(page.locator(".missing")).to_be_visible()
            else:
                await expect(page.locator(".label").first).to_have_text(drawn)
        await page.get_by_role("button", name="Next step").click()
        await expect(title).to_have_text("End, after 6 steps")
        await expect(page.locator(".told")).to_contain_text("VIEW-1 is done.")
        await page.keyboard.press("k")
        assert urlsplit(page.url).fragment == "rollout=6&step=6"
        await expect(page.locator("tbody tr").nth(1)).to_contain_text("C-1")
        # The address leads back to the same place.
        await page.reload()
        await expect(title).to_have_text("Step 6 of 6")
        await page.keyboard.press("p")
        await expect(page.locator(".pane h2")).to_have_text("SHOP-02")
        await page.go_back()
        await expect(title).to_have_text("Step 6 of 6")


async def test_filters_search_and_help(browser: Browser, served: str):
    async with opened(browser, served) as page:
        counts = page.locator("#counts")
        await page.get_by_label("Reward").select_option("masked (1)")
        await expect(counts).to_have_text("1 of 9 rollouts, 1 masked")
        await page.get_by_label("Reward").select_option("all")
        await page.keyboard.press("Tab")
        await page.locator("#main").focus()
        await page.keyboard.press("/")
        await page.keyboard.type("knife PRICE")
        await expect(counts).to_have_text("1 of 9 rollouts, mean reward 1")
        await page.keyboard.press("Escape")
        await page.keyboard.press("n")
        await expect(page.locator(".pane h2")).to_have_text("DOC-07")
        await page.keyboard.press("?")
        await page.get_by_label("Keys are on").uncheck()
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await expect(page.locator(".pane h3")).to_have_text("Step 1 of 6")
        button = page.get_by_role("button", name="Theme")
        for theme in ("light", "dark"):
            await button.click()
            await expect(page.locator("html")).to_have_css("color-scheme", theme)


async def test_two_rollouts_side_by_side(browser: Browser, served: str):
    async with opened(browser, f"{served}#rollout=6&step=3") as page:
        titles = page.locator(".pane h3")
        await expect(titles).to_have_text(["Step 3 of 6"])
        await page.keyboard.press("c")
        await expect(page.locator(".pane")).to_have_count(2)
        await expect(titles).to_have_text(["Step 3 of 6", "Step 3 of 8"])
        await expect(page.locator("#notice")).to_have_text("The actions differ from step 4 on.")
        await page.keyboard.press("End")
        await expect(titles).to_have_text(["End, after 6 steps", "End, after 8 steps"])
        assert urlsplit(page.url).fragment == "rollout=6&step=9&compare=7"
        await page.get_by_role("button", name="Stop comparing").click()
        await expect(titles).to_have_text(["End, after 6 steps"])


async def test_a_written_page_needs_nothing_else(
    browser: Browser, rollouts: RolloutFile, written: str
):
    async with opened(browser, written, offline=True) as page:
        await page.get_by_role("link", name="VIEW-1 reward 0").click()
        await expect(page.locator(".pane h3")).to_have_text("Step 1 of 8")
        await page.keyboard.press("j")
        await expect(page.locator(".pane h3")).to_have_text("Step 2 of 8")
        await expect(page.locator(".label").first).to_have_text("1 type “Book a room”")
    text = await asyncio.to_thread(Path(urlsplit(written).path).read_text)
    stored = list((rollouts.path.parent / "artifacts").iterdir())
    assert text.count('type="image/jpeg"') == len(stored)  # each once


@pytest.mark.parametrize("kind", ["served", "written"])
async def test_hostile_rows_are_text(browser: Browser, kind: str, request: pytest.FixtureRequest):
    async with opened(browser, request.getfixturevalue(kind)) as page:
        for step in range(1, 8):
            await page.evaluate(f"location.hash = 'rollout=9&step={step}'")
            named = f"Step {step} of 6" if step < 7 else "End, after 6 steps"
            await expect(page.locator(".pane h3")).to_have_text(named)
            assert EVIL in (await page.locator(".told").inner_text())
        assert EVIL in await page.locator(".pane h2").inner_text()
        assert await page.evaluate("typeof hacked") == "undefined"
        assert await page.locator("script[src], iframe, [onerror], main a").count() == 0
        # No address of a page is one of ours.
        links = await page.eval_on_selector_all(
            "a", "all => all.map(one => one.getAttribute('href'))"
        )
        assert all(link.startswith("#") for link in links)


async def test_it_is_accessible(browser: Browser, served: str):
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    one, two = "rollout=8&step=1", "rollout=6&step=7&compare=7"
    states: list[tuple[ViewportSize, Literal["light", "dark"], tuple[str, ...]]] = [
        (DESKTOP, "light", (one, two)),
        (DESKTOP, "dark", (two,)),
        (PHONE, "dark", (one,)),
        (PHONE, "light", ("", "help")),
    ]
    async with opened(browser, served) as page:
        await page.evaluate(axe)
        for viewport, scheme, fragments in states:
            await page.set_viewport_size(viewport)
            await page.emulate_media(color_scheme=scheme)
            for fragment in fragments:
                if fragment == "help":
                    await page.get_by_role("button", name="Help").click()
                else:
                    await page.evaluate("hash => { location.hash = hash; }", fragment)
                    panes = {one: 1, two: 2}.get(fragment, 0)
                    await expect(page.locator(".pane")).to_have_count(panes)
                found = await page.evaluate(RUN_AXE)
                assert found["violations"] == [], (viewport, scheme, fragment)
                assert "color-contrast" in found["passes"]
                width = await page.evaluate("document.documentElement.scrollWidth")
                assert width <= viewport["width"], fragment


def _ask(url: str, path: str, host: str | None = None, method: str = "GET") -> tuple[int, Any]:
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=20)
    connection.request(method, path, headers={"Host": host or at.netloc})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, (body, answer.headers)


def test_the_server_tells_nobody_else(served: str):
    root = urlsplit(served).path
    status, (_, headers) = _ask(served, root)
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    port = urlsplit(served).port
    assert _ask(served, root, host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", ""):
        assert _ask(served, root, host=host or " ")[0] == 403
    for path in ("/", "/index", f"/{'x' * 32}/index", f"{root[:-3]}/", "//"):
        assert _ask(served, path)[0] == 403
    for path in ("rollouts/0/99", "rollouts/0/5/images/99", "rollouts/0/-1", "..", "run.jsonl"):
        assert _ask(served, root + path)[0] == 404
    for path in ("rollouts/0/5/images/..", "artifacts/1.jpg", "rollouts/0/5/images/4"):
        assert _ask(served, root + path)[0] == 404
    assert _ask(served, f"{root}rollouts/1/5")[0] == 409  # of an index there never was
    assert _ask(served, root, method="POST")[0] == 501
    status, (image, headers) = _ask(served, f"{root}rollouts/0/5/images/0")
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    assert image == viewed.picture("artifacts/0.jpg")


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = viewed.write(tmp_path / "run.jsonl", [viewed.row("A"), viewed.row("B")])
    page = tmp_path / "page.html"

    def says(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["view", *arguments])
        assert done.exit_code == (0 if "MB" in done.stdout else 1)
        return done.output

    assert "no.jsonl: cannot be read: No such file" in says(str(tmp_path / "no.jsonl"))
    (tmp_path / "empty.jsonl").touch()
    assert "empty.jsonl: no rollouts" in says(str(tmp_path / "empty.jsonl"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"--port {port}: 127.0.0.1 cannot be" in says(str(path), "--port", port)
    assert "--task is for --output" in says(str(path), "--task", "A")
    assert "--task C: no rollout of it" in says(str(path), "--task", "C", "-o", str(page))
    small = says(str(path), "-o", str(page), "--max-mb", "0.2")
    assert "more than 0.2 MB: 0 of 2 rollouts fit; choose some with --task" in small
    assert list(tmp_path.glob("page*")) == []
    assert "page.html: 1 rollouts," in says(str(path), "--task", "B", "-o", str(page))
    assert page.exists()
    monkeypatch.chdir(tmp_path)
    assert "results: there are no rollouts in this folder; make demo" in says("-o", str(page))
    viewed.write(tmp_path / "results/demo/rollouts.jsonl", [viewed.row("A")])
    (tmp_path / "results/demo/rollouts_materialized_inputs.jsonl").write_text("{}\n")
    assert "page.html: 1 rollouts," in says("-o", str(page))
