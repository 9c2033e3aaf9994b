"""The demo gym's apps in a real browser: each scripted solution, and a layout without surprises."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from resources_servers.browser_gym.actions import Action, Reload, parse_action
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    find_chromium,
    launch_args,
    running_as_root,
)
from resources_servers.browser_gym.browser.pool import LocalPool
from resources_servers.browser_gym.demo_gym import server
from resources_servers.browser_gym.demo_gym.tasks import BROWSER, VIEWPORT, load_tasks, seed_state
from resources_servers.browser_gym.session import Opening, SessionSettings
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.task_row import BrowserStart, ClockMode
from resources_servers.browser_gym.tests.test_demo_gym import SOLUTIONS, grade, results
from responses_api_agents.browser_agent.adapters.openai_actions import (
    action_to_canonical,
    function_to_canonical,
)

PAGES = ["/crm/", "/crm/lead.html?id=L-1003", "/board/", "/shop/", "/docs/", "/settings/"]

CLICKABLE_SELECTS = "select, select::picker(select) { appearance: base-select }"
"""What a session's browser does to a select, so that a click can choose an option."""

BOXES = """() => [...document.querySelectorAll(
  'button, input, select, option, textarea, a, li, article, section, [contenteditable], .line')]
  .map((node) => {
    const box = node.getBoundingClientRect();
    return [node.tagName, String(node.className), box.x, box.y, box.width, box.height];
  })"""


@pytest.fixture(scope="module")
async def gym() -> AsyncIterator[httpx.AsyncClient]:
    async with server.running() as url, httpx.AsyncClient(base_url=url) as client:
        yield client


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


async def watch(context: BrowserContext, gym: httpx.AsyncClient, style: str) -> list[str]:
    """Give the pages of a context a style, and return a list to which their faults are added:
    script errors, console messages, and requests to any other place than the gym.
    """
    faults: list[str] = []
    await context.add_init_script(
        f"""{{
          const sheet = new CSSStyleSheet();
          sheet.replaceSync({json.dumps(style)});
          document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
        }}"""
    )
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on("console", lambda message: faults.append(message.text))
    context.on("request", lambda r: None if r.url.startswith(base(gym)) else faults.append(r.url))
    return faults


@asynccontextmanager
async def visitor(
    browser: Browser, gym: httpx.AsyncClient, style: str = CLICKABLE_SELECTS
) -> AsyncIterator[BrowserContext]:
    """A fresh browser context whose pages have a style and no faults."""
    context = await browser.new_context(viewport={"width": 1280, "height": 720})
    try:
        faults = await watch(context, gym, style)
        yield context
    finally:
        await context.close()
    assert faults == []


def base(gym: httpx.AsyncClient) -> str:
    return str(gym.base_url).rstrip("/")


async def dump(page: Page) -> dict[str, str]:
    return await page.evaluate("() => ({ ...localStorage })")


# ---- the scripts ----


@pytest.fixture(scope="module")
async def sessions() -> AsyncIterator[Sessions]:
    pool = LocalPool(
        find_chromium(), processes=1, max_sessions=1, queue_limit=0, queue_timeout_s=60
    )
    sessions = Sessions(pool, SessionSettings())
    await sessions.start()
    yield sessions
    await sessions.close()


def batch_of(turn: dict[str, Any]) -> list[Action]:
    """The actions of a scripted turn, as the agent would send them."""
    actions = [action_to_canonical(action) for action in turn.get("actions", [])]
    if function := turn.get("function"):
        arguments = json.dumps(function["arguments"])
        actions.append(function_to_canonical(function["name"], arguments))
    return [parse_action(action) for action in actions]


async def follow(
    sessions: Sessions,
    gym: httpx.AsyncClient,
    task_id: str,
    style: str = "",
    clock: ClockMode = "real",
) -> tuple[dict[str, str], dict[str, str], str]:
    """Carry out a task's script; return the initial and the final state and the answer.

    Fails as `visitor` does.
    """
    *turns, last = SOLUTIONS[task_id]["turns"]
    start_url = base(gym) + load_tasks()[task_id].start_path
    start = BrowserStart(clock=clock)
    opening = Opening(start_url, VIEWPORT["width"], VIEWPORT["height"], start)
    session, _ = await sessions.seed(opening)
    if session.freezer:
        session.freezer.thaw()  # its pages have to answer to `watch`
    faults = await watch(session.lease.context, gym, style)
    # Again, watched and with the style.
    for batch in [[Reload()], *(batch_of(turn) for turn in turns)]:
        results, _ = await sessions.step(session.session_id, batch)
        assert [result.error for result in results] == [None] * len(batch)
    state = (await sessions.conclude(session.session_id)).state
    assert faults == []
    return state.initial[base(gym)], state.final[base(gym)], last["answer"]


