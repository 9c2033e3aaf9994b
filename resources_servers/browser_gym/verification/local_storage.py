"""Grades with the assertions in the task row, on the start origin's localStorage and the answer.

Deterministic, and needs no network.
"""

import asyncio

from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.assertions import (
    Assertion,
    evaluate,
    parse_assertions,
)
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask


class LocalStorageVerifier:
    """Judges a task's own assertions."""

    name = "local_storage"

    def __init__(self, assertions: list[Assertion]) -> None:
        self._assertions = assertions

    @classmethod
    def for_task(cls, task: VerifierMetadata) -> "LocalStorageVerifier":
        """Reads the task's `assertions`; raises `InvalidTask` if there are none or one is wrong."""
        try:
            return cls(parse_assertions(task.assertions))
        except InvalidTask as error:
            raise InvalidTask(f"verifier_metadata.{error}") from error

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judges in a thread, since an app may leave megabytes behind."""
        results = await asyncio.to_thread(
            evaluate,
            self._assertions,
            evidence.initial_storage,
            evidence.final_storage,
            evidence.answer,
        )
        return Verdict.of(results)
