"""How a task's browser starts: what is stored in it, what it tells pages, and what is read back."""

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from conftest import RESPONSE, Client
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.errors import InvalidTask
from tests.simulators.http_server import serve
from tests.site import create_site
from tests.started import kill, renderers
from tests.waiting import eventually

# Writes down what its first script sees; on every later load too.
SEES = """<!doctype html><title>Sees</title><script>
  const log = JSON.parse(localStorage.log || "[]");
  log.push({local: localStorage.theme, session: sessionStorage.step, cookie: document.cookie});
  localStorage.log = JSON.stringify(log);
  sessionStorage.step = "changed";
</script>"""

TELLS_HEADERS = """<!doctype html><title>Headers</title><script>
  fetch(`${location.protocol}//localhost:${location.port}/headers`).then(r => r.json()).then(
    far => { localStorage.far = JSON.stringify(far); document.title = "Told"; });
  fetch("/headers").then(r => r.json()).then(near => { localStorage.near = JSON.stringify(near); });
</script>"""


TELLS_PLACE = """<!doctype html><title>Asking</title><script>
  const asks = query => matchMedia(query).matches;
  localStorage.told = JSON.stringify({
    language: navigator.language,
    number: (1234.5).toLocaleString(),
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    dark: asks("(prefers-color-scheme: dark)"),
    less: asks("(prefers-reduced-motion: reduce)"),
  });
  navigator.geolocation.getCurrentPosition(
    ({coords}) => {
      localStorage.place = JSON.stringify({at: [coords.latitude, coords.longitude]});
      document.title = "Told"; },
    error => { localStorage.place = JSON.stringify({error: error.code});
      document.title = "Told"; });
</script>"""


# What a frame finds out, it tells the page; what the page or a popup finds out is stored.
TELLS_TIME = """<!doctype html><title>Timing</title><body><script>
  const report = (name, value) => {
    localStorage[name] = JSON.stringify(value);
    if (localStorage.frames && localStorage.page) document.title = "Told"; };
  if (location.search == "?frame") {
    parent.postMessage({now: Date.now(), random: Math.random()}, "*");
  } else if (location.search == "?popup") {
    localStorage.popup = JSON.stringify({now: Date.now(), random: Math.random()});
  } else {
    const heard = [];
    onmessage = ({data}) => {
      heard.push(data);
      if (heard.length == 2) report("frames", {heard}); };
    for (const host of [location.host, `localhost:${location.port}`]) {
      const frame = document.createElement("iframe");
      frame.src = `http://${host}${location.pathname}?frame`;
      document.body.append(frame);
    }
    const page = {now: Date.now(), random: [Math.random(), Math.random()], name: `${Math.random}`};
    const began = performance.now();
    setTimeout(() => {
      page.waited = Date.now() - page.now;
      page.performed = performance.now() - began;
      let ticks = 0;
      const interval = setInterval(() => {
        if (++ticks < 3) return;
        clearInterval(interval);
        requestAnimationFrame(first => requestAnimationFrame(second => {
          page.between = second - first;
          page.year = new Date().getFullYear();
          report("page", page); }));
      }, 20);
    }, 200);
  }
</script>"""


# Each tab's sessionStorage names the tab; a frame of another site has its own.
KEEPS = """<!doctype html><title>Keeps</title><script>
  const tab = location.search.slice(1);
  sessionStorage.tab = tab;
  document.cookie = "seen=" + tab;
  indexedDB.open("notes").onsuccess = () => { document.title = "Kept"; };
  if (tab == "one") {
    const frame = document.createElement("iframe");
    frame.src = `http://localhost:${location.port}/keeps?frame`;
    document.documentElement.append(frame);
  }
</script>"""


def _headers(request: Request) -> Response:
    answer = JSONResponse(dict(request.headers))
    answer.headers["access-control-allow-origin"] = "*"
    return answer


