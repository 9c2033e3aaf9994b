"""The element tools over HTTP and over MCP, and refs in pixel actions, in real Chromium."""

import json
import re
from typing import Any

import pytest

from conftest import RESPONSE, Client, running_client
from resources_servers.browser_gym.browser import pool
from resources_servers.browser_gym.element_tools import TOOLS, function_tools

LAUNCH_ARGS = pool.launch_args


class Page:
    """A session that tools are used in; the session cookie names it."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def use(self, tool: str, **arguments: Any) -> str:
        return await self.post(tool, json.dumps(arguments))

    async def post(self, tool: str, body: str) -> str:
        answer = await self.client.http.post(f"/browser_{tool}", content=body)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def stored(self, key: str) -> Any:
        dump = json.loads((await self.client.storage(self.env_id))["local_storage_dump"])
        return json.loads(dump[key])


async def opened(client: Client, url: str) -> Page:
    seeded = await client.seed(url, viewport_width=1280, viewport_height=720)
    return Page(client, seeded["env_id"])


def named(text: str, label: str) -> str:
    """Return the name of the element with this label."""
    match = re.search(rf'\[(\w+) [\w-]+ "{re.escape(label)}"', text)
    assert match, text
    return match[1]


async def test_a_page_is_seen_and_filled_in(client: Client, site: str) -> None:
    page = await opened(client, f"{site}/forms.html")
    seen = await page.use("observe")
    assert seen.startswith(f"url: {site}/forms.html\ntitle: Forms\n\nName\n[e1 textbox ")
    for line in (
        '[e10 checkbox "Agree", not checked]',
        '[e13 combobox "Country", value "Germany", options "Germany" "France"]',
        '[e15 textbox "Locked", value "fixed", read-only]',
        '[e16 textbox "Off", value "", disabled]',
        'light text [e21 button "Shade"]',
        '[e23 button "Covered", covered]',
        "[e25 textbox]old text",
        '[e27 link "far below"]',
    ):
        assert f"\n{line}\n" in f"{seen}\n"
    assert await page.use("observe") == seen  # names stay

    await page.use("click", element_id="e10")
    for label, text in (
        ("Country", "France"),
        ("Volume", "65"),
        ("Due", "2026-11-29"),
        ("Notes", "one\ntwo"),
        ("Name", "Ann"),
    ):
        told = await page.use("type", element_id=named(seen, label), text=text)
        assert "error" not in told
    assert 'combobox "Country", value "France"' in told
    await page.use("type", element_id="[e1]", text=" Lee", clear=False)
    await page.use("type", element_id=25, text=" and new", clear=False)
    told = await page.use("press", keys="Control+A x")
    values = await page.stored("values")
    kept = {key: values[key] for key in ("agree", "country", "volume", "due", "notes", "name")}
    assert kept == {
        "agree": True,
        "country": "fr",
        "volume": "65",
        "due": "2026-11-29",
        "notes": "one\ntwo",
        "name": "Ann Lee",
    }
    assert "[e25 textbox]x" in told

    for arguments, reason in (
        ({"element_id": "e16"}, 'textbox "Off" is disabled'),
        ({"element_id": named(seen, "Covered")}, 'button "Covered" is covered by '),
        ({"element_id": "e999"}, 'element "e999" is not on this page (any more)'),
    ):
        told = await page.use("click", **arguments)
        assert told.startswith(f"error: click: {reason}")
        assert '[e10 checkbox "Agree", checked]' in told  # what the page shows now
    told = await page.use("type", element_id=named(seen, "Country"), text="Spain")
    assert told.startswith('error: type: combobox "Country": there is no option "Spain": choose')

    told = await page.use("click", element_id=named(seen, "far below"))  # 1300 px further down
    assert told.startswith(f"url: {site}/second.html\n")
    told = await page.use("click", element_id="e1")
    assert told.startswith('error: click: element "e1" is not on this page (any more)')
    assert f"url: {site}/second.html\n" in told
    assert f"url: {site}/forms.html\n" in await page.use("back")
    assert f"url: {site}/second.html\n" in await page.use("navigate", url=f"{site}/second.html")


async def test_pixel_actions_take_elements(client: Client, site: str) -> None:
    page = await opened(client, f"{site}/forms.html")

    async def step(*actions: dict[str, Any]) -> list[dict[str, Any]]:
        return (await client.step(page.env_id, *actions))["results"]

    *_, listed = await step({"type": "list_elements"})
    country, agree, notes = (
        re.search(rf'^(\w+) \w+ "{label}"', listed["text"], re.MULTILINE)
        for label in ("Country", "Agree", "Notes")
    )
    assert country
    assert agree
    assert notes
    results = await step(
        {"type": "click", "ref": agree[1]},
        {"type": "type", "ref": notes[1], "text": "note"},
        {"type": "move", "ref": agree[1]},
        {"type": "cursor_position"},
        {"type": "mouse_down", "ref": agree[1]},
        {"type": "mouse_up"},
        {"type": "scroll", "ref": agree[1], "dy": 400},
        {"type": "find", "query": "Agree"},
        {"type": "scroll_to", "ref": agree[1]},
        {"type": "find", "query": "Agree"},
    )
    assert {result["error"] for result in results} == {None}
    assert results[3]["text"] == "x=300, y=303"
    assert "off screen" in results[7]["text"] or "(300, -97)" in results[7]["text"]
    assert "off screen" not in results[9]["text"]
    values = await page.stored("values")
    assert (values["agree"], values["notes"]) == (False, "note")  # clicked twice
    for wrong, reason in (
        ({"type": "click", "ref": "e1", "x": 1, "y": 1}, "give either x and y or a ref"),
        ({"type": "move"}, "give either x and y or a ref"),
    ):
        answer = await client.post("/step", {"env_id": page.env_id, "action": wrong}, 422)
        assert reason in json.dumps(answer)


async def test_a_frame_in_a_process_of_its_own_is_used_like_the_page(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a full Chromium does by itself.
    monkeypatch.setattr(
        pool, "launch_args", lambda root: [*LAUNCH_ARGS(root), "--site-per-process"]
    )
    other = site.replace("127.0.0.1", "localhost")
    async with running_client(max_sessions=1) as client:
        page = await opened(client, f"{site}/frames.html")
        seen = await page.use("observe")
        own, framed = seen.split(f"\nin the frame {other}/framed.html?far:\n")
        assert own.count('"Framed field"') == 1
        told = await page.use("type", element_id=named(framed, "Framed field"), text="words")
        assert '[f1e2 textbox "Framed field", value "words"]' in told
        await page.use("scroll", element_id=named(framed, "Press"))
        await page.use("click", element_id=named(framed, "Press"))
        origins = (await client.storage(page.env_id))["origins"]
        kept = {key: origins[other][key] for key in ("clicked", "typed")}
        assert kept == {"clicked": "?far", "typed": "words"}
        assert origins[other]["scrolled"] == "0"  # scrolled away from and back


async def test_a_long_page_is_cut_where_it_is_said(client: Client, site: str) -> None:
    page = await opened(client, f"{site}/long.html")
    seen = await page.use("observe")
    assert len(seen) < 8_300
    assert "\nrow 0 of many\nrow 1 of many\n" in seen
    left = re.search(r"\n\[… 0 more element\(s\) in (\d+) line\(s\)", seen)
    assert left
    assert seen.count("row ") + int(left[1]) == 3000
    told = await page.use("scroll", direction="down")
    assert "\nrow 0 of many\n" not in told
    assert "row 20 of many" in told
    told = await page.use("observe", query="ROW 2999")
    assert told.endswith("\n\nrow 2999 of many")
    assert '(no line has "no such row")' in await page.use("observe", query="no such row")


async def test_what_is_called_wrongly_is_told_beside_the_page(client: Client, site: str) -> None:
    page = await opened(client, f"{site}/first.html")
    for tool, body, reason in (
        ("click", "{}", "element_id is missing"),
        ("click", '{"element_id": "e1", "at": 3}', "there is no argument at"),
        ("click", '{"element_id": ["e1"]}', "element_id: "),
        ("click", '{"element_id": "e1", "count": 9}', "count: "),
        ("click", "[1]", "the arguments are not a JSON object"),
        ("click", '"e1"', "the arguments are not a JSON object"),
        ("click", "{", "the body is not JSON"),
        ("type", '{"element_id": "e1", "text": NaN}', "text: nan is no JSON number"),
        ("type", '{"element_id": "e1", "text": "\\ud800"}', "text: half of a surrogate pair"),
        ("press", '{"keys": ""}', "keys: "),
        ("press", '{"keys": "a+b+c+d+e+f+g+h+i"}', "chords.0: "),
        ("scroll", '{"direction": "sideways"}', "direction: "),
    ):
        told = await page.post(tool, body)
        assert told.startswith(f"error: browser_{tool}: {reason}"), told
        assert f"\nurl: {site}/first.html\n" in told
    for tool, arguments, reason in (
        ("navigate", {"url": "file:///etc/passwd"}, "navigate: 'file:///etc/passwd' cannot be"),
        ("press", {"keys": "Control+Foo"}, "key: "),
        ("switch_tab", {"tab_id": "tab-9"}, "switch_tab: there is no tab with id 'tab-9'"),
    ):
        assert (await page.use(tool, **arguments)).startswith(f"error: {reason}")
    told = await page.use("navigate", url=f"{site}/graded.html")
    assert re.search(r'\[e\d+ button "Odd"]', told), told  # of the role, the part that may be one
    assert 'button "Idle", covered]' in told
    told = await page.use("click", element_id=named(told, "Idle"))
    assert told.startswith('error: click: button "Idle" takes no clicks')
    told = await page.use("navigate", url=f"{site}/redirect-to-verifier")
    assert "could not be opened: net::ERR_BLOCKED_BY_CLIENT" in told
    assert "the expected state" not in told
    client.http.cookies.clear()
    answer = await client.http.post("/browser_observe")
    assert answer.status_code == 410
    assert answer.json()["failure_kind"] == "session_lost"


def _row(env_id: str | None, *messages: str, **fields: Any) -> dict[str, Any]:
    assertions = [{"title": "told", "answer_equals": "42"}]
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in messages]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    output = [message | {"content": parts}] if messages else []
    return {
        "env_id": env_id,
        "verifier_metadata": {"verifier": "local_storage", "assertions": assertions},
        "responses_create_params": {"input": "x"},
        "response": RESPONSE | {"output": output},
        **fields,
    }


async def test_the_first_finish_is_graded(client: Client, site: str) -> None:
    page = await opened(client, f"{site}/first.html")
    assert await page.use("finish", answer="42") == "the task is finished; the answer is '42'"
    assert await page.use("finish", answer="43") == "the task is finished; the answer is '42'"
    assert (await page.use("observe")).startswith("error: the task was finished before")
    graded = await client.post("/verify", _row(page.env_id, "It is 43."))
    assert (graded["reward"], graded["final_answer"]) == (1, "42")

    for fields, reward in (({}, 1), ({"final_answer": None}, 0)):
        page = await opened(client, f"{site}/first.html")
        graded = await client.post("/verify", _row(page.env_id, "42", **fields))
        assert graded["reward"] == reward


async def test_the_tools_are_offered_over_mcp(site: str) -> None:
    async with running_client(expose_tools_over_mcp=True) as client:
        await _use_over_mcp(client, site)


async def _use_over_mcp(client: Client, site: str) -> None:
    seeded = await client.seed(f"{site}/first.html")
    headers = {"accept": "application/json, text/event-stream", **seeded["mcp"]["headers"]}

    async def ask(method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await client.http.post("/mcp", json=body, headers=headers)
        return answer.json()["result"]

    offered = {tool["name"]: tool for tool in (await ask("tools/list"))["tools"]}
    assert offered.keys() == TOOLS.keys()
    for tool in function_tools():
        assert offered[tool["name"]]["inputSchema"] == tool["parameters"]
        assert offered[tool["name"]]["description"] == tool["description"]
    address = {"url": f"{site}/second.html"}
    told = await ask("tools/call", name="browser_navigate", arguments=address)
    assert told["content"][0]["text"].startswith(f"url: {site}/second.html\n")
    told = await ask("tools/call", name="browser_click", arguments={})
    assert told["content"][0]["text"].startswith("error: browser_click: element_id is missing\n")
    refused = await client.http.post("/close", content="NaN")
    assert refused.status_code == 422  # bodies of other routes are looked at as ever
