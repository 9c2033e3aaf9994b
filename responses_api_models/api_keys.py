"""Whether a provider's key can be a real one, checked before a server starts."""

# What people leave in a settings file when they copy the example.
_PLACEHOLDER_STARTS = ("<", "your", "changeme", "replace")


class MissingApiKey(Exception):
    """A provider's key is absent or still a placeholder. The text names the variables."""


def is_placeholder(key: str, examples: tuple[str, ...]) -> bool:
    """Tell whether a key is one to be replaced.

    Args:
        key: Without spaces around it.
        examples: How that provider's examples of keys start, in lower case.
    """
    return key.lower().startswith(_PLACEHOLDER_STARTS + examples)


def usable_key(
    key: str | None,
    *,
    server: str,
    provider: str,
    setting: str,
    variable: str,
    examples: tuple[str, ...],
) -> str:
    """Return a usable key.

    Args:
        key: As it was set.
        server: Name of the model server, for the message.
        provider: Whose key it is, for the message.
        setting: Its name in env.yaml.
        variable: Its name in the environment.
        examples: See `is_placeholder`.

    Raises:
        MissingApiKey: It is absent, blank or a placeholder.
    """
    stripped = (key or "").strip()
    if not stripped or is_placeholder(stripped, examples):
        state = "is a placeholder" if stripped else "is missing"
        raise MissingApiKey(
            f"{server}: the {provider} key {state}. Set {setting} in env.yaml, "
            f"or {variable} in the environment."
        )
    return stripped
