"""Serves the unpacked apps and the host pages of this folder on one loopback origin."""

from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tests.apps.packages import HERE, load_packages

_AT_ROOT = "gentelella"
"""The one app that asks for its parts at absolute paths."""


def create_apps_site() -> Starlette:
    """Builds the site: each package below its name, our host pages below `/hosts`.

    The packages must be unpacked, see `packages.fetch`.
    """
    hosts = HERE / "hosts"
    routes: list[BaseRoute] = [
        Mount("/hosts", StaticFiles(directory=hosts)),
        # JupyterLab's settings: keep files in localStorage.
        Route(
            "/jupyterlite-core/jupyter-lite.json",
            lambda _: FileResponse(hosts / "jupyter-lite.json"),
        ),
    ]
    # The one at the root comes last: a mount takes all that is below it.
    for package in sorted(load_packages(), key=lambda package: package.name == _AT_ROOT):
        path = "/" if package.name == _AT_ROOT else f"/{package.name}"
        routes.append(Mount(path, StaticFiles(directory=package.folder, html=True)))
    return Starlette(routes=routes)
