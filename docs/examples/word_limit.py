"""A verifier: the answer has at most `max_words` words, which the task's row gives."""

from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask


class WordLimitVerifier:
    """Counts the words of the final answer; no answer fails."""

    name = "word_limit"

    def __init__(self, max_words: int) -> None:
        self._max_words = max_words

    @classmethod
    def for_task(cls, task: VerifierMetadata) -> "WordLimitVerifier":
        """Reads the row's `max_words`.

        Raises:
            InvalidTask: It is missing or no number.
        """
        max_words = (task.model_extra or {}).get("max_words")
        if type(max_words) is not int:
            raise InvalidTask("verifier_metadata.max_words: word_limit needs a whole number")
        return cls(max_words)

    @property
    def keep(self) -> Keep:
        """Storage, addresses and the answer are kept anyway."""
        return KEEP_NOTHING

    async def verify(self, evidence: Evidence) -> Verdict:
        """Grades the answer."""
        words = len(evidence.answer.split())
        return Verdict.of(
            [
                {
                    "title": f"The answer has at most {self._max_words} words",
                    "result": "pass" if 0 < words <= self._max_words else "fail",
                    "expected": self._max_words,
                    "actual": words,
                }
            ]
        )
