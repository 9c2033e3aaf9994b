"""What the driver's parts raise to each other."""


class ActionError(Exception):
    """An action could not be done; the text is for the model."""
