"""The two ways grading can go wrong that are not the model's doing."""

from resources_servers.browser_gym.faults import Fault
from resources_servers.browser_gym.redaction import hide_secrets


class InvalidTask(ValueError):
    """A task row that cannot be graded as written; the message names the field and the fix."""

    def __init__(self, reason: str) -> None:
        super().__init__(hide_secrets(reason))


class VerifierError(Exception):
    """Grading could not be done, so there is no reward: the rollout is masked, never scored 0.

    Attributes:
        fault: The line of the table of faults.
    """

    def __init__(self, reason: str, fault: Fault = Fault.VERIFIER_FAILED) -> None:
        super().__init__(hide_secrets(reason))
        self.fault = fault
