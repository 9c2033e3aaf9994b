"""What translation can find wrong."""


class BadRequest(ValueError):
    """The request cannot be put to Anthropic. The text names the field; `field` repeats it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class UnusableReply(ValueError):
    """A reply that is no Messages object at all."""


class Untranslatable(ValueError):
    """An action that has no counterpart on the other side, or is malformed. The text says why."""
