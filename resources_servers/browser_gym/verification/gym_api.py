"""Grades by asking the web gym that serves the task; it judges the storage and the answer."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.assertions import shown_value
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.gym_client import GymClient

logger = logging.getLogger(__name__)

CATEGORIES_KEPT_S = 600.0
CATEGORIES_RETRY_S = 60.0
"""How long a gym whose categories could not be had is not asked again."""
CATEGORIES_TIMEOUT_S = 10.0


class CategoryLookup:
    """Knows the category of each assertion title of a gym, as far as the gym tells.

    Verdicts may lack categories, which only the task list has. They are for reports alone, so
    nothing here fails or holds up a verdict for long: no lock is held while a gym is asked, and one
    that does not answer is left alone for a while.
    """

    def __init__(self, client: GymClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[float, dict[str, str]]] = {}

    async def of_gym(self, gym_url: str) -> dict[str, str]:
        """Returns {title: category}; {} if the gym does not tell."""
        until, categories = self._known.get(gym_url, (0.0, {}))
        if self._clock() < until:
            return categories
        kept_s = CATEGORIES_KEPT_S
        try:
            async with asyncio.timeout(CATEGORIES_TIMEOUT_S):
                categories = categories_by_title(await self._client.fetch_tasks(gym_url))
        except (VerifierError, TimeoutError) as error:
            logger.warning("no categories from %s: %s", gym_url, error or "it took too long")
            kept_s = CATEGORIES_RETRY_S
        self._known[gym_url] = (self._clock() + kept_s, categories)
        return categories


class GymApiVerifier:
    """Asks a gym for the verdict on one of its tasks."""

    name = "gym_api"

    def __init__(
        self, gym_url: str, task_id: str, client: GymClient, categories: CategoryLookup
    ) -> None:
        self._gym_url = gym_url
        self._task_id = task_id
        self._client = client
        self._categories = categories

    @classmethod
    def for_task(
        cls, task: VerifierMetadata, client: GymClient, categories: CategoryLookup
    ) -> "GymApiVerifier":
        """Reads the task's `gym_url` and `task_id`; raises `InvalidTask` if one is missing."""
        if not task.gym_url:
            raise InvalidTask("verifier_metadata.gym_url: gym_api needs the gym's address")
        if not task.task_id:
            raise InvalidTask("verifier_metadata.task_id: gym_api needs the gym's task id")
        return cls(task.gym_url, task.task_id, client, categories)

    @property
    def keep(self) -> Keep:
        """Nothing beside what is always kept."""
        return KEEP_NOTHING

    async def verify(self, evidence: Evidence) -> Verdict:
        """Takes the client's time bound, and CATEGORIES_TIMEOUT_S more for missing categories."""
        judged = await self._client.grade(
            self._gym_url,
            self._task_id,
            final=evidence.final_storage,
            initial=evidence.initial_storage,
            answer=evidence.answer,
        )
        if not judged:
            logger.warning("%s has no assertions for task %s", self._gym_url, self._task_id)
        categories: dict[str, str] = {}
        if any(not assertion.get("category") for assertion in judged):
            categories = await self._categories.of_gym(self._gym_url)
        return Verdict.of([_assertion_row(assertion, categories) for assertion in judged])


def categories_by_title(tasks: dict[str, Any]) -> dict[str, str]:
    """Collects the categories of a gym's assertions; a title with two categories is left out."""
    found: dict[str, set[str]] = {}
    for task in tasks.values():
        assertions = task.get("assertions") if isinstance(task, dict) else None
        for assertion in assertions if isinstance(assertions, list) else []:
            if not isinstance(assertion, dict):
                continue
            title, category = assertion.get("title"), assertion.get("category")
            if isinstance(title, str) and isinstance(category, str) and category:
                found.setdefault(title, set()).add(category)
    return {title: one.pop() for title, one in found.items() if len(one) == 1}


def _assertion_row(assertion: dict[str, Any], categories: dict[str, str]) -> dict[str, Any]:
    title = assertion["title"]
    row: dict[str, Any] = {"title": shown_value(title)}
    category = assertion.get("category") or categories.get(title)
    if category:
        row["category"] = shown_value(category)
    row["result"] = assertion["result"]
    for key in ("expected", "actual"):
        if key in assertion:
            row[key] = shown_value(assertion[key])
    return row
