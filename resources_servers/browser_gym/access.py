"""Who may ask the resources server: an optional bearer token for every route but `/health`."""

from __future__ import annotations

import hmac
import os

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from resources_servers.browser_gym.faults import Fault

TOKEN_VARIABLE = "BROWSER_GYM_AUTH_TOKEN"
_OPEN_PATH = "/health"  # for what watches over servers; it tells numbers only


def auth_token(configured: SecretStr | None) -> str | None:
    """Return the token to ask for or to send: the configured one, else the environment's."""
    token = configured.get_secret_value() if configured else os.environ.get(TOKEN_VARIABLE, "")
    return token.strip() or None


def auth_headers(token: str | None) -> dict[str, str]:
    """Return the headers that a request with this token has."""
    return {"authorization": f"Bearer {token}"} if token else {}


class BearerToken:
    """ASGI middleware: requests without the token are answered with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Wrap `app`."""
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and scope["path"] != _OPEN_PATH:
            scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
            # As long for a wrong token as for one that is nearly right.
            right = hmac.compare_digest(given.strip().encode("latin-1"), self._expected)
            if scheme.lower() != "bearer" or not right:
                await _REFUSAL(scope, receive, send)
                return
        await self._app(scope, receive, send)


_REFUSAL = JSONResponse(
    {
        "failure_kind": Fault.WRONG_TOKEN.kind,
        "failure_reason": "this server asks for a token: send 'Authorization: Bearer …' with its "
        f"auth_token (in env.yaml: browser_gym_auth_token, or {TOKEN_VARIABLE})",
    },
    status_code=Fault.WRONG_TOKEN.status,
    headers={"www-authenticate": "Bearer"},
)
