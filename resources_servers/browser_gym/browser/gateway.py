"""The one way out of a context: a SOCKS5 proxy on loopback that asks its owner about each host.

Chromium hands it host names unresolved, for every request of every document, worker and web
socket, redirects included. The name is resolved here, once, and the connection goes to an address
that was checked, so that a name which has another address a moment later (DNS rebinding) leads
nowhere else. Bytes are passed on as they are; nothing in them is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from playwright.async_api import Browser, BrowserContext

from resources_servers.browser_gym.browser.addresses import Place, is_private, place_of, written
from resources_servers.browser_gym.browser.driver import is_usable

CONNECT_TIMEOUT_S = 30
_ASKING_TIMEOUT_S = 30
_MAX_REMEMBERED = 1_000
# A name server may be slow. No page should hold up others by it, nor what else runs in threads.
_MAX_LOOKUPS, _MAX_LOOKUPS_OF_A_CONTEXT = 64, 8
_lookups = ThreadPoolExecutor(_MAX_LOOKUPS, "resolve")
_HOST = re.compile(r"[!-~]+")
HTTP_PORT = 80
_CHUNK_BYTES = 64 * 1024
_VERSION = 5
_NO_PASSWORD = 0
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REFUSED, _UNREACHABLE, _UNKNOWN_COMMAND = 2, 4, 7

Decide = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes host and port, and returns the addresses that may be connected to; none if the name has no
known one. Raises PermissionError, which says why, if the place may not be reached."""


