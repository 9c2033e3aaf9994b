"""The pages that are measured, on loopback."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tests.site import slow


def create_site() -> Starlette:
    """Build the site: `benchmarks/pages/` and a route that answers after some ms."""
    pages = StaticFiles(directory=Path(__file__).parent / "pages")
    return Starlette(routes=[Route("/slow/{ms:int}", slow), Mount("/", pages)])