def _secret(request: Request) -> Response:
    expected = "Basic " + base64.b64encode(b"ann:s3cret").decode()
    if request.headers.get("authorization") == expected:
        return HTMLResponse("<title>Welcome</title>")
    return Response("who?", 401, {"www-authenticate": 'Basic realm="test"'})


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """Base URL of the test pages and those of this file."""
    app = Starlette(
        routes=[
            Route("/sees", lambda _: HTMLResponse(SEES)),
            Route("/tells-headers", lambda _: HTMLResponse(TELLS_HEADERS)),
            Route("/headers", _headers),
            Route("/keeps", lambda _: HTMLResponse(KEEPS)),
            Route("/tells-time", lambda _: HTMLResponse(TELLS_TIME)),
            Route(
                "/opens",
                lambda _: HTMLResponse("<script>window.open('/tells-time?popup')</script>"),
            ),
            Route("/tells/time", lambda _: HTMLResponse(TELLS_TIME)),
            Route("/tells-place", lambda _: HTMLResponse(TELLS_PLACE)),
            Route("/secret", _secret),
            Route("/to-sees", lambda _: RedirectResponse("/sees")),
            Mount("/", create_site()),
        ]
    )
    with serve(app) as url:
        yield url


def other_origin(site: str) -> str:
    return site.replace("127.0.0.1", "localhost")


def task(url: str, browser: Any = None) -> dict[str, Any]:
    return {
        "task_id": "T",
        "start_url": url,
        "viewport": {"width": 1280, "height": 720},
        "verifier": "local_storage",
        "assertions": [{"title": "t", "only_changed": []}],
        "browser": browser,
    }


async def start(client: Client, url: str, browser: dict[str, Any]) -> dict[str, Any]:
    seeded = await client.post("/seed_session", {"verifier_metadata": task(url, browser)})
    client.opened.append(seeded["env_id"])
    return seeded


async def stored(client: Client, env_id: str) -> dict[str, Any]:
    """The start origin's localStorage, with the JSON texts these pages write parsed."""
    texts = json.loads((await client.storage(env_id))["local_storage_dump"])
    return {key: json.loads(text) if text[:1] in "[{" else text for key, text in texts.items()}


async def stored_once(client: Client, env_id: str, key: str) -> dict[str, Any]:
    """The same, as soon as it has `key`."""

    async def there() -> bool:
        return key in await stored(client, env_id)

    await eventually(there)
    return await stored(client, env_id)


# What is stored, and who the browser says it is


async def test_first_script_sees_storage_and_cookies(client: Client, pages: str) -> None:
    browser = {
        "local_storage": {pages: {"theme": "dark"}},
        "session_storage": {f"{pages}/": {"step": "2"}},
        "cookies": [
            {"name": "sid", "value": "42", "url": pages},
            {"name": "far", "value": "1", "domain": "example.com", "path": "/", "secure": True},
        ],
    }
    env_id = (await start(client, f"{pages}/to-sees", browser))["env_id"]
    seen = await stored(client, env_id)
    assert seen["log"] == [{"local": "dark", "session": "2", "cookie": "sid=42"}]


async def test_what_an_app_changes_is_not_seeded_again(client: Client, pages: str) -> None:
    browser = {"session_storage": {pages: {"step": "2"}}}
    env_id = (await start(client, f"{pages}/sees", browser))["env_id"]
    await client.step(env_id, {"type": "reload"})
    log = (await stored(client, env_id))["log"]
    assert [visit["session"] for visit in log] == ["2", "changed"]


async def test_seeded_storage_is_the_initial_state(client: Client, pages: str) -> None:
    other = other_origin(pages)
    browser = {"local_storage": {pages: {"__proto__": "🙂"}, other: {"token": "t"}}}
    seeded = await start(client, f"{pages}/links.html", browser)
    assert (seeded["title"], seeded["events"]) == ("Links", [])
    dump = await client.storage(seeded["env_id"])
    assert json.loads(dump["initial_local_storage"]) == {"__proto__": "🙂", "page": "links"}
    assert dump["origins"][other] == {"token": "t"}
    back = await client.step(seeded["env_id"], {"type": "go_back"})
    assert back["error"] == "go_back: there is no earlier page"


async def test_headers_go_to_the_start_origin_only(client: Client, pages: str) -> None:
    browser = {"headers": {"X-User": "ann", "Accept-Language": "de"}}
    env_id = (await start(client, f"{pages}/tells-headers", browser))["env_id"]
    told = await stored(client, env_id)
    assert (told["near"]["x-user"], told["near"]["accept-language"]) == ("ann", "de")
    assert "x-user" not in told["far"]


async def test_headers_do_not_open_the_verifier_api(client: Client, pages: str) -> None:
    seeded = await start(client, f"{pages}/links.html", {"headers": {"X-User": "ann"}})
    url = f"{pages}/api/v1/get_expected_state"
    answer = await client.step(seeded["env_id"], {"type": "navigate", "url": url})
    assert "ERR_BLOCKED_BY_CLIENT" in answer["error"]