class Gateway:
    """The way out of one browser context; refuses everything until `decide` is set."""

    def __init__(self) -> None:
        """Prepare; `open` makes one."""
        self.decide: Decide | None = None
        self.port = 0
        self.refusals: dict[Place, str] = {}
        """Why places were refused when they were last asked for."""
        self._errors: dict[Place, str] = {}
        self._asking = asyncio.Semaphore(_MAX_LOOKUPS_OF_A_CONTEXT)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls) -> Gateway:
        """Listen on a free loopback port; call `close` when the context is gone.

        Raises:
            OSError: there is no port to be had.
        """
        gateway = cls()
        gateway._server = await asyncio.start_server(gateway._serve, "127.0.0.1", 0)
        gateway.port = gateway._server.sockets[0].getsockname()[1]
        return gateway

    def close(self) -> None:
        """Listen no more and cut what is connected; safe to call again."""
        if self._server:
            self._server.close()
        for connection in self._connections:
            connection.cancel()

    def refusal_of(self, url: str) -> str | None:
        """Return why the place of a URL was refused, if it was."""
        return self.refusals.get(place_of(url))

    def explained(self, url: str, reason: str) -> str:
        """Return a request's failure in Chromium's words, which knows only of the gateway's no."""
        if "ERR_SOCKS" not in reason:
            return reason
        place = place_of(url)
        return self.refusals.get(place) or self._errors.get(place) or reason

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, EOFError, ValueError):
            pass  # one end has gone, or speaks something else
        finally:
            self._connections.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_ASKING_TIMEOUT_S):
            host, port = await _read_request(reader, writer)
        try:
            there_reader, there = await self._connect(host, port)
        except PermissionError:
            _answer(writer, _REFUSED)
            return
        except (OSError, EOFError):
            _answer(writer, _UNREACHABLE)
            return
        try:
            _answer(writer, 0)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there))
                both.create_task(_pump(there_reader, writer))
        except* OSError:
            pass  # cut by either end
        finally:
            there.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a place and remember why that failed, if it did.

        Raises:
            PermissionError: it may not be reached.
            OSError: it cannot be.
            EOFError: the upstream proxy hung up.
        """
        place = (host, port)
        self.refusals.pop(place, None)
        self._errors.pop(place, None)
        try:
            if self.decide is None:
                raise PermissionError("nobody uses this context yet")
            async with self._asking:
                addresses = await self.decide(host, port)
        except PermissionError as error:
            _remember(self.refusals, place, str(error))
            raise
        error_name = "net::ERR_NAME_NOT_RESOLVED"
        if proxy := upstream_proxy(host, port, addresses):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await _connect_through(proxy, host, port)
            except (OSError, EOFError):
                _remember(self._errors, place, "net::ERR_TUNNEL_CONNECTION_FAILED")
                raise
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(address, port)
            except ConnectionRefusedError:
                error_name = "net::ERR_CONNECTION_REFUSED"
            except TimeoutError:
                error_name = "net::ERR_CONNECTION_TIMED_OUT"
            except OSError:
                error_name = "net::ERR_ADDRESS_UNREACHABLE"
        _remember(self._errors, place, error_name)
        raise ConnectionError(error_name)


class Gateways:
    """Opens contexts whose spec asks for a gateway, and closes it with them."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._of: dict[BrowserContext, Gateway] = {}

    async def open_context(
        self, browser: Browser, options: dict[str, Any], direct: Sequence[str] | None
    ) -> BrowserContext:
        """Open a context.

        Args:
            browser: where.
            options: the keyword arguments of Playwright's `new_context`.
            direct: `host:port` of what is reached without a gateway; None for everything.

        Raises:
            playwright.async_api.Error: the browser is gone.
            OSError: there is no port to be had.
        """
        self.close_lost()
        if direct is None:
            return await browser.new_context(**options)
        gateway = await Gateway.open()
        try:
            context = await browser.new_context(
                **options,
                proxy={
                    "server": f"socks5://127.0.0.1:{gateway.port}",
                    # Chromium would reach loopback directly by itself.
                    "bypass": ",".join(["<-loopback>", *direct]),
                },
            )
        except BaseException:
            gateway.close()
            raise
        self._of[context] = gateway
        context.on("close", self._close)
        return context

    def of(self, context: BrowserContext) -> Gateway | None:
        """Return the gateway of a context, if it has one."""
        return self._of.get(context)

    def close_lost(self) -> None:
        """Close those of contexts whose driver died: nobody is told that such a context closed."""
        for context in list(self._of):
            if context.browser is None or not is_usable(context.browser):
                self._close(context)

    def close(self) -> None:
        """Close all that are left."""
        for context in list(self._of):
            self._close(context)

    def _close(self, context: BrowserContext) -> None:
        if gateway := self._of.pop(context, None):
            gateway.close()


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses, in the order in which to try them; none if it has no known one."""
    try:
        found = await asyncio.get_running_loop().run_in_executor(
            _lookups, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def upstream_proxy(host: str, port: int, addresses: Sequence[str]) -> SplitResult | None:
    """Return the proxy that the environment (`https_proxy`, `no_proxy` …) names for a place.

    None for private addresses: those that a task may reach are not behind a proxy.
    """
    proxies = getproxies()
    url = proxies.get("http" if port == HTTP_PORT else "https") or proxies.get("all")
    if not url or proxy_bypass(host) or any(map(is_private, addresses)):
        return None
    return urlsplit(url if "//" in url else f"http://{url}")


async def _connect_through(
    proxy: SplitResult, host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect through an HTTP proxy; raises OSError or EOFError if it does not."""
    secure = proxy.scheme == "https"
    reader, writer = await asyncio.open_connection(
        proxy.hostname, proxy.port or (443 if secure else HTTP_PORT), ssl=secure or None
    )
    try:
        place = written((host, port))
        head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"
        if proxy.username:
            user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            head += f"Proxy-Authorization: Basic {b64encode(user.encode()).decode()}\r\n"
        writer.write(f"{head}\r\n".encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError as error:
            raise ConnectionError("the proxy's answer has no end") from error
        if not re.match(rb"HTTP/1\.\d 2\d\d", answer):
            raise ConnectionError("the proxy refuses")
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, int]:
    version, methods = await reader.readexactly(2)
    if version != _VERSION:
        raise ValueError("not SOCKS5")
    await reader.readexactly(methods)
    writer.write(bytes([_VERSION, _NO_PASSWORD]))
    _, command, _, kind = await reader.readexactly(4)
    if kind == _NAME:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    elif kind == _IPV4:
        host = socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
    elif kind == _IPV6:
        host = socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))
    else:
        raise ValueError("no such kind of address")
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    if command != _CONNECT:
        _answer(writer, _UNKNOWN_COMMAND)
        raise ValueError("only connections are passed on")
    if not _HOST.fullmatch(host):
        raise ValueError("no host")  # it may become a part of a proxy's request
    return host.strip("[]").lower(), port


def _remember(texts: dict[Place, str], place: Place, text: str) -> None:
    texts[place] = text
    if len(texts) > _MAX_REMEMBERED:
        texts.pop(next(iter(texts)))


def _answer(writer: asyncio.StreamWriter, code: int) -> None:
    writer.write(bytes([_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0]))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one end stops sending."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError, NotImplementedError):
        if writer.can_write_eof():
            writer.write_eof()
