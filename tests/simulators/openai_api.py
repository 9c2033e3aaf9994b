"""A strict simulator of OpenAI's `POST /v1/responses`.

It refuses what the real API refuses (`openai_rules`, `openai_items`), answers with what a policy
says (`openai_scripts`), shows faults on demand, and records every request.

    simulator = OpenAISimulator(ga_batch())
    simulator.fail_next(rate_limited(0), times=2)
    with simulator.serve() as base_url:
        ...
    assert [request.status for request in simulator.requests] == [429, 429, 200]
"""

import copy
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tests.simulators.http_server import serve
from tests.simulators.openai_items import ID_PREFIXES, Ledger, check_input, item_type
from tests.simulators.openai_rules import ApiError, check_request, computer_tool_of
from tests.simulators.openai_scripts import Item, Policy, SimReply, SimTurn, usage
from tests.simulators.recording import RecordedRequest, Recorder

ENCRYPTED = "reasoning.encrypted_content"
# Docs: images and vision; that the answer is a 413 with this text is made up.
MAX_REQUEST_BYTES = 50_000_000


@dataclass
class OpenAIRequest(RecordedRequest):
    """One request as it arrived, and how it was answered."""

    query: dict[str, str] = field(default_factory=dict)


class OpenAISimulator(Recorder[OpenAIRequest]):
    """The simulated API.

    Args:
        policy: Says what the model answers.
        api_key: The only key accepted.
        azure: Whether to ask for the key and the version as Azure's dated API does: in the header
            `api-key`, never beside another one, and `api-version` in the query.
    """

    def __init__(
        self, policy: Policy, *, api_key: str = "sk-simulator", azure: bool = False
    ) -> None:
        super().__init__()
        self.policy = policy
        self.api_key = api_key
        self.azure = azure
        self.ledger = Ledger()
        self.app = FastAPI()
        self.app.post("/v1/responses")(self._answer)
        self.app.exception_handler(404)(self._unknown_url)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve on a free loopback port; yields the base URL, which ends in `/v1`."""
        with serve(self.app) as url:
            yield f"{url}/v1"

    def altered_items(self) -> list[Item]:
        """Return every issued item that came back changed, over all requests."""
        return [
            item
            for request in self.requests
            if isinstance(request.body.get("input"), list)
            for item in request.body["input"]
            if item.get("id") in self.ledger.issued and not self.ledger.is_unchanged(item)
        ]

    async def _answer(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        record = OpenAIRequest(
            body if isinstance(body, dict) else {},
            dict(request.headers),
            query=dict(request.query_params),
        )
        self.requests.append(record)
        try:
            self._check_key(record)
            if len(raw) > MAX_REQUEST_BYTES:
                raise ApiError("The request's payload exceeds 50 MB.", status=413)
            if not isinstance(body, dict):
                raise ApiError("We could not parse the JSON body of your request.")
            if fault := self.next_fault(record):
                return await fault.answer(request)
            check_request(body)
            conversation = check_input(body, self.ledger)
            record.status, record.reply = 200, self._reply(body, conversation)
        except ApiError as error:
            record.status, record.reply = error.status, error.body
        # In ASCII, as half a surrogate pair has no other form.
        return Response(json.dumps(record.reply), record.status, media_type="application/json")

    def _check_key(self, request: OpenAIRequest) -> None:
        header = request.headers.get("authorization")
        if self.azure:
            if header is not None or request.headers.get("api-key") != self.api_key:
                raise ApiError("Access denied due to invalid subscription key.", status=401)
            # Source: Azure's API reference; without a version there is no such resource.
            if not request.query.get("api-version"):
                raise ApiError("Resource not found", status=404)
            return
        if header is None or not header.startswith("Bearer "):
            raise ApiError("You didn't provide an API key.", status=401)
        if header != f"Bearer {self.api_key}":
            raise ApiError("Incorrect API key provided.", status=401, code="invalid_api_key")

    async def _unknown_url(self, request: Request, error: Exception) -> Response:
        path = request.url.path
        body = ApiError(f"Invalid URL ({request.method} {path})", status=404).body
        return JSONResponse(body, 404)

    def _reply(self, body: dict[str, Any], conversation: list[Item]) -> dict[str, Any]:
        turn = SimTurn(
            number=self._replies_in(conversation),
            body=body,
            conversation=conversation,
            tool=computer_tool_of(body["model"]),
        )
        answer = self.policy(turn)
        reply = answer if isinstance(answer, SimReply) else SimReply(answer)
        response_id = _new_id("resp")
        output = self._issue(response_id, reply.output, body)
        # Source: SDK; responses are stored unless the request says otherwise.
        if body.get("store") is not False:
            self.ledger.conversations[response_id] = conversation + output
            self.ledger.stored_ids.update(item["id"] for item in output)
        reason = reply.incomplete_reason
        return {
            "id": response_id,
            "object": "response",
            "created_at": int(time.time()),
            "status": reply.status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
            "store": body.get("store", True),
            "temperature": body.get("temperature", 1.0),
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p", 1.0),
            "truncation": body.get("truncation", "disabled"),
            "usage": reply.usage or usage(1000 * len(conversation), 50 * len(output)),
            **reply.extra,
        }

    def _replies_in(self, conversation: list[Item]) -> int:
        """Count the replies a conversation holds, by the responses its items came from."""
        return len(
            {
                self.ledger.issued_by[str(item["id"])]
                for item in conversation
                if item.get("id") in self.ledger.issued_by
            }
        )

    def _issue(self, response_id: str, items: list[Item], body: dict[str, Any]) -> list[Item]:
        """Complete a reply's items with what only the API knows, and remember them."""
        issued = []
        for template in items:
            item = copy.deepcopy(template)
            kind = item_type(item)
            item.setdefault("id", _new_id(ID_PREFIXES[kind]))
            if kind in ("computer_call", "function_call"):
                item.setdefault("call_id", _new_id("call"))
            if kind == "reasoning":
                self.ledger.encrypted[item["id"]] = secret = f"gAAAA{uuid.uuid4().hex}"
                if ENCRYPTED in (body.get("include") or []):
                    item["encrypted_content"] = secret
            else:
                item.setdefault("status", "completed")
            if issued and item_type(issued[-1]) == "reasoning":
                self.ledger.led_to[issued[-1]["id"]] = item["id"]
            self.ledger.issued[item["id"]] = item
            self.ledger.issued_by[item["id"]] = response_id
            issued.append(item)
        return issued


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
