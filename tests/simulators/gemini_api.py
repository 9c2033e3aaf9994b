"""A strict simulator of Gemini's `generateContent`, as the Gemini API and as Vertex AI.

It refuses what the real API refuses (`gemini_rules`, `gemini_contents`), answers with what a
policy says (`gemini_scripts`), shows faults on demand, and records every request.

    simulator = GeminiSimulator(script([call("click", x=500, y=500)]))
    simulator.fail_next(rate_limited(retry_after="0"), times=2)
    with simulator.serve() as base_url:
        ...
    assert [request.status for request in simulator.requests] == [429, 429, 200]
"""

import base64
import copy
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response

from tests.simulators.gemini_contents import Ledger, check_contents
from tests.simulators.gemini_rules import ApiError, check_request, is_current, signs_calls
from tests.simulators.gemini_scripts import Json, Policy, SimReply, SimTurn, usage
from tests.simulators.http_server import serve
from tests.simulators.recording import RecordedRequest, Recorder


@dataclass
class GeminiRequest(RecordedRequest):
    """One request as it arrived, and how it was answered."""

    path: str = ""


class GeminiSimulator(Recorder[GeminiRequest]):
    """The simulated API.

    Args:
        policy: Says what the model answers.
        api_key: The only key accepted.
        token: The only access token accepted; `/token` gives it out, as Google's OAuth does.
        project: The only Google Cloud project there is.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        api_key: str = "AIza-simulator",
        token: str = "ya29-simulator",
        project: str = "sim-project",
    ) -> None:
        super().__init__()
        self.policy = policy
        self.api_key = api_key
        self.token = token
        self.project = project
        self.ledger = Ledger()
        self.app = FastAPI()
        vertex = "/v1beta1{parent:path}/publishers/google/models/{model}:generateContent"
        self.app.post("/v1beta/models/{model}:generateContent")(self._gemini)
        self.app.post(vertex)(self._vertex)
        self.app.post("/token")(self._issue_token)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve on a free loopback port; yields the base URL, which has no API version."""
        with serve(self.app) as url:
            yield url

    def altered_contents(self) -> list[Json]:
        """Return every model content, over all requests, that is not one that was issued."""
        return [
            content
            for request in self.requests
            for content in request.body.get("contents") or []
            if content["role"] == "model" and not self.ledger.is_issued(content)
        ]

    async def _issue_token(self) -> Json:
        return {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"}

    async def _gemini(self, model: str, request: Request) -> Response:
        return await self._answer(model, request, self._check_key)

    async def _vertex(self, parent: str, model: str, request: Request) -> Response:
        def check(headers: dict[str, str]) -> None:
            if "x-goog-api-key" in headers:
                self._check_key(headers)
            elif headers.get("authorization") != f"Bearer {self.token}":
                message = "Request had invalid authentication credentials."
                raise ApiError(message, status=401, name="UNAUTHENTICATED")
            elif not parent.startswith(f"/projects/{self.project}/locations/"):
                message = f"Permission denied on resource {parent}."
                raise ApiError(message, status=403, name="PERMISSION_DENIED")

        return await self._answer(model, request, check)

    def _check_key(self, headers: dict[str, str]) -> None:
        key = headers.get("x-goog-api-key")
        if key is None:
            message = "Method doesn't allow unregistered callers."
            raise ApiError(message, status=403, name="PERMISSION_DENIED")
        if key != self.api_key:
            raise ApiError("API key not valid. Please pass a valid API key.")

    async def _answer(self, model: str, request: Request, check_access: Any) -> Response:
        try:
            body = json.loads(await request.body(), parse_constant=_refuse)
        except ValueError:
            body = None
        headers = dict(request.headers)
        record = GeminiRequest(
            body if isinstance(body, dict) else {}, headers, path=request.url.path
        )
        self.requests.append(record)
        try:
            check_access(headers)
            if not isinstance(body, dict):
                raise ApiError("Invalid JSON payload received.")
            if fault := self.next_fault(record):
                return await fault.answer(request)
            predefined = check_request(body, model)
            check_contents(body, model, predefined, self.ledger)
            record.status, record.reply = 200, self._reply(body, model)
        except ApiError as error:
            record.status, record.reply = error.status, error.body
        # In ASCII, as half a surrogate pair has no other form.
        return Response(json.dumps(record.reply), record.status, media_type="application/json")

    def _reply(self, body: Json, model: str) -> Json:
        contents = body["contents"]
        number = sum(content["role"] == "model" for content in contents)
        answer = self.policy(SimTurn(number=number, body=body, model=model))
        reply = answer if isinstance(answer, SimReply) else SimReply(answer)
        candidate: Json = {"index": 0, **reply.candidate}
        if reply.finish_reason is not None:
            candidate["finishReason"] = reply.finish_reason
        if reply.parts is not None:
            candidate["content"] = self._issue(reply.parts, body, model)
        answered = {
            "candidates": [candidate],
            "usageMetadata": reply.usage or usage(1000 * len(contents), 50),
            "modelVersion": model,
            "responseId": uuid.uuid4().hex[:22],
            **reply.extra,
        }
        return {name: value for name, value in answered.items() if value is not None}

    def _issue(self, templates: list[Json], body: Json, model: str) -> Json:
        """Complete a reply's parts with what only the API knows, and remember them."""
        config = body.get("generationConfig") or {}
        shows_thoughts = (config.get("thinkingConfig") or {}).get("includeThoughts")
        parts = []
        signs = signs_calls(model)
        for part in templates:
            # One by one: a part may be there twice, and each has an id of its own.
            template = copy.deepcopy(part)
            if template.get("thought") and not shows_thoughts:
                continue
            if "functionCall" in template:
                if is_current(model):
                    template["functionCall"].setdefault("id", uuid.uuid4().hex[:8])
                if signs:
                    # Only the first call of a reply is signed (API).
                    template.setdefault("thoughtSignature", _new_signature())
                    signs = False
            parts.append(template)
        content = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        self.ledger.issue(content)
        return content


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _new_signature() -> str:
    return base64.b64encode(uuid.uuid4().bytes * 8).decode()
