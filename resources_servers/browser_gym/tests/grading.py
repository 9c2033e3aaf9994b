"""What tests of verifiers share: seeding a task, and having what it left behind graded."""

from typing import Any

from conftest import RESPONSE, Client


def response(text: str = "") -> dict[str, Any]:
    """A model's response with a final message."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    return RESPONSE | {"output": [message | {"content": [part]}]}


async def verify(client: Client, metadata: dict[str, Any], env_id: str, **fields: Any) -> Any:
    """Grade a session, which ends it; return the row."""
    body = {
        "responses_create_params": {"input": "Do it."},
        "response": response(),
        "verifier_metadata": metadata,
        "env_id": env_id,
        **fields,
    }
    return await client.post("/verify", body)


async def seeded(client: Client, metadata: dict[str, Any]) -> str:
    """Open a session on a task; return its id."""
    answer = await client.post("/seed_session", {"verifier_metadata": metadata})
    client.opened.append(answer["env_id"])
    return answer["env_id"]
