"""What pages may reach: private addresses only where the task lives, and certificates."""

import json
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from conftest import Client, ClientFactory, running_client
from resources_servers.browser_gym import session
from resources_servers.browser_gym.browser import navigation, pool
from resources_servers.browser_gym.browser.addresses import is_private
from tests.simulators.http_server import serve
from tests.site import create_site

VIEWPORT = {"viewport_width": 1280, "viewport_height": 720}
PRIVATE = "it is at a private address, which this task's pages may not reach"


def _leaving(request: Request) -> Response:
    """A page whose first script goes elsewhere."""
    to = json.dumps(request.query_params["to"])
    return HTMLResponse(f"<title>Leaving</title><script>location = {to}</script>")


def _redirect(request: Request) -> Response:
    return RedirectResponse(request.query_params["to"])


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    """The origin of the tasks."""
    leaving = Route("/leaving", _leaving)
    app = Starlette(routes=[Route("/to", _redirect), leaving, Mount("/", create_site())])
    with serve(app) as url:
        yield url


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """Another origin on loopback, which tells which requests came."""
    site = create_site()
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(scope["path"])
        await site(scope, receive, send)

    with serve(app) as url:
        _SEEN[url] = seen
        yield url


_SEEN: dict[str, list[str]] = {}


@pytest.fixture(scope="module")
async def strict_server() -> AsyncIterator[Client]:
    async with running_client(allow_private_addresses=False) as client:
        yield client


@pytest.fixture
async def strict(strict_server: Client, other: str) -> AsyncIterator[Client]:
    _SEEN[other].clear()
    yield strict_server
    for env_id in strict_server.opened:
        await strict_server.http.post("/close", json={"env_id": env_id})
    strict_server.opened.clear()


def navigate(url: str) -> dict[str, Any]:
    return {"type": "navigate", "url": url}


async def test_pages_reach_no_other_private_origin(strict: Client, home: str, other: str) -> None:
    seeded = await strict.seed(f"{home}/reach.html?to={other}", **VIEWPORT)
    env_id = seeded["env_id"]
    dump = await strict.storage(env_id)
    assert json.loads(json.loads(dump["local_storage_dump"])["came"]) == {
        "fetch": False,
        "image": False,
    }
    blocked = {(e["type"], e["reason"]) for e in seeded["events"]}
    assert blocked == {("blocked", PRIVATE)}
    for y in (40, 100):  # a link, a popup
        answer = await strict.step(env_id, {"type": "click", "x": 60, "y": y})
        told = [event for event in answer["events"] if event["type"] == "blocked"]
        assert told == [{"type": "blocked", "url": f"{other}/second.html", "reason": PRIVATE}]
        assert answer["screenshot"]
    assert _SEEN[other] == []


async def test_the_model_is_told_and_stays_where_it_was(
    strict: Client, home: str, other: str
) -> None:
    env_id = (await strict.seed(f"{home}/second.html", **VIEWPORT))["env_id"]
    port = urlsplit(other).port
    for address in (
        other,
        f"http://localhost:{port}",
        f"http://app.localhost:{port}",
        f"http://127.1:{port}",
        f"http://0x7f.0.0.1:{port}",
        f"http://2130706433:{port}",
        f"http://0177.0.0.1:{port}",
        f"http://localhost.:{port}",
        f"http://0:{port}",
        f"http://127.0.0.1.:{port}",
        f"http://[::1]:{port}",
        f"http://[::ffff:127.0.0.1]:{port}",
        f"http://user:word@127.0.0.1:{port}",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1:8080/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
    ):
        answer = await strict.step(env_id, navigate(address))
        assert f"could not be opened: {PRIVATE}" in answer["error"], address
        assert answer["current_url"] == f"{home}/second.html"
        assert answer["events"][-1]["type"] == "blocked"
    assert _SEEN[other] == []
    again = await strict.step(env_id, navigate(f"{home}/links.html"))
    assert again["error"] is None


async def test_redirects_of_the_start_page_lead_to_the_tasks_own_origin(
    strict: Client, home: str, other: str
) -> None:
    seeded = await strict.seed(f"{home}/to?to={other}/reach.html%3Fto={other}", **VIEWPORT)
    assert (seeded["title"], seeded["events"]) == ("Reach", [])
    for url in (f"{home}/links.html", f"{other}/links.html"):
        assert (await strict.step(seeded["env_id"], navigate(url)))["error"] is None


@pytest.mark.usefixtures("short_waits_for_a_page")  # this one never draws anything
async def test_a_script_of_the_start_page_makes_no_origin_the_tasks_own(
    monkeypatch: pytest.MonkeyPatch, strict: Client, home: str, other: str
) -> None:
    opens = navigation.Navigation.to

    async def slowly(self: navigation.Navigation, url: str) -> int | None:
        context = self._tabs.active.page.context
        async with context.expect_event("request", lambda request: request.url.startswith(other)):
            return await opens(self, url)

    monkeypatch.setattr(navigation.Navigation, "to", slowly)
    seeded = await strict.seed(f"{home}/leaving?to={other}/second.html", **VIEWPORT)
    assert seeded["title"] == "Leaving"
    monkeypatch.undo()
    answer = await strict.step(seeded["env_id"], navigate(f"{other}/second.html"))
    assert PRIVATE in answer["error"]
    assert _SEEN[other] == []


