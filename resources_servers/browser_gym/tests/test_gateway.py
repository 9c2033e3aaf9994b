"""The way out of a context: everything a page asks for passes it and is checked as it connects."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from conftest import Client, running_client
from resources_servers.browser_gym.browser import gateway, policy
from resources_servers.browser_gym.browser.addresses import matches
from resources_servers.browser_gym.browser.policy import NOT_ALLOWED, PRIVATE
from tests.simulators.http_server import serve
from tests.site import create_site
from tests.waiting import eventually

VIEWPORT = {"viewport_width": 800, "viewport_height": 600}
# Their requests go the browser's own way, which neither shows a page the answer.
SOCKETS = ("socket", "worker-socket", "shared-worker-socket")


class Seen:
    """A site on loopback that remembers the paths it was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        redirect = Route("/to", self._redirect, methods=["GET", "POST"])
        self._site = Starlette(routes=[redirect, Mount("/", create_site())])
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            query = scope["query_string"].decode()
            self.paths.append(scope["path"] + (f"?{query}" if query else ""))
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
            return

        async def closing(message: Any) -> None:
            """Send an answer after which the connection is not used again."""
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await self._site(scope, receive, closing)

    @staticmethod
    def _redirect(request: Request) -> Response:
        return RedirectResponse(request.url.query.removeprefix("to="))

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[Seen, Seen]]:
    home, other = Seen(), Seen()
    with serve(home) as home.url, serve(other) as other.url:
        yield home, other


@pytest.fixture
def home(sites: tuple[Seen, Seen]) -> Seen:
    sites[0].paths.clear()
    return sites[0]


@pytest.fixture
def other(sites: tuple[Seen, Seen]) -> Seen:
    sites[1].paths.clear()
    return sites[1]


@pytest.fixture(scope="module")
async def strict_server() -> AsyncIterator[Client]:
    async with running_client(allow_private_addresses=False) as client:
        yield client


