"""Keeps secrets out of what is shown, stored and logged: those in addresses and those of a task."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "***"
_IN_QUERY = re.compile(
    r"([?&;#][\w.-]{0,60}?(?:token|secret|passw(?:or)?d|api_?key|signature|credentials?|jwt)=)"
    r"[^&#;\s\"'<>]+",
    re.IGNORECASE,
)
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/?#\s@\"'<>]+@", re.IGNORECASE)
# What of a task's `browser` is a secret by its nature; where the fields are, and of what kind.
SECRET_FIELDS = ("headers", "http_credentials", "cookies")


def hide_secrets(text: str) -> str:
    """Return a text without the user names, passwords and tokens of the addresses in it."""
    if "://" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", text)
    return _IN_QUERY.sub(rf"\1{HIDDEN}", text) if "=" in text else text


def without_secrets(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a row's `verifier_metadata` as it may be stored with a rollout.

    Hidden are the values of `browser.headers`, of `browser.cookies` and the password of
    `browser.http_credentials`, and what `hide_secrets` finds in the addresses.
    """
    shown = {k: hide_secrets(v) if k.endswith("_url") else v for k, v in _texts(metadata).items()}
    browser = metadata.get("browser")
    if not isinstance(browser, dict):
        return metadata | shown
    hidden: dict[str, Any] = {}
    if isinstance(headers := browser.get("headers"), dict):
        hidden["headers"] = dict.fromkeys(headers, HIDDEN)
    if isinstance(credentials := browser.get("http_credentials"), dict):
        hidden["http_credentials"] = credentials | {"password": HIDDEN}
    if isinstance(cookies := browser.get("cookies"), list):
        hidden["cookies"] = [c | {"value": HIDDEN} for c in cookies if isinstance(c, dict)]
    return metadata | shown | {"browser": browser | hidden}


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in data.items() if isinstance(value, str)}
