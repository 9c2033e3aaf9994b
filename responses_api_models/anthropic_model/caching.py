"""Where the prefix that Anthropic may cache ends."""

from typing import Any

Json = dict[str, Any]

# Anthropic takes four in all: tools, system prompt, and these. The last one is read in the next
# turn, when it is the one before.
MESSAGE_BREAKPOINTS = 2


def mark(body: Json, ttl: str) -> Json:
    """Return a request with cache breakpoints: tools, system prompt and the last user messages.

    Assistant messages stay untouched.

    Args:
        body: The request; its `system` is a list of blocks, as is the content of each message.
        ttl: How long to keep what is cached: `5m`, Anthropic's default, or `1h`.
    """
    control: Json = {"type": "ephemeral"}
    if ttl != "5m":
        control["ttl"] = ttl
    body = dict(body)
    for name in ("tools", "system"):
        if body.get(name):
            body[name] = _marked(body[name], control)
    messages = list(body["messages"])
    from_user = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for index in from_user[-MESSAGE_BREAKPOINTS:]:
        content = _marked(messages[index]["content"], control)
        messages[index] = {**messages[index], "content": content}
    body["messages"] = messages
    return body


def _marked(blocks: list[Json], control: Json) -> list[Json]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": control}]
