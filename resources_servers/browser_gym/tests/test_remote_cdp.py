"""Remote browsers: those who lend them, with their faults, and the server's sessions on them."""

import asyncio
import json
import logging
import random
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Error
from starlette.responses import JSONResponse, Response

from conftest import RESPONSE, Client, build_server, running_client
from resources_servers.browser_gym.browser import connections, remote_cdp, remote_files
from resources_servers.browser_gym.browser.backend import (
    BrowserError,
    BrowserSpec,
    BrowserUnavailable,
    PoolFull,
)
from resources_servers.browser_gym.browser.remote_cdp import RemoteCdp
from resources_servers.browser_gym.browser.session_providers.choose import session_provider
from resources_servers.browser_gym.browser.session_providers.contract import RemoteSession
from resources_servers.browser_gym.tests.remote_browsers import (
    LendingService,
    RemoteChromium,
    running_chromium,
)
from tests.simulators.http_server import serve
from tests.waiting import eventually

LABELS = {"task_id": "T-1", "episode_id": "e"}
SPEC = BrowserSpec(800, 600, "en-US", "UTC", labels=LABELS)
NOBODY = "ws://user:pass@127.0.0.1:9/devtools?token=s3cret"


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[RemoteChromium]:
    async with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def service() -> LendingService:
    return LendingService()