async def test_http_credentials_open_the_start_page(client: Client, pages: str) -> None:
    credentials = {"username": "ann", "password": "s3cret"}
    seeded = await start(client, f"{pages}/secret", {"http_credentials": credentials})
    assert seeded["title"] == "Welcome"
    answer = await client.step(
        seeded["env_id"], {"type": "navigate", "url": f"{other_origin(pages)}/secret"}
    )
    assert answer["title"] != "Welcome"


async def test_wrong_credentials_are_told(client: Client, pages: str) -> None:
    browser = {"http_credentials": {"username": "ann", "password": "wrong"}}
    body = {"verifier_metadata": task(f"{pages}/secret", browser)}
    answer = await client.post("/seed_session", body, status=503)
    assert "did not open" in answer["failure_reason"]


# What the browser tells pages


async def test_a_task_says_what_pages_are_told(client: Client, pages: str) -> None:
    browser = {
        "locale": "de-DE",
        "timezone": "Asia/Tokyo",
        "geolocation": {"latitude": 59.95, "longitude": 30},
        "permissions": ["geolocation"],
        "color_scheme": "dark",
        "reduced_motion": True,
    }
    env_id = (await start(client, f"{pages}/tells-place", browser))["env_id"]
    seen = await stored_once(client, env_id, "place")
    assert seen["place"] == {"at": [59.95, 30]}
    assert seen["told"] == {
        "language": "de-DE",
        "number": "1.234,5",
        "zone": "Asia/Tokyo",
        "dark": True,
        "less": True,
    }


async def test_what_a_task_does_not_say_is_the_servers(client: Client, pages: str) -> None:
    browser = {"geolocation": {"latitude": 59.95, "longitude": 30}}
    env_id = (await start(client, f"{pages}/tells-place", browser))["env_id"]
    seen = await stored_once(client, env_id, "place")
    assert seen["place"] == {"error": 1}  # no permission
    assert seen["told"] == {
        "language": "en-US",
        "number": "1,234.5",
        "zone": "UTC",
        "dark": False,
        "less": False,
    }


START = datetime(2031, 3, 1, 8, tzinfo=UTC)


async def told_time(client: Client, url: str, browser: dict[str, Any]) -> dict[str, Any]:
    env_id = (await start(client, url, browser))["env_id"]
    await stored_once(client, env_id, "page")
    return await stored_once(client, env_id, "frames")


async def test_clock_starts_at_a_time_and_goes_on(client: Client, pages: str) -> None:
    began = time.monotonic()
    seen = await told_time(client, f"{pages}/tells-time", {"time": "2031-03-01T09:00:00+01:00"})
    took_ms = (time.monotonic() - began) * 1000
    page, (near, far) = seen["page"], seen["frames"]["heard"]
    for now in (page["now"], near["now"], far["now"]):
        assert 0 <= now - START.timestamp() * 1000 <= took_ms
    assert 199 <= page["waited"] <= took_ms
    assert abs(page["performed"] - page["waited"]) < 50
    assert 0 < page["between"] < took_ms
    assert page["year"] == 2031


async def test_clock_does_not_start_again_on_another_page(client: Client, pages: str) -> None:
    browser = {"time": "2031-03-01T08:00:00"}
    env_id = (await start(client, f"{pages}/tells-time", browser))["env_id"]
    first = (await stored_once(client, env_id, "page"))["page"]["now"]
    answer = await client.step(
        env_id,
        {"type": "switch_tab", "index": 0},
        {"type": "wait", "ms": 300},
        {"type": "reload"},
        {"type": "wait", "ms": 500},
    )
    assert (answer["error"], answer["settled"]) == (None, True)
    assert (await stored(client, env_id))["page"]["now"] > first + 300


async def test_a_page_with_a_clock_becomes_quiet(client: Client, pages: str) -> None:
    seeded = await start(client, f"{pages}/links.html", {"time": "2031-03-01T08:00:00Z"})
    assert seeded["settled"]  # else it waited until the bound


