"""Verifiers that judge a task's own assertions. They are deterministic and need no network.

They differ in what their assertions may look at: `local_storage` at the start origin's
localStorage and the answer, `page_state` at the active tab and the answer, `answer` at the answer
alone.
"""

import asyncio
from typing import ClassVar, Self

from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.assertions import (
    ANSWER,
    PAGE,
    STORAGE,
    Assertion,
    CheckKind,
    evaluate,
    parse_assertions,
)
from resources_servers.browser_gym.verification.checks import State
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask
from resources_servers.browser_gym.verification.page_checks import keep_for


class AssertionVerifier:
    """Judges a task's own assertions, of the kinds that a subclass allows."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[CheckKind, ...]]

    def __init__(self, assertions: list[Assertion]) -> None:
        self._assertions = assertions

    @classmethod
    def for_task(cls, task: VerifierMetadata) -> Self:
        """Reads the task's `assertions`; raises `InvalidTask` if there are none or one is wrong."""
        try:
            return cls(parse_assertions(task.assertions, cls.kinds))
        except InvalidTask as error:
            raise InvalidTask(f"verifier_metadata.{error}") from error

    @property
    def keep(self) -> Keep:
        """What the checks look at."""
        keep = KEEP_NOTHING
        for assertion in self._assertions:
            keep |= keep_for(assertion.check)
        return keep

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judges in a thread, since an app may leave megabytes behind."""
        state = State(
            evidence.initial_storage, evidence.final_storage, evidence.answer, evidence.page
        )
        return Verdict.of(await asyncio.to_thread(evaluate, self._assertions, state))


class LocalStorageVerifier(AssertionVerifier):
    """Judges the start origin's localStorage and the answer."""

    name = "local_storage"
    kinds = (STORAGE, ANSWER)


class PageStateVerifier(AssertionVerifier):
    """Judges the active tab before it is left, and the answer."""

    name = "page_state"
    kinds = (PAGE, ANSWER)


class AnswerVerifier(AssertionVerifier):
    """Judges the answer."""

    name = "answer"
    kinds = (ANSWER,)
