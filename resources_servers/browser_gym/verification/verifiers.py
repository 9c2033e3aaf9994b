"""The verifiers a task row can name.

To add one: write a module with a class that satisfies `Verifier` (see `contract.py`) and has a
`for_task` that reads what it needs from the row and raises `InvalidTask` if it is not there; then
name it in `Verifiers.__init__`. If it needs more of the session than `Evidence` holds, add a field
there.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.assertion_verifiers import (
    AnswerVerifier,
    LocalStorageVerifier,
    PageStateVerifier,
)
from resources_servers.browser_gym.verification.combined import AllOf, AnyOf
from resources_servers.browser_gym.verification.contract import Verifier
from resources_servers.browser_gym.verification.errors import InvalidTask
from resources_servers.browser_gym.verification.gym_api import CategoryLookup, GymApiVerifier
from resources_servers.browser_gym.verification.gym_client import GymClient
from resources_servers.browser_gym.verification.judge import Judge, JudgeVerifier


class Verifiers:
    """Finds the verifier of a task, and owns what verifiers share.

    Args:
        verify_timeout_s: How long asking a web gym for a verdict may take, retries included.
        judge: Whom `judge` asks; None if there is nobody, which makes its rows unusable.
    """

    def __init__(self, verify_timeout_s: float = 300.0, judge: Judge | None = None) -> None:
        self._gym_client = GymClient(timeout_s=verify_timeout_s)
        gym = {"client": self._gym_client, "categories": CategoryLookup(self._gym_client)}
        self._by_name: dict[str, Callable[[VerifierMetadata], Verifier]] = {
            "local_storage": LocalStorageVerifier.for_task,
            "gym_api": partial(GymApiVerifier.for_task, **gym),
            "page_state": PageStateVerifier.for_task,
            "answer": AnswerVerifier.for_task,
            "judge": partial(JudgeVerifier.for_task, judge=judge),
            "all_of": partial(AllOf.for_task, parse_part=self.parse_verifier),
            "any_of": partial(AnyOf.for_task, parse_part=self.parse_verifier),
        }

    def parse_verifier(self, verifier_metadata: dict[str, Any]) -> Verifier:
        """Returns the verifier a task row asks for; called when a session starts.

        A row that names none, but has a `gym_url` and a `task_id`, is graded by its gym.

        Raises:
            InvalidTask: It names none or an unknown one, or lacks what the verifier needs.
        """
        task = VerifierMetadata.parse(verifier_metadata)
        name = task.verifier
        if name is None and task.gym_url and task.task_id:
            name = GymApiVerifier.name
        choices = ", ".join(self._by_name)
        if name is None:
            raise InvalidTask(f"verifier_metadata.verifier: missing; give one of {choices}")
        if name not in self._by_name:
            raise InvalidTask(f"verifier_metadata.verifier: unknown {name!r}; one of {choices}")
        return self._by_name[name](task)

    async def aclose(self) -> None:
        """Closes the connections to web gyms."""
        await self._gym_client.aclose()
