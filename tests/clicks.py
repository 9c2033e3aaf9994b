"""Drives `pages/clicks.html`, whose one button does what the page's query names."""

from typing import Any

from conftest import Client


async def new_session(client: Client, site: str) -> str:
    """Open a session on a plain page and return its id."""
    seeded = await client.seed(f"{site}/second.html", viewport_width=1280, viewport_height=720)
    return seeded["env_id"]


async def click_way(client: Client, env_id: str, site: str, way: str) -> dict[str, Any]:
    """Open the page for `way`, click its button and return the step's answer."""
    return await client.step(
        env_id,
        {"type": "navigate", "url": f"{site}/clicks.html?{way}"},
        {"type": "click", "x": 100, "y": 50},
    )


def events_of(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the events of one type."""
    return [event for event in answer["events"] if event["type"] == kind]