@pytest.fixture
async def strict(strict_server: Client) -> AsyncIterator[Client]:
    yield strict_server
    for env_id in strict_server.opened:
        await strict_server.http.post("/close", json={"env_id": env_id})
    strict_server.opened.clear()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Name server: what it does not list has no address, unless it is one."""
    known: dict[str, list[str]] = {"localhost": ["127.0.0.1"]}

    async def resolve(host: str, port: int) -> list[str]:
        return known.get(host, [host] if host.replace(".", "").isdigit() else [])

    monkeypatch.setattr(gateway, "resolve", resolve)
    return known


async def open_row(client: Client, start_url: str, **browser: Any) -> dict[str, Any]:
    metadata = {"start_url": start_url, "verifier": "local_storage", "browser": browser}
    metadata["assertions"] = [{"title": "any", "only_changed": []}]
    seeded = await client.post("/seed_session", {"verifier_metadata": metadata, **VIEWPORT})
    client.opened.append(seeded["env_id"])
    return seeded


def navigate(url: str) -> dict[str, Any]:
    return {"type": "navigate", "url": url}


def names_of(paths: list[str], before: str) -> set[str]:
    return {path.removeprefix(before) for path in paths if path.startswith(before)}


WAIT = {"type": "wait", "ms": 1000}


async def test_no_side_door_leads_to_a_private_address(
    strict: Client, home: Seen, other: Seen
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets:
        packets.bind(("127.0.0.1", other.port))
        packets.setblocking(False)
        env_id = (await open_row(strict, f"{home.url}/second.html"))["env_id"]
        for way in (f"{other.url}/x/", f"/to?to={other.url}/x/"):
            page = f"{home.url}/side-doors.html?to={quote(way, safe='')}"
            answer = await strict.step(env_id, navigate(page), WAIT)
            assert answer["error"] is None
            told = [e for e in answer["events"] if e["type"] == "blocked"]
            assert {(e["reason"], urlsplit(e["url"]).port) for e in told} == {(PRIVATE, other.port)}
        assert other.paths == []
        with pytest.raises(BlockingIOError):
            packets.recv(1)
    # The same page where the task allows it: the doors are real ones.
    allowed = await open_row(strict, f"{home.url}/second.html", allowed_origins=[other.url])
    page = f"{home.url}/side-doors.html?to={other.url}/x/"
    await strict.step(allowed["env_id"], navigate(page))

    async def all_came() -> bool:
        return len(names_of(other.paths, "/x/")) >= 30

    await eventually(all_came)
    assert {"socket", "shared-worker-socket", "worker-import"} <= names_of(other.paths, "/x/")


async def test_no_side_door_leads_to_the_verifier(client: Client, home: Seen) -> None:
    env_id = (await open_row(client, f"{home.url}/second.html"))["env_id"]
    api = "/api/v1/get_expected_state?"
    for way in (api, "/to?to=/x//API%2Fv1///%67et_actual_state?"):
        home.paths.clear()
        page = f"{home.url}/side-doors.html?to={quote(way, safe='')}"
        answer = await client.step(env_id, navigate(page), WAIT)
        assert answer["error"] is None
        asked = [path for path in home.paths if path.startswith(("/api", "/x//API"))]
        assert {path.partition("?")[2] for path in asked} <= set(SOCKETS)
        if way.startswith("/to"):
            assert len([path for path in home.paths if path.startswith("/to")]) > 20


async def test_a_redirect_or_name_that_leads_to_a_private_address(
    strict: Client, home: Seen, other: Seen, names: dict[str, list[str]]
) -> None:
    names["app.test"] = ["127.0.0.1"]
    names["mapped.test"] = ["::ffff:127.0.0.1"]
    names["cloud.test"] = ["169.254.169.254", "fd00::1", "0.0.0.0", "::"]
    env_id = (await open_row(strict, f"{home.url}/second.html"))["env_id"]
    for url in (
        f"{home.url}/to?to={other.url}/second.html",
        f"{home.url}/to?to=http://app.test:{other.port}/second.html",
        f"http://app.test:{other.port}/second.html#part",
        f"http://mapped.test:{other.port}/second.html",
        "http://cloud.test/latest/meta-data/",
    ):
        answer = await strict.step(env_id, navigate(url))
        assert f"could not be opened: {PRIVATE}" in answer["error"], url
        told = [e for e in answer["events"] if e["type"] in ("blocked", "load_failed")]
        assert [(e["type"], e["reason"]) for e in told] == [("blocked", PRIVATE)]
    assert other.paths == []
    for url, reason in (
        ("http://nowhere.test/", "net::ERR_NAME_NOT_RESOLVED"),
        (f"{home.url}/to?to=http://nowhere.test/", "net::ERR_NAME_NOT_RESOLVED"),
    ):
        answer = await strict.step(env_id, navigate(url))
        assert reason in answer["error"]
        assert answer["events"][-1] == {
            "type": "load_failed",
            "url": "http://nowhere.test/",
            "reason": reason,
        }


async def test_a_name_of_the_task_leads_to_where_it_led_at_first(
    strict: Client, home: Seen, names: dict[str, list[str]]
) -> None:
    names["near.test"] = ["127.0.0.1"]
    near = await open_row(strict, f"http://near.test:{home.port}/second.html")
    assert (near["title"], near["events"]) == ("Second", [])
    # Rebinding: a public name that becomes one of this machine, at the very port of the task.
    names["far.test"] = ["127.0.0.1"]
    with pytest.MonkeyPatch.context() as public:
        public.setattr(gateway, "is_private", lambda address: False)
        public.setattr(policy, "is_private", lambda address: False)
        far = await open_row(strict, f"http://far.test:{home.port}/second.html")
    assert far["title"] == "Second"
    home.paths.clear()
    seen = await strict.step(far["env_id"], navigate(f"http://far.test:{home.port}/links.html"))
    assert home.paths == []
    assert PRIVATE in seen["error"]


async def test_a_public_site_leads_to_no_private_address_at_the_start(
    strict: Client, other: Seen, home: Seen, names: dict[str, list[str]]
) -> None:
    names["far.test"] = ["127.0.0.1"]
    with pytest.MonkeyPatch.context() as public:
        public.setattr(gateway, "is_private", lambda address: address == "localhost")
        public.setattr(policy, "is_private", lambda address: address == "localhost")
        way = f"http://far.test:{home.port}/to?to=http://localhost:{other.port}/second.html"
        refused = await strict.post("/seed_session", {"start_url": way}, status=503)
    assert PRIVATE in refused["failure_reason"]
    assert other.paths == []


async def test_slow_name_servers_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(30) and [])
    lookups = [asyncio.create_task(gateway.resolve(f"{n}.test", 80)) for n in range(50)]
    try:
        await asyncio.sleep(0)  # they begin
        await asyncio.wait_for(asyncio.to_thread(int), 10)
    finally:
        answered.set()
        assert await asyncio.gather(*lookups) == [[]] * 50


async def test_only_the_hosts_that_a_task_allows(
    client: Client, home: Seen, other: Seen, names: dict[str, list[str]]
) -> None:
    names |= {name: ["127.0.0.1"] for name in ("good.test", "www.wide.test", "wide.test")}
    allowed = ["Good.test", "*.wide.test"]
    row = await open_row(client, f"{home.url}/second.html", allowed_hosts=allowed)
    env_id = row["env_id"]
    for host in ("good.test", "www.wide.test"):
        answer = await client.step(env_id, navigate(f"http://{host}:{other.port}/second.html"))
        assert (answer["error"], answer["title"]) == (None, "Second")
    other.paths.clear()
    before = answer["current_url"]
    for url in (
        f"http://wide.test:{other.port}/second.html",
        f"http://bad.test:{other.port}/second.html",
        f"{other.url}/second.html",
    ):
        answer = await client.step(env_id, navigate(url))
        assert NOT_ALLOWED in answer["error"]
        assert answer["current_url"] == before
        assert answer["events"] == [{"type": "blocked", "url": url, "reason": NOT_ALLOWED}]
    redirect = await client.step(env_id, navigate(f"{home.url}/to?to={other.url}/second.html"))
    assert NOT_ALLOWED in redirect["error"]
    page = f"{home.url}/side-doors.html?to={other.url}/x/"
    blocked = await client.step(env_id, navigate(page), WAIT)
    assert blocked["error"] is None
    assert other.paths == []


@pytest.mark.parametrize("hosts", ["good.test", ["http://good.test"], ["good.test:80"], [""], [1]])
async def test_allowed_hosts_that_are_none(client: Client, home: Seen, hosts: Any) -> None:
    metadata = {"start_url": home.url, "browser": {"allowed_hosts": hosts}, "assertions": []}
    refused = await client.post("/seed_session", {"verifier_metadata": metadata}, status=422)
    assert "allowed_hosts" in refused["failure_reason"]


@pytest.mark.parametrize(
    ("host", "whether"),
    [
        ("example.org", True),
        ("example.org.", True),
        ("www.example.org", False),
        ("a.b.example.com", True),
        ("example.com", False),
        ("badexample.com", False),
    ],
)
def test_hosts_that_match(host: str, whether: bool) -> None:
    assert matches(host, ["example.org", "*.example.com"]) is whether


class UpstreamProxy:
    """An HTTP proxy on loopback, which knows CONNECT and leads everything to one place."""

    def __init__(self, port: int) -> None:
        self.heads: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\n\r\n"
        self._port = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        there = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(gateway._pump(reader, there[1]), gateway._pump(there[0], writer))
        writer.close()


async def test_a_proxy_of_the_environment(
    strict: Client,
    home: Seen,
    other: Seen,
    names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = UpstreamProxy(other.port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    address = f"http://ann:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("https_proxy", address)
    monkeypatch.setenv("no_proxy", "direct.test")
    names["app.test"] = ["127.0.0.1"]
    names["direct.test"] = ["8.8.8.8"]
    async with server:
        env_id = (await open_row(strict, f"{home.url}/second.html"))["env_id"]
        assert proxy.heads == []
        answer = await strict.step(env_id, navigate("http://unknown.test/second.html"))
        assert (answer["error"], answer["title"]) == (None, "Second")
        assert proxy.heads[0].startswith(b"CONNECT unknown.test:80 HTTP/1.1\r\n")
        assert b"Basic YW5uOnBAc3M=\r\n" in proxy.heads[0]
        answer = await strict.step(env_id, navigate("http://app.test/second.html"))
        assert PRIVATE in answer["error"]
        proxy.answer = b"HTTP/1.1 403 no\r\n\r\n"
        answer = await strict.step(env_id, navigate("http://forbidden.test/second.html"))
        assert "net::ERR_TUNNEL_CONNECTION_FAILED" in answer["error"]
        assert gateway.upstream_proxy("direct.test", 443, []) is None
        server.close_clients()


async def test_a_gateway_ends_with_its_context(home: Seen) -> None:
    opened: list[gateway.Gateway] = []
    real = gateway.Gateway.open

    async def remembering() -> gateway.Gateway:
        opened.append(await real())
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.Gateway, "open", remembering)
        async with running_client(allow_private_addresses=False) as client:
            row = await open_row(client, f"{home.url}/second.html", locale="de-DE")
            (used,) = opened
            # Nobody but its own context gets anywhere through it either.
            reader, writer = await asyncio.open_connection("127.0.0.1", used.port)
            writer.write(b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x09")
            assert (await reader.readexactly(12))[:4] == b"\x05\x00\x05\x02"
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", used.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", used.port)
            writer.write(b"\x05\x01\x00\x05\x01\x00\x03\x06a\r\nb: \x00\x50")
            assert await reader.read() == b"\x05\x00"
            writer.close()
            await client.post("/close", {"env_id": row["env_id"]})

            async def closed() -> bool:
                return not used._server.is_serving()  # type: ignore[union-attr]

            await eventually(closed)
            await open_row(client, f"{home.url}/second.html", locale="de-DE")
        assert not any(g._server and g._server.is_serving() for g in opened)
