"""Carries out calls of the element tools on a session, and offers them as routes and over MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym import element_tools as tools
from resources_servers.browser_gym.access import BearerToken
from resources_servers.browser_gym.browser.observation import ActionResult, Words
from resources_servers.browser_gym.sessions import Sessions
from resources_servers.browser_gym.strict_json import StrictJson

Use = Callable[[Request, str], Awaitable[str]]


def add_routes(app: FastAPI, use: Use) -> None:
    """Add a route for each tool; `use` takes a request and the tool's name and returns a text."""
    for name in tools.TOOLS:
        app.post(f"/{name}", description=tools.description(name))(_handler(name, use))


def check_requests(app: FastAPI, *, max_bytes: int, token: str | None) -> None:
    """Look at tokens, and at the bodies of all routes but those of the tools, before `app` does.

    Not by `add_middleware`: NeMo Gym offers no tools over MCP for an app with middleware of its
    own, as a call over MCP goes round it. The tools look at their bodies themselves.
    """
    build = app.build_middleware_stack
    own = [f"/{name}" for name in tools.TOOLS]

    def checked() -> ASGIApp:
        inner = StrictJson(build(), max_bytes=max_bytes, but=own)
        return BearerToken(inner, token) if token else inner

    app.build_middleware_stack = checked


def over_mcp(harvested: list[Any]) -> list[Any]:
    """Return those of NeMo Gym's `MCPTool`s that are element tools, with their schemas."""
    return [
        replace(
            tool,
            tool=tool.tool.model_copy(update={"inputSchema": tools.parameters(tool.name)}),
        )
        for tool in harvested
        if tool.name in tools.TOOLS
    ]


async def use_tool(
    sessions: Sessions,
    session_id: str,
    name: str,
    body: bytes,
    max_chars: int,
    stepped: Callable[[dict[str, float]], None],
) -> str:
    """Use a tool in a session and return the text for the model, also if it called it wrongly.

    Args:
        sessions: where the session is.
        session_id: the session's name.
        name: the tool's.
        body: its arguments as JSON.
        max_chars: length of the page's words that is not passed.
        stepped: takes the times of a step in ms.

    Raises:
        SessionError: unknown, expired or closed session.
        BrowserLost: the browser is gone.
    """
    words, refused = Words(max_chars), []
    batch: list[act.Action] = [act.Screenshot()]  # looks without acting
    try:
        tool, batch = tools.read_call(name, body, sessions.viewport(session_id))
    except tools.UnusableCall as error:
        refused = [ActionResult(name, "error", str(error))]
    else:
        if isinstance(tool, tools.Finish):
            finished = await sessions.finish(session_id, tool.answer)
            return f"the task is finished; the answer is {finished.answer!r}"
        if isinstance(tool, tools.Observe):
            words = replace(words, query=tool.query)
    results, observation = await sessions.step(session_id, batch, words=words)
    stepped(observation.timings_ms)
    return tools.answer_text([*refused, *results], observation)


def _handler(name: str, use: Use) -> Callable[[Request], Awaitable[Response]]:
    async def call(request: Request) -> Response:
        return PlainTextResponse(await use(request, name))

    # NeMo Gym and FastAPI read the signature, and cannot resolve names of this module in it.
    call.__annotations__ = {"request": Request, "return": Response}
    call.__name__ = name
    return call
