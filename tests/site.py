"""A small web site on loopback with the behaviours tests need."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

PAGES = Path(__file__).parent / "pages"


async def slow(request: Request) -> Response:
    await asyncio.sleep(request.path_params["ms"] / 1000)
    return PlainTextResponse("slow answer")


async def _slow_page(request: Request) -> Response:
    await asyncio.sleep(request.path_params["ms"] / 1000)
    return HTMLResponse("<title>Slow</title><script>localStorage.slow = 'came'</script>slow")


async def _slow_script(request: Request) -> Response:
    await asyncio.sleep(request.path_params["ms"] / 1000)
    return Response("0", media_type="text/javascript")


async def _download(request: Request) -> Response:
    name = request.path_params["name"]
    return Response(
        b"a,b\n1,2\n", headers={"content-disposition": f'attachment; filename="{name}"'}
    )


async def _download_as(request: Request) -> Response:
    name = unquote_to_bytes(request.url.query)
    header = b'attachment; filename="' + name.replace(b"\0", b"%00") + b'"'
    response = Response(b"a,b\n")
    response.raw_headers.append((b"content-disposition", header))
    return response


async def _endless(_: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield bytes(10_000)
            await asyncio.sleep(0.01)

    return StreamingResponse(
        chunks(), headers={"content-disposition": 'attachment; filename="endless.bin"'}
    )


async def _status(request: Request) -> Response:
    status = request.path_params["status"]
    return Response(b"" if status == 204 else b"an error page", status)


async def _auth(request: Request) -> Response:
    expected = "Basic " + base64.b64encode(b"ann:s3cret").decode()
    if request.headers.get("authorization") == expected:
        return HTMLResponse("<title>Welcome</title>")
    return Response("who?", 401, {"www-authenticate": 'Basic realm="test"'})


async def _redirect_often(request: Request) -> Response:
    left = request.path_params["left"]
    return RedirectResponse(f"/redirect/{left - 1}" if left else "/second.html")


async def _never(request: Request) -> Response:
    await request.receive()  # the body, empty
    await request.receive()  # comes only when the client has gone
    return Response()


async def _verifier_api(_: Request) -> Response:
    return PlainTextResponse("the expected state")


def create_site() -> Starlette:
    """Build the site: `tests/pages/` and routes that are slow, redirect, download or never end."""
    return Starlette(
        routes=[
            Route("/slow/{ms:int}", slow, methods=["GET", "POST"]),
            Route("/slow-page/{ms:int}", _slow_page),
            Route("/slow-script/{ms:int}", _slow_script),
            Route("/download/{name}", _download),
            Route("/download-as", _download_as),
            Route("/endless", _endless),
            Route("/never", _never),
            Route("/status/{status:int}", _status),
            Route("/auth", _auth),
            Route("/redirect/-1", lambda _: RedirectResponse("/redirect/-1")),
            Route("/redirect/{left:int}", _redirect_often),
            Route("/redirect", lambda _: RedirectResponse("/second.html")),
            Route(
                "/redirect-to-verifier", lambda _: RedirectResponse("/api/v1/get_expected_state")
            ),
            Route("/api/v1/get_expected_state", _verifier_api),
            Mount("/", StaticFiles(directory=PAGES)),
        ]
    )
