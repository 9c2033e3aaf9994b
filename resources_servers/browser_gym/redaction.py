"""Keeps secrets out of what is shown, stored and logged: those in addresses and those of a task."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "***"
# Also those of an address in the query of another.
_IN_QUERY = re.compile(
    r"((?:[?&;#]|%(?:25)*(?:3f|26|3b|23))[\w.%\[-]{0,60}?"
    r"(?:token|secret|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key"
    r"|signature|sig|credentials?|jwt)(?:\]|%(?:25)*5d)?(?:=|%(?:25)*3d))"
    r"[^&#\s\"'<>]+",
    re.IGNORECASE,
)
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/?#\s\"'<>]+@", re.IGNORECASE)
# What of a task's `browser` is a secret by its nature; where the fields are, and of what kind.
SECRET_FIELDS = ("headers", "http_credentials", "cookies")


def hide_secrets(text: str) -> str:
    """Return a text without the user names, passwords and tokens of the addresses in it."""
    if "://" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", text)
    return _IN_QUERY.sub(rf"\1{HIDDEN}", text) if "=" in text or "%" in text else text


def without_secrets(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a row's `verifier_metadata` as it may be stored with a rollout.

    Hidden are the values of `browser.headers`, of `browser.cookies` and the password of
    `browser.http_credentials`, and what `hide_secrets` finds in the addresses, those of the parts
    of a combined verifier among them.
    """
    shown = {key: _without_secrets(key, value) for key, value in metadata.items()}
    browser = metadata.get("browser")
    if not isinstance(browser, dict):
        return shown
    hidden: dict[str, Any] = {}
    if isinstance(headers := browser.get("headers"), dict):
        hidden["headers"] = dict.fromkeys(headers, HIDDEN)
    if isinstance(credentials := browser.get("http_credentials"), dict):
        hidden["http_credentials"] = credentials | {"password": HIDDEN}
    if isinstance(cookies := browser.get("cookies"), list):
        hidden["cookies"] = [c | {"value": HIDDEN} for c in cookies if isinstance(c, dict)]
    return shown | {"browser": browser | hidden}


def _without_secrets(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return hide_secrets(value) if key.endswith("_url") else value
    if key == "verifiers" and isinstance(value, list):
        return [without_secrets(part) if isinstance(part, dict) else part for part in value]
    return value
