"""Read-only routes for people who watch: the open sessions, and what each one showed last.

They ask no browser for anything and put no expiry off. They tell what pages show and what models
type, so they want the server's token. Without one they answer this machine only, and no page: a
page that a session opens could otherwise look into the others.
"""

from __future__ import annotations

import base64
import ipaddress
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from resources_servers.browser_gym.actions import Action
from resources_servers.browser_gym.browser.capture import shown_text
from resources_servers.browser_gym.contract import RunningSession, SessionsResponse
from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.session import Session

HEADER = "x-browser-gym-watch"
"""A request without a token must have it: no link leads to one that has, and no form."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_MOST_ACTIONS = 8
_MOST_ITEMS = 16
_LONGEST_TEXT = 200
_REFUSAL = (
    "without an auth_token of the server, sessions are shown only on its own machine, at "
    f"http://127.0.0.1:…, and to requests with the header {HEADER}"
)


def add_routes(app: FastAPI, running: Callable[[], Sequence[Session]], *, token: bool) -> None:
    """Add `GET /sessions` and `GET /sessions/screenshot`.

    Args:
        app: of the resources server.
        running: returns the open sessions.
        token: whether every request has been asked for a token.
    """

    async def sessions(request: Request) -> Response:
        """Tell the open sessions, and what each one does."""
        if not token and not _is_local(request):
            return _refused()
        now = time.monotonic()
        told = SessionsResponse(sessions=[_told(each, now) for each in running()])
        return _unstored(JSONResponse(told.model_dump()))

    async def screenshot(request: Request, env_id: str) -> Response:
        """Return the picture of what a session showed last; none is taken."""
        if not token and not _is_local(request):
            return _refused()
        shown = next((each.shown for each in running() if each.session_id == env_id), None)
        if shown is None or shown.image is None:
            raise HTTPException(404, "no such session, or its last step gave no picture")
        picture = base64.b64decode(shown.image.data)
        return _unstored(Response(picture, media_type=shown.image.media_type))

    app.get("/sessions", response_model=SessionsResponse)(sessions)
    app.get("/sessions/screenshot")(screenshot)


def _told(session: Session, now: float) -> RunningSession:
    shown = session.shown
    return RunningSession(
        env_id=session.session_id,
        task_id=shown_text(session.labels.get("task_id", "")),
        episode_id=shown_text(session.labels.get("episode_id", "")),
        state="acting" if session.in_flight else "finished" if session.finishing else "waiting",
        age_s=round(now - session.opened, 1),
        since_request_s=round(now - session.last_used, 1),
        steps=session.steps,
        actions=[_cut(_fields(action)) for action in session.batch[:_MOST_ACTIONS]],
        actions_left_out=max(len(session.batch) - _MOST_ACTIONS, 0),
        url=shown.url if shown else "",
        title=shown.title if shown else "",
        tabs=len(shown.tabs) if shown else 0,
        picture=bool(shown and shown.image),
        viewport_width=session.width,
        viewport_height=session.height,
    )


def _fields(action: Action) -> dict[str, Any]:
    return {"type": action.type} | action.model_dump(exclude_defaults=True)


def _cut(value: Any) -> Any:
    """Return a value of an action, not longer than people read."""
    if isinstance(value, dict):
        return {key: _cut(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_cut(part) for part in value[:_MOST_ITEMS]]
    if isinstance(value, str):
        text = shown_text(value)
        return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"
    return value


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, by a name that no other site can have."""
    if HEADER not in request.headers or request.url.hostname not in _LOOPBACK_NAMES:
        return False
    try:
        return bool(request.client and ipaddress.ip_address(request.client.host).is_loopback)
    except ValueError:
        return False


def _refused() -> Response:
    kind = Fault.WRONG_TOKEN.kind
    return JSONResponse({"failure_kind": kind, "failure_reason": _REFUSAL}, status_code=403)


def _unstored(response: Response) -> Response:
    response.headers["cache-control"] = "no-store"
    response.headers["x-content-type-options"] = "nosniff"
    return response
