"""Families of open-weight models, one module each; adding a family is adding a file."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from responses_api_agents.browser_agent.policies.base import Policy


@functools.cache
def policies() -> dict[str, Policy]:
    """Return every policy by name: those in the `POLICIES` of this folder's modules."""
    found: dict[str, Policy] = {}
    for module in pkgutil.iter_modules(__path__):
        family = importlib.import_module(f"{__name__}.{module.name}")
        found |= {policy.name: policy for policy in getattr(family, "POLICIES", ())}
    return found