async def test_same_seed_same_numbers(client: Client, pages: str) -> None:
    one, two, other = [
        await told_time(client, f"{pages}/tells-time", {"random_seed": seed}) for seed in (7, 7, 8)
    ]
    none = await told_time(client, f"{pages}/tells-time", {})
    elsewhere = await told_time(client, f"{pages}/tells/time", {"random_seed": 7})

    def numbers(seen: dict[str, Any]) -> list[float]:
        frames = [frame["random"] for frame in seen["frames"]["heard"]]
        return [*seen["page"]["random"], *frames]

    assert numbers(one) == numbers(two)
    assert all(0 <= number < 1 for number in numbers(one))
    for seen in (other, none, elsewhere):
        assert not set(numbers(seen)) & set(numbers(one))
    first, second, *rest = numbers(one)
    assert (first != second, rest) == (True, [first] * 2)


async def test_a_popup_has_the_clock_and_the_seed(client: Client, pages: str) -> None:
    browser = {"time": "2031-03-01T08:00:00Z", "random_seed": 7}
    began = time.monotonic()
    page = await told_time(client, f"{pages}/tells-time", browser)
    env_id = (await start(client, f"{pages}/opens", browser))["env_id"]
    popup = (await stored_once(client, env_id, "popup"))["popup"]
    took_ms = (time.monotonic() - began) * 1000
    assert popup["random"] == page["page"]["random"][0]
    assert 0 <= popup["now"] - START.timestamp() * 1000 <= took_ms


# What is read back


async def test_what_is_kept_beside_local_storage(client: Client, pages: str) -> None:
    other = other_origin(pages)
    env_id = (await start(client, f"{pages}/keeps?one", {}))["env_id"]
    body = {"env_id": env_id, "include": ["session_storage", "cookies", "indexed_db"]}
    kept: dict[str, Any] = {}

    async def all_opened() -> bool:
        kept.update(await client.post("/dump_local_storage", body))
        return kept["indexed_db"] == {pages: ["notes"], other: ["notes"]}

    await eventually(all_opened)
    assert kept["session_storage"] == {pages: {"tab": "one"}, other: {"tab": "frame"}}
    cookies = {(cookie["domain"], cookie["name"]): cookie["value"] for cookie in kept["cookies"]}
    assert cookies[("127.0.0.1", "seen")] == "one"

    await client.step(env_id, {"type": "new_tab", "url": f"{pages}/keeps?two"})
    kept = await client.post("/dump_local_storage", body | {"include": ["session_storage"]})
    assert kept["session_storage"][pages] == {"tab": "two"}
    assert (kept["cookies"], kept["indexed_db"]) == (None, None)
    await client.step(env_id, {"type": "switch_tab", "index": 0})
    kept = await client.post("/dump_local_storage", body | {"include": ["session_storage"]})
    assert kept["session_storage"][pages] == {"tab": "one"}


async def test_unknown_include_is_refused(client: Client, pages: str) -> None:
    env_id = (await start(client, f"{pages}/links.html", {}))["env_id"]
    body = {"env_id": env_id, "include": ["local_files"]}
    answer = await client.http.post("/dump_local_storage", json=body)
    assert (answer.status_code, "session_storage" in answer.text) == (422, True)


SECOND_SEEN = {"title": "second page seen", "query": "second", "equals": "visited"}


async def graded(client: Client, metadata: dict[str, Any], env_id: str) -> dict[str, Any]:
    body = {
        "responses_create_params": {"input": "Do it."},
        "response": RESPONSE,
        "verifier_metadata": metadata,
        "env_id": env_id,
    }
    return await client.post("/verify", body)


async def test_what_a_closed_tab_of_another_origin_wrote_is_kept(
    client: Client, pages: str
) -> None:
    other = other_origin(pages)
    env_id = (await start(client, f"{pages}/links.html", {}))["env_id"]
    await client.step(env_id, {"type": "new_tab", "url": f"{other}/second.html"})
    await client.step(env_id, {"type": "close_tab"})
    assert (await client.storage(env_id))["origins"][other] == {"second": "visited"}


async def test_what_was_written_before_the_tab_was_closed_is_graded(
    client: Client, pages: str
) -> None:
    metadata = task(f"{pages}/second.html") | {"assertions": [SECOND_SEEN]}
    env_id = (await client.post("/seed_session", {"verifier_metadata": metadata}))["env_id"]
    client.opened.append(env_id)
    await client.step(env_id, {"type": "new_tab", "url": f"{other_origin(pages)}/links.html"})
    answer = await client.step(env_id, {"type": "switch_tab", "index": 0}, {"type": "close_tab"})
    assert (answer["error"], len(answer["tabs"])) == (None, 1)
    assert (await graded(client, metadata, env_id))["reward"] == 1


