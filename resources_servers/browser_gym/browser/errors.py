"""What the driver's parts raise to each other."""

from resources_servers.browser_gym.redaction import hide_secrets


class ActionError(Exception):
    """An action could not be done; the text is for the model."""

    def __init__(self, reason: str) -> None:
        super().__init__(hide_secrets(reason))
