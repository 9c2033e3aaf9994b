"""Why a rollout is not exported."""

from __future__ import annotations


class LeftOut(Exception):
    """A rollout gives no samples.

    Attributes:
        reason: the same words for all rollouts left out for it, as they are counted.
        detail: what is so in this one; may be empty.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
