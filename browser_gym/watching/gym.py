"""Asks a resources server what its sessions do."""

from __future__ import annotations

from typing import Any

import httpx

from browser_gym.viewer.actions import describe

_TIMEOUT_S = 10.0
_HEADER = "x-browser-gym-watch"
PICTURES = frozenset({"image/jpeg", "image/png", "image/webp"})

Json = dict[str, Any]


class Unanswered(Exception):
    """The server does not tell; the message says why, and what to do."""


class Gym:
    """A resources server. Its token goes nowhere else."""

    def __init__(self, url: str, token: str | None) -> None:
        """Say whom to ask.

        Args:
            url: http(s) address, as `gym env start` prints it.
            token: the server's `auth_token`, if it has one.

        Raises:
            Unanswered: it is no such address.
        """
        self.url = url.rstrip("/")
        headers = {_HEADER: "1"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        try:
            asked = httpx.URL(self.url)
            if asked.scheme not in ("http", "https") or not asked.host or asked.userinfo:
                raise ValueError
            # A proxy of the environment is for the internet, and would see the token.
            self._http = httpx.Client(
                base_url=asked, headers=headers, timeout=_TIMEOUT_S, trust_env=False
            )
        except (ValueError, httpx.InvalidURL, UnicodeEncodeError):
            raise Unanswered(
                f"{url}: is no address of a server; give one such as http://127.0.0.1:12345"
            ) from None

    def look(self) -> Json:
        """Return the server's `/health`, and its sessions with what they do in words.

        Raises:
            Unanswered: it does not tell.
        """
        health, listed = self._json("/health"), self._json("/sessions").get("sessions")
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise Unanswered(self._no_gym())
        return {"health": health, "sessions": [each | {"doing": doing(each)} for each in listed]}

    def picture(self, env_id: str) -> tuple[bytes, str] | None:
        """Return what a session showed last, and its media type; None if there is none.

        Raises:
            Unanswered: the server does not tell.
        """
        answer = self._get("/sessions/screenshot", {"env_id": env_id})
        media_type = answer.headers.get("content-type", "")
        if answer.status_code == 404 or media_type not in PICTURES:
            return None
        return answer.content, media_type

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _json(self, path: str) -> Json:
        answer = self._get(path)
        try:
            told = answer.json()
        except ValueError:
            told = None
        if answer.status_code != 200 or not isinstance(told, dict):
            raise Unanswered(self._no_gym())
        return told

    def _get(self, path: str, params: dict[str, str] | None = None) -> httpx.Response:
        try:
            answer = self._http.get(path, params=params)
        except httpx.TimeoutException:
            raise Unanswered(f"{self.url}: does not answer within {_TIMEOUT_S:g} s") from None
        except httpx.HTTPError as error:
            raise Unanswered(
                f"{self.url}: cannot be reached ({error}); gym env status prints the port of "
                "browser_gym"
            ) from None
        if answer.status_code == 401:
            raise Unanswered(
                f"{self.url}: asks for a token, and this is not it; put its auth_token into an "
                "environment variable and name that with --token-env"
            )
        if answer.status_code == 403:
            raise Unanswered(
                f"{self.url}: has no auth_token, and shows its sessions on its own machine only, "
                "at http://127.0.0.1:…; give it one, or watch there"
            )
        return answer

    def _no_gym(self) -> str:
        return (
            f"{self.url}: tells no sessions; is it the port of browser_gym, and as new as this "
            "command?"
        )


def doing(session: Json) -> list[str]:
    """Return a session's actions, each in words."""
    actions = session.get("actions")
    known = actions if isinstance(actions, list) else []
    words = [describe(each) for each in known if isinstance(each, dict)]
    more = session.get("actions_left_out")
    return [*words, f"and {more} more"] if more else words
