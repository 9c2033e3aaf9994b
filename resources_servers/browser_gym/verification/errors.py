"""The two ways grading can go wrong that are not the model's doing."""


class InvalidTask(ValueError):
    """A task row that cannot be graded as written; the message names the field and the fix."""


class VerifierError(Exception):
    """Grading could not be done, so there is no reward: the rollout is masked, never scored 0.

    Attributes:
        failure_kind: A kind of NeMo Gym's failure vocabulary: `verifier_error`,
            `transport_timeout`, `transport_unreachable` or `transport_peer_drop`.
    """

    def __init__(self, reason: str, failure_kind: str = "verifier_error") -> None:
        super().__init__(reason)
        self.failure_kind = failure_kind