async def reward(
    gym: httpx.AsyncClient, task_id: str, initial: Any, final: Any, answer: str
) -> int:
    files = {"initialState": initial, "localStorageDump": final}
    outcome = results(await grade(gym, task_id, files, modelResponse=answer))
    return int(all(result == "pass" for result in outcome))


@pytest.mark.parametrize("task_id", list(SOLUTIONS))
async def test_script_earns_its_reward(sessions: Sessions, gym: httpx.AsyncClient, task_id: str):
    clock = BROWSER["clock"]
    initial, final, answer = await follow(sessions, gym, task_id, clock=clock)

    assert (
        await reward(gym, task_id, initial, final, answer)
        == (SOLUTIONS[task_id]["expected_reward"])
    )
    assert await reward(gym, task_id, initial, {**final, "stray": "1"}, answer) == 0


@pytest.mark.parametrize("task_id", ["CRM-06", "BRD-02", "SHOP-04", "DOC-04", "SET-02", "SET-04"])
async def test_script_works_whatever_the_font(
    sessions: Sessions, gym: httpx.AsyncClient, task_id: str
):
    style = "* { font-family: monospace !important }"
    initial, final, answer = await follow(sessions, gym, task_id, style)

    assert await reward(gym, task_id, initial, final, answer) == 1


# ---- pages ----


async def open_fully(page: Page, url: str) -> None:
    """Open a page and show in it what is hidden at first: a lead's form, a select's options."""
    await page.goto(url)
    if url.endswith("/crm/"):
        await page.click('[data-id="L-1003"]')
    if await page.locator("select").count():
        await page.locator("select").first.click()


@pytest.mark.parametrize("path", PAGES)
async def test_layout_does_not_depend_on_the_font(
    browser: Browser, gym: httpx.AsyncClient, path: str
):
    boxes = []
    for family in ("sans-serif", "monospace", "serif"):
        style = f"{CLICKABLE_SELECTS} * {{ font-family: {family} !important }}"
        async with visitor(browser, gym, style) as context:
            page = await context.new_page()
            await open_fully(page, base(gym) + path)
            boxes.append(await page.evaluate(BOXES))

    assert len(boxes[0]) > 10
    assert boxes[1] == boxes[0]
    assert boxes[2] == boxes[0]


@pytest.mark.parametrize("path", PAGES)
async def test_page_fits_the_viewport(browser: Browser, gym: httpx.AsyncClient, path: str):
    async with visitor(browser, gym) as context:
        page = await context.new_page()
        await page.goto(base(gym) + path)
        size = await page.evaluate(
            "() => { const e = document.scrollingElement; return [e.scrollWidth, e.scrollHeight] }"
        )

    assert size == [VIEWPORT["width"], VIEWPORT["height"]]


@pytest.mark.parametrize("path", PAGES)
async def test_first_visit_stores_the_seed_of_all_apps(
    browser: Browser, gym: httpx.AsyncClient, path: str
):
    async with visitor(browser, gym) as context:
        page = await context.new_page()
        await page.goto(base(gym) + path)
        stored = await dump(page)

    assert {key: json.loads(text) for key, text in stored.items()} == {
        key: json.loads(text) for key, text in seed_state().items()
    }


async def test_a_select_works_as_the_browsers_own_control(browser: Browser, gym: httpx.AsyncClient):
    async with visitor(browser, gym, style="") as context:
        page = await context.new_page()
        await page.goto(base(gym) + "/shop/")
        await page.focus(".quantity")
        await page.keyboard.press("ArrowDown")
        cart = json.loads((await dump(page))["shop:cart"])

    assert cart == {"P-03": 2, "P-08": 2}


async def test_two_tabs_do_not_undo_each_others_changes(browser: Browser, gym: httpx.AsyncClient):
    async with visitor(browser, gym) as context:
        first, second = await context.new_page(), await context.new_page()
        await first.goto(base(gym) + "/settings/")
        await second.goto(base(gym) + "/settings/")
        await first.get_by_role("switch", name="Sounds").click()
        await second.get_by_role("switch", name="Weekly digest").click()
        stored = json.loads((await dump(first))["settings:notifications"])

    assert (stored["sounds"], stored["digest"]) == (False, True)


async def test_a_documents_text_survives_being_edited(browser: Browser, gym: httpx.AsyncClient):
    async with visitor(browser, gym) as context:
        page = await context.new_page()
        await page.goto(base(gym) + "/docs/")
        before = json.loads((await dump(page))["docs:documents"])
        for document_id in before:
            await page.click(f'[data-id="{document_id}"]')
            await page.click(".text")
            await page.keyboard.type("x")
            await page.keyboard.press("Backspace")
            await page.keyboard.press("Control+s")
        after = json.loads((await dump(page))["docs:documents"])

    assert after == before
