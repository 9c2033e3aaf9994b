"""Choosing a session provider by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from resources_servers.browser_gym.browser.session_providers.contract import SessionProvider
from resources_servers.browser_gym.browser.session_providers.rest import Rest
from resources_servers.browser_gym.browser.session_providers.static_cdp import StaticCdp

ENTRY_POINT_GROUP = "browser_gym.session_providers"

_BUILT_IN: dict[str, Callable[[Any], SessionProvider]] = {"static_cdp": StaticCdp, "rest": Rest}


def session_provider(name: str, options: dict[str, Any]) -> SessionProvider:
    """Return the provider of a name: built in, or from an installed package's entry point.

    Raises:
        ValueError: there is no such provider (the text lists those there are), it cannot be
            loaded, or an option is wrong.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name](options)
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in installed:
        names = ", ".join([*_BUILT_IN, *installed])
        raise ValueError(f"session_provider: there is no {name!r}; there are {names}")
    try:
        make = installed[name].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"session_provider: {name!r} ({installed[name].value}) cannot be loaded: {error}"
        ) from error
    return make(options)
