"""One seed for all repeats of a task, so that a group starts from the same page."""

from __future__ import annotations

import hashlib
from typing import Any


def with_group_seed(metadata: dict[str, Any], group_seed: int, task: Any) -> dict[str, Any]:
    """Return a row's `verifier_metadata` with a `browser.random_seed` of its task.

    It follows from `group_seed` and the task alone. A row's own seed stays.

    Args:
        metadata: of the row; what is wrong in it is left for the resources server to name.
        group_seed: of the configuration.
        task: what tells the tasks of a run apart; None if nothing does, which gives no seed.
    """
    browser = metadata.get("browser")
    browser = {} if browser is None else browser
    if task is None or not isinstance(browser, dict) or browser.get("random_seed") is not None:
        return metadata
    digest = hashlib.sha256(f"{group_seed}/{task}".encode()).digest()
    return metadata | {"browser": browser | {"random_seed": int.from_bytes(digest[:4])}}
