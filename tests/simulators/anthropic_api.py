"""A strict simulator of Anthropic's `POST /v1/messages`.

It refuses what the real API refuses (`anthropic_rules`, `anthropic_messages`), answers with what a
policy says (`anthropic_scripts`), shows faults on demand, and records every request.

    simulator = AnthropicSimulator(clicks(3))
    simulator.fail_next(overloaded(), times=2)
    with simulator.serve() as base_url:
        ...
    assert [request.status for request in simulator.requests] == [529, 529, 200]
"""

import copy
import hashlib
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from tests.simulators.anthropic_messages import Ledger, Prefixes, check_messages, seal_of
from tests.simulators.anthropic_rules import ApiError, check_request
from tests.simulators.anthropic_scripts import Block, Policy, SimReply, SimTurn
from tests.simulators.http_server import serve
from tests.simulators.recording import RecordedRequest, Recorder

CHARACTERS_PER_TOKEN = 4
# Docs: errors, request size limits.
MAX_REQUEST_BYTES = 32_000_000


class AnthropicRequest(RecordedRequest):
    """One request as it arrived, and how it was answered."""

    @property
    def betas(self) -> set[str]:
        """Names in the `anthropic-beta` header."""
        return {name for name in self.headers.get("anthropic-beta", "").split(",") if name}


class AnthropicSimulator(Recorder[AnthropicRequest]):
    """The simulated API.

    Args:
        policy: Says what the model answers.
        api_key: The only key accepted.
    """

    def __init__(self, policy: Policy, *, api_key: str = "sk-ant-simulator") -> None:
        super().__init__()
        self.policy = policy
        self.api_key = api_key
        self.ledger = Ledger()
        self._cached: set[str] = set()
        self.app = FastAPI()
        self.app.post("/v1/messages")(self._answer)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve on a free loopback port; yields the base URL, without `/v1`."""
        with serve(self.app) as url:
            yield url

    def altered_replies(self) -> list[str]:
        """Return ids of replies that came back with other content than they were issued with."""
        altered = []
        for request in self.requests:
            for message in request.body.get("messages", []):
                content = message["content"]
                if message["role"] == "assistant" and isinstance(content, list):
                    ids = {self.ledger.seals.get(str(seal_of(block))) for block in content}
                    for reply_id in ids - {None}:
                        issued = self.ledger.issued[str(reply_id)]
                        text, whole = json.dumps(issued)[1:-1], json.dumps(content)
                        if text not in whole:
                            altered.append(str(reply_id))
        return altered

    async def _answer(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        record = AnthropicRequest(body if isinstance(body, dict) else {}, dict(request.headers))
        self.requests.append(record)
        try:
            self._check_headers(record.headers)
            if len(raw) > MAX_REQUEST_BYTES:
                message = "Request exceeds the maximum allowed number of bytes."
                raise ApiError(message, status=413, kind="request_too_large")
            if not isinstance(body, dict):
                raise ApiError("The request body is not valid JSON")
            if fault := self.next_fault(record):
                return await fault.answer(request)
            model = check_request(body, record.betas)
            transformations = check_messages(body, model, record.betas, self.ledger)
            record.status, record.reply = 200, self._reply(body)
            if transformations:
                record.reply["input_transformations"] = transformations
            edits = (body.get("context_management") or {}).get("edits", [])
            if edits:
                record.reply["context_management"] = {"applied_edits": []}
        except ApiError as error:
            record.status, record.reply = error.status, error.body
        # In ASCII, as half a surrogate pair has no other form.
        return Response(json.dumps(record.reply), record.status, media_type="application/json")

    def _check_headers(self, headers: dict[str, str]) -> None:
        if headers.get("x-api-key") != self.api_key:
            raise ApiError("invalid x-api-key", status=401, kind="authentication_error")
        if headers.get("anthropic-version") != "2023-06-01":
            raise ApiError("anthropic-version: header is required")

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        kinds = [str(tool.get("type", "")) for tool in body.get("tools") or []]
        hosted = [kind for kind in kinds if kind.startswith(("computer_", "browser_"))]
        turn = SimTurn(self._replies_in(body), body, next(iter(hosted), None))
        answer = self.policy(turn)
        reply = answer if isinstance(answer, SimReply) else SimReply(answer)
        reply_id = f"msg_{uuid.uuid4().hex}"
        content = self._issue(reply_id, reply.content, body)
        calls = any(block["type"] == "tool_use" for block in content)
        reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
        if reason == "pause_turn":
            self.ledger.paused.add(reply_id)
        return {
            "id": reply_id,
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {**self._usage(body, content), **reply.usage},
            **reply.extra,
        }

    def _replies_in(self, body: dict[str, Any]) -> int:
        """Count the replies a conversation holds, by what seals their blocks."""
        blocks = [
            block
            for message in body["messages"]
            if message["role"] == "assistant" and isinstance(message["content"], list)
            for block in message["content"]
        ]
        found = {self.ledger.seals.get(str(seal_of(block))) for block in blocks} - {None}
        return len(found)

    def _issue(self, reply_id: str, blocks: list[Block], body: dict[str, Any]) -> list[Block]:
        """Complete a reply's blocks with what only the API knows, and remember them."""
        content = copy.deepcopy(blocks)
        for block in content:
            secret = uuid.uuid4().hex
            if block["type"] == "thinking":
                block.setdefault("signature", f"sig_{secret}")
            elif block["type"] == "redacted_thinking":
                block.setdefault("data", f"redacted_{secret}")
            elif block["type"] == "tool_use":
                block.setdefault("id", f"toolu_{secret}")
            if seal := seal_of(block):
                self.ledger.seals[seal] = reply_id
        self.ledger.issued[reply_id] = content
        self.ledger.prefixes[reply_id] = Prefixes(body).whole
        return content

    def _usage(self, body: dict[str, Any], content: list[Block]) -> dict[str, Any]:
        """Count tokens, and what of them a cache of earlier requests' prefixes would hold."""
        stretches: list[str] = []  # the request in order, cut after each breakpoint
        current = ""
        parts = [*(body.get("tools") or []), *(body.get("system") or [])]
        for message in body["messages"]:
            content_blocks = message["content"]
            parts += content_blocks if isinstance(content_blocks, list) else [content_blocks]
        for part in parts:
            marked = isinstance(part, dict) and "cache_control" in part
            bare = {k: v for k, v in part.items() if k != "cache_control"} if marked else part
            current += json.dumps(bare, sort_keys=True)
            if marked:
                stretches.append(current)
        read = written = 0
        for prefix in stretches:
            digest = hashlib.sha256(prefix.encode()).hexdigest()
            if digest in self._cached:
                read = len(prefix) // CHARACTERS_PER_TOKEN
            else:
                self._cached.add(digest)
                written = len(prefix) // CHARACTERS_PER_TOKEN
        return {
            "input_tokens": len(current) // CHARACTERS_PER_TOKEN - max(read, written),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, written - read),
            "output_tokens": len(json.dumps(content)) // CHARACTERS_PER_TOKEN,
        }