@pytest.fixture
def rest(service: LendingService, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Options of `rest` for the service; whatever a test did, every session is ended in the end."""
    monkeypatch.setenv("LENDER_KEY", "k3y")
    with serve(service.app()) as url:
        yield {
            "create": {"url": f"{url}/sessions", "body": {"metadata": "{labels}", "n": [1]}},
            "endpoint": "connect.url",
            "delete": {"url": f"{url}/sessions/{{id}}"},
            "headers": {"X-API-Key": "$LENDER_KEY"},
        }


@asynccontextmanager
async def supply(provider: str, options: dict[str, Any], **limits: Any) -> AsyncIterator[RemoteCdp]:
    limits = {"max_sessions": 4, "queue_limit": 4, "queue_timeout_s": 60} | limits
    supply = RemoteCdp(session_provider(provider, options), **limits)
    try:
        await supply.start()
        yield supply
    finally:
        await supply.close()


async def refused(supply: RemoteCdp) -> BrowserError:
    """Return the error that an acquire ends with."""
    with pytest.raises(BrowserError) as raised:
        await supply.acquire(SPEC)
    health = await supply.health()
    assert (health.sessions, health.queued) == (0, 0)
    assert "s3cret" not in str(raised.value)
    assert "k3y" not in str(raised.value)
    return raised.value


# ---- options ----


@pytest.mark.parametrize(
    ("provider", "options", "told"),
    [
        ("nobody", {}, "session_provider: there is no 'nobody'; there are static_cdp, rest"),
        ("static_cdp", {}, "session_provider_options: endpoints: Field required"),
        ("static_cdp", {"endpoints": ["s3cret"]}, "endpoints.0: Value error, is no ws://"),
        ("static_cdp", {"endpoints": [NOBODY], "x": "s3cret"}, "x: Extra inputs"),
        (
            "static_cdp",
            {"endpoints": ["$NO_SUCH_VARIABLE"]},
            "endpoints.0: Value error, the environment variable NO_SUCH_VARIABLE is not set",
        ),
        ("rest", {"endpoint": "url"}, "create: Field required"),
        ("rest", {"create": {"url": "http://x"}, "endpoint": "a["}, "endpoint: Value error, is no"),
    ],
)
def test_wrong_options_are_told_at_the_start(
    provider: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        build_server(
            browsers="remote_cdp", session_provider=provider, session_provider_options=options
        )
    assert told in str(ended.value)
    assert "s3cret" not in str(ended.value)


async def test_a_provider_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: RemoteChromium
) -> None:
    (tmp_path / "lender_of_mine.py").write_text(
        "from resources_servers.browser_gym.browser.session_providers.contract import "
        "RemoteSession\n"
        "class Lender:\n"
        "    def __init__(self, options): self.endpoint, self.ended = options['at'], []\n"
        "    async def acquire(self, labels): return RemoteSession('one', self.endpoint)\n"
        "    async def release(self, session_id, *, broken): self.ended.append(session_id)\n"
        "    async def close(self): assert self.ended == ['one']\n"
    )
    package = tmp_path / "lender_of_mine-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: lender-of-mine\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[browser_gym.session_providers]\nmine = lender_of_mine:Lender\nlost = no_such_module:X\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    async with supply("mine", {"at": chromium.endpoint}) as lent:
        assert (await lent.acquire(SPEC)).session.session_id == "one"
    with pytest.raises(ValueError, match=r"'lost' .* cannot be loaded: No module"):
        session_provider("lost", {})
    with pytest.raises(ValueError, match="there are static_cdp, rest, mine, lost"):
        session_provider("yours", {})


# ---- a service with a REST API ----


async def test_a_full_service_is_asked_again_when_it_says(
    service: LendingService, rest: dict[str, Any]
) -> None:
    service.capacity = 1
    async with supply("rest", rest) as lent:
        first = await lent.acquire(SPEC)
        waiting = asyncio.create_task(lent.acquire(SPEC))

        async def is_queued() -> bool:
            return (await lent.health()).queued == 1

        began = time.monotonic()
        await eventually(is_queued)
        await first.release()
        second = await waiting
        assert second.session.session_id == "s/1"
        assert 3 <= service.asked <= 4 + time.monotonic() - began  # once a second, as it said
    assert service.deleted == ["s/0", "s/1"]
    assert service.metadata == [LABELS] * service.asked
    assert service.keys == {"k3y"}
    async with supply("rest", rest, queue_timeout_s=0.2) as lent:
        service.create_answers = [Response("busy", 429), Response(status_code=429)]
        full = await refused(lent)
        assert isinstance(full, PoolFull)
        assert "answered HTTP 429: busy" in str(full)


async def test_a_service_that_refuses(service: LendingService, rest: dict[str, Any]) -> None:
    useless = {"id": "lost", "connect": "s3cret"}
    async with supply("rest", rest) as lent:
        for answer, told in [
            (Response("see http://x/?key=s3cret", 500), "HTTP 500: see http://x"),
            (Response("<html>"), "options.id looks for (id); the answer has no JSON"),
            (JSONResponse([1]), "the answer has a JSON list"),
            (
                JSONResponse(useless),
                "endpoint looks for (connect.url); the answer has the fields 'id', 'connect'",
            ),
        ]:
            service.create_answers = [answer]
            error = await refused(lent)
            assert isinstance(error, BrowserUnavailable)
            assert error.retry_after_s is None
            assert told in str(error)
        assert service.asked == 4
        assert service.deleted == ["lost"]  # what has a name is ended, though it is of no use
        # Nobody can wait for so long; and nobody asks before.
        service.create_answers = [JSONResponse({}, 503, {"retry-after": "9" * 400})]
        for _ in range(2):
            error = await refused(lent)
            assert (error.fault.kind, error.retry_after_s) == ("provider_unavailable", 86_400)
            lent._queue_timeout_s = 1  # as of one who came a little later
        assert service.asked == 5


async def test_a_service_that_is_back_soon_or_gone(
    service: LendingService, rest: dict[str, Any]
) -> None:
    service.create_answers = [Response(status_code=503, headers={"retry-after": "0"})]
    async with supply("rest", rest) as lent:
        await lent.acquire(SPEC)
        assert service.asked == 2
    rest["create"]["url"] = "http://127.0.0.1:9/sessions?key=s3cret"
    async with supply("rest", rest) as lent:
        error = await refused(lent)
        assert "POST http://127.0.0.1:9 failed: ConnectError" in str(error)


async def test_sessions_that_come_too_late_are_ended(
    service: LendingService, rest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.gate.clear()
    async with supply("rest", rest) as lent:
        acquire = asyncio.create_task(lent.acquire(SPEC))

        async def was_asked() -> bool:
            return service.asked == 1

        await eventually(was_asked)
        acquire.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acquire
        monkeypatch.setattr(remote_cdp, "PROVIDER_TIMEOUT_S", 0.1)
        error = await refused(lent)
        assert "the session provider failed: TimeoutError" in str(error)
        monkeypatch.undo()
        service.gate.set()
    assert sorted(service.deleted) == ["s/0", "s/1"]


async def test_a_session_whose_address_is_none_is_ended() -> None:
    class Odd:
        def __init__(self) -> None:
            self.ended: list[str] = []

        async def acquire(self, labels: Mapping[str, str]) -> RemoteSession:
            return RemoteSession("odd", "ws://[s3cret")

        async def release(self, session_id: str, *, broken: bool) -> None:
            self.ended.append(session_id)

        async def close(self) -> None:
            pass

    odd = Odd()
    lent = RemoteCdp(odd, max_sessions=1, queue_limit=0, queue_timeout_s=60)
    assert "the remote browser odd" in str(await refused(lent))
    await lent.close()
    assert odd.ended == ["odd"] * 3  # each one that was asked for


async def test_failed_ends_are_tried_again_and_named(
    service: LendingService,
    rest: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(remote_cdp, "RELEASE_PAUSE_S", 0.01)
    async with supply("rest", rest, max_sessions=1) as lent:
        service.delete_answers = [Response(status_code=500)]
        await (await lent.acquire(SPEC)).release()
        lease = await lent.acquire(SPEC)  # only now is the slot free
        assert (service.deleted, list(service.running)) == (["s/0", "s/0"], ["s/1"])
        caplog.clear()
        service.delete_answers = [Response(status_code=500)] * 3
        with caplog.at_level(logging.ERROR):
            await lease.release()
            await lent.acquire(SPEC)
        assert [r.message for r in caplog.records] == [
            "remote session s/1 was not ended in 3 tries: end it at its service"
        ]
        assert (await lent.health()).unreleased == 1
        async with httpx.AsyncClient() as other:  # gone already is as good as ended
            await other.delete(rest["delete"]["url"].format(id="s%2F2"))
    assert (await lent.health()).unreleased == 1
    assert service.deleted.count("s/2") == 2


async def test_browsers_that_cannot_be_connected_to(
    service: LendingService, rest: dict[str, Any], chromium: RemoteChromium
) -> None:
    service.dead = True
    async with supply("rest", rest) as lent:
        error = await refused(lent)
        assert "the remote browser s/2 cannot be connected to" in str(error)
    assert sorted(service.deleted) == ["s/0", "s/1", "s/2"]
    async with supply("static_cdp", {"endpoints": [NOBODY]}) as lent:
        assert isinstance(await refused(lent), BrowserUnavailable)
    async with supply("static_cdp", {"endpoints": [NOBODY, chromium.endpoint]}) as lent:
        leases = [await lent.acquire(SPEC) for _ in range(3)]
        assert {lease.connection.host for lease in leases} == {chromium.endpoint.split("/")[2]}


async def test_a_service_that_starts_a_browser_for_each_connection(
    chromium: RemoteChromium,
) -> None:
    options = {"endpoints": [chromium.endpoint], "browser_per_connection": True}
    async with supply("static_cdp", options) as lent:
        one, two = await lent.acquire(SPEC), await lent.acquire(SPEC)
        assert one.connection is not two.connection
        await one.release()
        assert await (await two.context.new_page()).evaluate("1 + 1") == 2
    answers = asyncio.Queue[None]()

    async def full(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answers.put_nowait(None)
        writer.write(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(full, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        options["endpoints"] = [f"ws://127.0.0.1:{port}/?token=s3cret"]
        async with supply("static_cdp", options, queue_timeout_s=1) as lent:
            assert isinstance(await refused(lent), PoolFull)
    assert answers.qsize() == 1


async def test_a_browser_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT_S", 0.5)
    async with running_chromium() as chromium:
        chromium.process.send_signal(signal.SIGSTOP)
        async with supply("static_cdp", {"endpoints": [chromium.endpoint]}) as lent:
            error = await refused(lent)
        assert "cannot be connected to" in str(error)


# ---- sessions of the server ----


@asynccontextmanager
async def client_on(*endpoints: str, **config: Any) -> AsyncIterator[Client]:
    async with running_client(
        browsers="remote_cdp", session_provider_options={"endpoints": endpoints}, **config
    ) as client:
        yield client


async def test_servers_that_share_a_browser_leave_each_others_dialogs(
    chromium: RemoteChromium, site: str
) -> None:
    async with client_on(chromium.endpoint) as one, client_on(chromium.endpoint) as other:
        await other.seed(f"{site}/links.html")
        env_id = (await one.seed(f"{site}/links.html"))["env_id"]
        await one.step(env_id, {"type": "click", "x": 100, "y": 160})
        dump = json.loads((await one.storage(env_id))["local_storage_dump"])
        assert dump["confirmed"] == "true"


async def test_an_episode_on_a_remote_browser(site: str) -> None:
    metadata = {
        "task_id": "T",
        "start_url": f"{site}/links.html",
        "verifier": "local_storage",
        "assertions": [{"title": "confirmed", "query": "confirmed", "equals": True}],
        "browser": {"clock": "step", "cookies": [{"name": "a", "value": "1", "url": site}]},
    }
    async with running_chromium() as chromium, client_on(chromium.http_endpoint) as client:
        health = (await client.http.get("/health")).json()
        assert (health["chromium"], health["rss_mb"]) == ("version not known yet (remote)", None)
        seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
        env_id = seeded["env_id"]
        seen = await client.step(env_id, {"type": "click", "x": 100, "y": 160})
        assert seen["events"][0]["type"] == "dialog"
        assert seen["screenshot"]
        health = (await client.http.get("/health")).json()
        assert (health["status"], health["sessions"]) == ("ok", 1)
        assert health["browsers"][0]["host"] == chromium.endpoint.split("/")[2]
        row = {"responses_create_params": {"input": []}, "response": RESPONSE, "env_id": env_id}
        graded = await client.post("/verify", row | {"verifier_metadata": metadata})
        assert (graded["reward"], graded["final_url"]) == (1, f"{site}/links.html")
        closed = await client.post("/close", {"env_id": env_id})
        assert (closed["success"], await client.sessions()) == (False, 0)
        # The browser goes away: its sessions are lost, and then there is none.
        env_id = (await client.seed(f"{site}/links.html"))["env_id"]
        chromium.kill()
        step = {"env_id": env_id, "actions": [{"type": "screenshot"}]}
        lost = await client.post("/step", step, status=410)
        assert lost["failure_kind"] == "session_lost"
        none = await client.post("/seed_session", {"start_url": site}, status=503)
        assert none["failure_kind"] == "provider_unavailable"


def _can_hide_files() -> bool:
    try:
        return subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
    except OSError:
        return False


ANOTHER_TMP = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh")
needs_another_tmp = pytest.mark.skipif(
    not _can_hide_files(), reason="needs root on Linux to have another /tmp"
)


@needs_another_tmp
@pytest.mark.parametrize("size", [0, 2_000, 2_500])
async def test_files_of_any_size_are_copied(
    another_machine: RemoteChromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(remote_files, "_CHUNK_BYTES", 1_000)
    content = random.Random(size).randbytes(size)
    (tmp_path / "a file.bin").write_bytes(content)
    async with supply("static_cdp", {"endpoints": [another_machine.endpoint]}) as lent:
        files = (await lent.acquire(SPEC)).remote_files
        [there] = await files.place([tmp_path / "a file.bin"])
        await asyncio.to_thread(Path(there).parent.mkdir)
        try:
            await files.fetch(Path(there))
            assert await asyncio.to_thread(Path(there).read_bytes) == content
        finally:
            await asyncio.to_thread(shutil.rmtree, Path(there).parent)
        with pytest.raises(Error, match="cannot be read on the remote browser's machine"):
            await files.fetch(Path("/tmp/no-such-file"))


@pytest.fixture(scope="module")
async def another_machine() -> AsyncIterator[RemoteChromium]:
    async with running_chromium(*ANOTHER_TMP) as chromium:
        yield chromium


@needs_another_tmp
@pytest.mark.usefixtures("time_for_downloads")
async def test_files_of_a_browser_on_another_machine(
    another_machine: RemoteChromium, site: str
) -> None:
    files = {"notes.txt": {"text": "Grüße"}, "empty.txt": {"text": ""}}
    metadata = {
        "task_id": "T",
        "start_url": f"{site}/uploads.html",
        "verifier": "local_storage",
        "assertions": [{"title": "t", "only_changed": []}],
        "browser": {"files": files},
    }
    async with client_on(another_machine.endpoint) as client:
        seeded = await client.post("/seed_session", {"verifier_metadata": metadata})
        env_id = seeded["env_id"]
        download = {"type": "navigate", "url": f"{site}/download/report.csv"}
        [told] = (await client.step(env_id, download))["events"]
        assert (told["type"], told["filename"], told["bytes"]) == ("download", "report.csv", 8)
        several = ["notes.txt", "empty.txt", "report.csv"]
        held = {"notes.txt": "Grüße", "empty.txt": "", "report.csv": "a,b\n1,2\n"}
        for action, key, stored in [
            ({"type": "set_value", "x": 100, "y": 100, "value": several}, "several", held),
            ({"type": "set_value", "x": 100, "y": 220, "value": several}, "zone", held),
        ]:
            answer = await client.step(env_id, action)
            assert (answer["error"], answer["title"]) == (None, f"{key} 3")
            assert await _stored_files(client, env_id, key) == stored
        await client.step(env_id, {"type": "click", "x": 100, "y": 40})
        await client.step(env_id, {"type": "type", "text": "report.csv"})
        assert await _stored_files(client, env_id, "one") == {"report.csv": held["report.csv"]}


async def _stored_files(client: Client, env_id: str, key: str) -> dict[str, str]:
    items = json.loads((await client.storage(env_id))["local_storage_dump"])
    return json.loads(items[key])["files"]