@pytest.mark.parametrize("where", ["gym_url", "allowed_origins"])
async def test_origins_that_a_row_allows(strict: Client, home: str, other: str, where: str) -> None:
    metadata: dict[str, Any] = {"start_url": f"{home}/links.html", "verifier": "local_storage"}
    metadata["assertions"] = [{"title": "any", "only_changed": []}]
    if where == "gym_url":
        metadata["gym_url"] = f"{other}/gym"
    else:
        metadata["browser"] = {"allowed_origins": [other]}
    seeded = await strict.post("/seed_session", {"verifier_metadata": metadata})
    strict.opened.append(seeded["env_id"])
    answer = await strict.step(seeded["env_id"], navigate(f"{other}/second.html"))
    assert (answer["error"], answer["title"]) == (None, "Second")
    refused = await strict.step(seeded["env_id"], navigate("http://127.0.0.1:9/"))
    assert PRIVATE in refused["error"]


async def test_without_a_gateway_a_page_at_a_private_address_is_left(
    monkeypatch: pytest.MonkeyPatch, home: str, other: str
) -> None:
    rules = "--host-resolver-rules=MAP *.test 127.0.0.1"
    flags = pool.launch_args
    monkeypatch.setattr(pool, "launch_args", lambda root: [*flags(root), rules])
    monkeypatch.setattr(session, "direct_places", lambda _: None)
    port = urlsplit(other).port
    async with running_client(allow_private_addresses=False) as client:
        env_id = (await client.seed(f"{home}/links.html", **VIEWPORT))["env_id"]
        for url, shown in (
            (
                f"http://app.test:{port}/second.html#part",
                f"http://app.test:{port}/second.html#part",
            ),
            (f"{home}/to?to={other}/second.html", f"{other}/second.html"),
        ):
            answer = await client.step(env_id, navigate(url), {"type": "page_text"})
            assert answer["results"][1]["error"] == "page_text: this page cannot be read"
            assert answer["current_url"] == "about:blank"
            assert answer["events"][-1]["type"] == "blocked"
            assert answer["events"][-1]["url"] == shown
        own = await client.seed(f"http://app.test:{port}/second.html", **VIEWPORT)
        assert (own["title"], own["events"]) == ("Second", [])


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("a.localhost.", True),
        ("0.0.0.0", True),
        ("100.100.100.200", True),
        ("169.254.169.254", True),
        ("[::]", True),
        ("[::ffff:808:808]", True),
        ("[fd12::1]", True),
        ("fe80::1%eth0", True),
        ("64:ff9b::a00:1", True),
        ("64:ff9b::808:808", False),
        ("224.0.0.1", True),
        ("[ff02::1]", True),
        ("[2002:7f00:1::]", True),
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("example.com", False),
        ("10.example.com", False),
        ("notlocalhost", False),
    ],
)
def test_private_hosts(host: str, private: bool) -> None:
    assert is_private(host) is private


@given(st.ip_addresses())
def test_any_address_is_private_unless_the_internet_has_it(address: Any) -> None:
    host = str(address) if address.version == 4 else f"[{address}]"
    if not address.is_global or address.is_multicast:
        assert is_private(host)
    assert is_private(host) == is_private(host.strip("[]"))


def _certificate(folder: Path, days: int) -> ssl.SSLContext:
    """Make a self-signed certificate for 127.0.0.1 that ends in `days`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "browser gym test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "server.pem"
    path.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site whose certificate nobody has signed."""
    with serve(create_site(), tls=_certificate(tmp_path_factory.mktemp("tls"), days=10)) as url:
        yield url


async def test_a_certificate_that_is_not_valid_is_named(
    client: Client, site: str, secure: str
) -> None:
    words = "self-signed or from an unknown authority (ERR_CERT_AUTHORITY_INVALID)"
    env_id = (await client.seed(f"{site}/reach.html?to={secure}", **VIEWPORT))["env_id"]
    answer = await client.step(env_id, navigate(f"{secure}/second.html"))
    assert words in answer["error"]
    await client.step(env_id, navigate(f"{site}/reach.html?to={secure}"))
    clicked = await client.step(env_id, {"type": "click", "x": 60, "y": 40})
    assert any(words in event.get("reason", "") for event in clicked["events"])
    body = {"start_url": f"{secure}/second.html"}
    refused = await client.post("/seed_session", body, status=503)
    assert words in refused["failure_reason"]
    assert "ignore_tls_errors" in refused["failure_reason"]


async def test_a_certificate_is_not_looked_at_where_row_or_server_say_so(
    client: Client, new_client: ClientFactory, secure: str
) -> None:
    lax = await new_client(ignore_tls_errors=True)
    assert (await lax.seed(f"{secure}/second.html"))["title"] == "Second"
    metadata: dict[str, Any] = {"start_url": f"{secure}/second.html", "verifier": "local_storage"}
    metadata["assertions"] = [{"title": "any", "only_changed": []}]
    metadata["browser"] = {"ignore_tls_errors": True}
    seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
    client.opened.append(seeded["env_id"])
    assert seeded["title"] == "Second"
    metadata["browser"] = {"ignore_tls_errors": False}
    await lax.post("/seed_session", {"verifier_metadata": metadata}, status=503)
