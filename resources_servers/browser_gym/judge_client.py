"""Asks the judge's model server through NeMo Gym's client."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from nemo_gym.config_types import ModelServerRef
from nemo_gym.server_utils import ServerClient, get_response_json
from pydantic import BaseModel, Field

from resources_servers.browser_gym.task_row import MAX_JUDGE_SCREENSHOTS
from resources_servers.browser_gym.verification.judge import (
    INSTRUCTIONS,
    AskJudge,
    Judge,
    JudgeUnavailable,
)

_PASSING_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_EXCERPT_CHARS = 300


class JudgeConfig(BaseModel):
    """The judge's part of the configuration; every key is described in the README."""

    judge_model_server: ModelServerRef | None = None
    judge_instructions: str | None = None
    judge_screenshots: int = Field(default=3, ge=0, le=MAX_JUDGE_SCREENSHOTS)
    judge_attempts: int = Field(default=3, ge=1)
    judge_timeout_s: float = Field(default=120, gt=0)
    judge_params: dict[str, Any] = Field(default_factory=dict)


def judge_of(config: JudgeConfig, client: ServerClient) -> Judge | None:
    """Return the judge that a configuration names, None if it names none."""
    if config.judge_model_server is None:
        return None
    return Judge(
        judge_behind(client, config.judge_model_server.name, config.judge_timeout_s),
        config.judge_instructions or INSTRUCTIONS,
        screenshots=config.judge_screenshots,
        attempts=config.judge_attempts,
        params=tuple(config.judge_params.items()),
    )


def judge_behind(client: ServerClient, server_name: str, timeout_s: float) -> AskJudge:
    """Return what asks a model server of the configuration.

    Args:
        client: NeMo Gym's.
        server_name: of the model server.
        timeout_s: how long one answer may take.
    """

    async def ask(body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout_s):
                # One try of NeMo Gym's own, which otherwise repeats a lost connection for ever.
                response = await client.post(
                    server_name=server_name,
                    url_path="/v1/responses",
                    json=body,
                    _max_connection_retries=1,  # type: ignore[call-arg]
                )
                if response.status >= 400:
                    text = " ".join((await response.text()).split())[:_EXCERPT_CHARS]
                    raise JudgeUnavailable(
                        f"{server_name} answered HTTP {response.status}: {text}",
                        passing=response.status in _PASSING_STATUSES,
                    )
                answer = await get_response_json(response)
        except TimeoutError as error:
            reason = f"{server_name} did not answer within {timeout_s:g} s"
            raise JudgeUnavailable(reason, passing=True) from error
        except (aiohttp.ClientError, OSError) as error:
            reason = f"{server_name}: {type(error).__name__}: {error}"
            raise JudgeUnavailable(reason, passing=True) from error
        except ValueError as error:
            reason = f"{server_name} answered something that is not JSON: {error}"
            raise JudgeUnavailable(reason, passing=False) from error
        if not isinstance(answer, dict):
            raise JudgeUnavailable(f"{server_name} answered no JSON object", passing=False)
        return answer

    return ask