async def test_what_was_written_before_a_crash_is_graded(client: Client, pages: str) -> None:
    metadata = task(f"{pages}/links.html") | {"assertions": [SECOND_SEEN]}
    env_id = (await client.post("/seed_session", {"verifier_metadata": metadata}))["env_id"]
    client.opened.append(env_id)
    await client.step(env_id, {"type": "navigate", "url": f"{pages}/second.html"})
    kill(renderers())
    body = {"env_id": env_id, "include": ["session_storage"]}

    async def crashed() -> bool:
        return (await client.post("/dump_local_storage", body))["session_storage"] == {}

    await eventually(crashed)
    row = await graded(client, metadata, env_id)
    assert (row["reward"], row["mask_sample"]) == (1, False)


# What is refused


@pytest.mark.parametrize(
    ("browser", "words"),
    [
        ({"cookies": [{"name": "__Host-a", "value": "1", "url": "http://h.test"}]}, "cookies.0"),
        ({"local_storage": {"http://h.test": {"k": "x" * 6_000_000}}}, "http://h.test"),
    ],
)
async def test_what_the_browser_refuses_is_a_bad_task(
    client: Client, pages: str, browser: dict[str, Any], words: str
) -> None:
    sessions = await client.sessions()
    body = {"verifier_metadata": task(f"{pages}/links.html", browser)}
    answer = await client.post("/seed_session", body, status=422)
    assert (answer["failure_kind"], words in answer["failure_reason"]) == (
        "agent_request_failed",
        True,
    )
    assert await client.sessions() == sessions


@pytest.mark.parametrize(
    ("browser", "field", "fix"),
    [
        ([], "browser", "give a JSON object"),
        ({"localStorage": {}}, "browser", "unknown key 'localStorage'; there are local_storage"),
        ({"local_storage": {"http://h/x": {}}}, "local_storage.http://h/x", "scheme, host and"),
        ({"local_storage": {"h": {}}}, "local_storage.h", "give a full web address"),
        ({"local_storage": {"http://h": {"k": {"a": 1}}}}, "local_storage.http://h.k", "JSON text"),
        ({"session_storage": {"http://h": {"k": "\ud800"}}}, "session_storage.http://h.k", "half"),
        ({"cookies": [{"name": "a", "value": "b"}]}, "cookies.0", "give 'url', or both"),
        (
            {"cookies": [{"name": "a", "value": "b", "url": "http://h", "path": "/"}]},
            "cookies.0",
            "not both",
        ),
        ({"cookies": [{"name": "a", "value": "b", "httponly": True}]}, "cookies.0", "httpOnly"),
        (
            {"cookies": [{"name": "a", "value": "b", "url": "http://h", "expires": 0}]},
            "cookies.0.expires",
            "Unix time in seconds",
        ),
        ({"headers": {"Cookie": "a=b"}}, "headers.Cookie", "cookies go in 'cookies'"),
        ({"headers": {"X User": "b"}}, "headers.X User", "not the name of a header"),
        ({"headers": {"X-User": "a\r\nb"}}, "headers.X-User", "printable ASCII"),
        ({"locale": "German"}, "locale", "BCP 47"),
        ({"timezone": "Berlin"}, "timezone", "Europe/Berlin"),
        ({"geolocation": {"latitude": 91, "longitude": 0}}, "geolocation.latitude", "90"),
        ({"permissions": ["location"]}, "permissions.0", "'geolocation'"),
        ({"color_scheme": "black"}, "color_scheme", "'light' or 'dark'"),
        ({"reduced_motion": 1}, "reduced_motion", "valid boolean"),
        ({"time": "noon"}, "time", "ISO form"),
        ({"time": 1900000000}, "time", "a text"),
        ({"time": "0001-01-01T00:00:00+14:00"}, "time", "1970"),
        ({"random_seed": -1}, "random_seed", "greater than or equal to 0"),
        ({"random_seed": "7"}, "random_seed", "valid integer"),
        ({"http_credentials": {"username": "a"}}, "http_credentials.password", "required"),
    ],
)
def test_bad_settings_are_named(browser: Any, field: str, fix: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        VerifierMetadata.parse(task("http://h/", browser))
    path, _, message = str(refused.value).partition(": ")
    assert path.removeprefix("verifier_metadata.browser.").startswith(
        field if field != "browser" else "verifier_metadata.browser"
    )
    assert fix in message
