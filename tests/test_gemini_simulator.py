"""The Gemini simulator refuses what the real API refuses, and nothing else."""

import base64
import copy
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.simulators import gemini_scripts as scripts
from tests.simulators.gemini_api import GeminiSimulator
from tests.simulators.gemini_scripts import Policy, SimReply, call, script, text, thought, unsafe
from tests.simulators.gemini_solutions import grid, native_calls

Json = dict[str, Any]

CURRENT = "gemini-3.8-flash"
GEMINI_3 = "gemini-3-flash-preview"
LEGACY = "gemini-2.5-computer-use-preview-10-2025"


def picture(kind: str = "png", declared: str | None = None) -> Json:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), "white").save(stream, kind)
    data = base64.b64encode(stream.getvalue()).decode()
    return {"inlineData": {"mimeType": f"image/{declared or kind}", "data": data}}


COMPUTER = {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
SWITCH_TAB = {
    "name": "switch_tab",
    "parametersJsonSchema": {"type": "object", "properties": {"index": {"type": "integer"}}},
}
OPENAPI = {"name": "f", "parameters": {"type": "OBJECT", "additionalProperties": False}}
TASK = {"role": "user", "parts": [{"text": "Do it."}, picture()]}


def request(**changes: Any) -> Json:
    body = {"contents": [TASK], "tools": [COMPUTER, {"functionDeclarations": [SWITCH_TAB]}]}
    return {name: value for name, value in (body | changes).items() if value is not None}


def answer(content: Json, **changes: Any) -> Json:
    """Answer every call of a content."""
    parts = []
    for part in content["parts"]:
        if native := part.get("functionCall"):
            named = {name: native[name] for name in ("id", "name") if name in native}
            response: Json = {"url": "https://a.example"}
            if "safety_decision" in native["args"]:
                response["safety_acknowledgement"] = "true"
            fields = {**named, "response": response, "parts": [picture()], **changes}
            parts.append({"functionResponse": fields})
    return {"role": "user", "parts": parts}


class Client:
    """Talks to a simulator in process."""

    def __init__(self, policy: Policy, model: str = CURRENT) -> None:
        self.simulator = GeminiSimulator(policy)
        self.model = model
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.simulator.app),
            base_url="http://simulator/v1beta",
            headers={"x-goog-api-key": self.simulator.api_key},
        )

    async def send(self, body: Json, model: str | None = None) -> httpx.Response:
        return await self.http.post(f"/models/{model or self.model}:generateContent", json=body)

    async def content(self, body: Json) -> Json:
        response = await self.send(body)
        assert response.status_code == 200, response.text
        return response.json()["candidates"][0]["content"]

    async def error(self, body: Json, status: int = 400, model: str | None = None) -> str:
        response = await self.send(body, model)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert error["code"] == status
        return error["message"]


CLICK = call("click", x=500, y=250)
CONVERSATIONS = {
    "one call": [[CLICK]],
    "parallel calls": [[CLICK, call("go_back"), CLICK]],
    "text and thoughts": [[thought("Hm."), text("I click."), CLICK], [text("Done.")]],
    "function tool": [[call("switch_tab", index=1)]],
    "safety decision": [[unsafe("click", x=1, y=1)]],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("model", [CURRENT, GEMINI_3, LEGACY])
async def test_a_conversation_is_accepted(name: str, model: str) -> None:
    client = Client(script(*CONVERSATIONS[name]), model)
    body = request(generationConfig={"thinkingConfig": {"includeThoughts": True}})
    content = await client.content(body)
    while any("functionCall" in part for part in content["parts"]):
        body["contents"] = [*body["contents"], content, answer(content)]
        content = await client.content(body)
    assert client.simulator.altered_contents() == []


async def test_ids_signatures_and_thoughts_by_model() -> None:
    parts = [thought("Hm."), CLICK, CLICK]
    for model, has_ids, has_signature in (
        (CURRENT, True, True),
        (GEMINI_3, False, True),
        (LEGACY, False, False),
    ):
        first, second = (await Client(script(parts), model).content(request()))["parts"]
        assert ("id" in first["functionCall"], "thoughtSignature" in first) == (
            has_ids,
            has_signature,
        )
        assert "thoughtSignature" not in second


# Requests -----------------------------------------------------------------------------------------


def tool(**fields: Any) -> list[Json]:
    return [{"computerUse": COMPUTER["computerUse"] | fields}]


def functions(**changes: Any) -> list[Json]:
    return [COMPUTER, {"functionDeclarations": [SWITCH_TAB | changes]}]


def calling(**config: Any) -> Json:
    return {"functionCallingConfig": config}


REFUSED_REQUESTS = {
    "unknown field": ({"max_tokens": 1}, "max_tokens"),
    "no contents": ({"contents": []}, "contents is not specified"),
    "two kinds in a tool": (
        {"tools": [COMPUTER | {"functionDeclarations": [SWITCH_TAB]}]},
        "one kind",
    ),
    "two computer tools": ({"tools": [COMPUTER, COMPUTER]}, "at most one"),
    "unknown tool": ({"tools": [{"computer": {}}]}, "computer"),
    "unknown tool field": ({"tools": tool(width=1280)}, "width"),
    "unknown exclusion": ({"tools": tool(excludedPredefinedFunctions=["zoom"])}, "zoom"),
    "unknown policy": ({"tools": tool(disabledSafetyPolicies=["ALL"])}, "ALL"),
    "bad name": ({"tools": functions(name="1st")}, "1st"),
    "name of a predefined function": ({"tools": functions(name="click")}, "click"),
    "schema twice": ({"tools": functions(parameters={"type": "OBJECT"})}, "Only one"),
    "JSON Schema as OpenAPI": (
        {"tools": [{"functionDeclarations": [OPENAPI]}]},
        "additionalProperties",
    ),
    "strict function": ({"tools": functions(strict=True)}, "strict"),
    "unknown mode": ({"toolConfig": calling(mode="FORCE")}, "FORCE"),
    "undeclared function": (
        {"toolConfig": calling(mode="ANY", allowedFunctionNames=["f"])},
        "undeclared",
    ),
    "allowed without any": (
        {"toolConfig": calling(mode="AUTO", allowedFunctionNames=["switch_tab"])},
        "only when",
    ),
    "config without tools": ({"tools": None, "toolConfig": calling(mode="ANY")}, "without"),
    "temperature": ({"generationConfig": {"temperature": 3}}, "temperature"),
    "no output": ({"generationConfig": {"maxOutputTokens": 0}}, "maxOutputTokens"),
    "snake case": ({"generationConfig": {"top_p": 1}}, "top_p"),
    "level and budget": (
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}},
        "only set one",
    ),
    "unknown level": (
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "EXTREME"}}},
        "EXTREME",
    ),
    "empty instruction": ({"systemInstruction": {"parts": []}}, "System instruction"),
}


@pytest.mark.parametrize("name", REFUSED_REQUESTS)
async def test_a_bad_request_is_refused(name: str) -> None:
    changes, named = REFUSED_REQUESTS[name]
    assert named in await Client(script()).error(request(**changes))


async def test_rules_that_depend_on_the_model() -> None:
    client = Client(script(), LEGACY)
    assert "requires the use of the Computer Use" in await client.error(request(tools=None))
    detection = request(tools=tool(enablePromptInjectionDetection=True))
    assert "not supported" in await client.error(detection)
    assert (await client.send(detection, CURRENT)).status_code == 200
    level = request(generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}})
    assert "not supported" in await client.error(level)
    assert (await client.send(level, GEMINI_3)).status_code == 200
    # Each set has its own names.
    exclusion = request(tools=tool(excludedPredefinedFunctions=["click_at"]))
    assert (await client.send(exclusion)).status_code == 200
    assert "click_at" in await client.error(exclusion, model=CURRENT)
    assert "not found" in await client.error(request(), 404, model="gpt-5.4")


async def test_access() -> None:
    client = Client(script())
    client.http.headers["x-goog-api-key"] = "AIza-wrong"
    assert "API key not valid" in await client.error(request())
    del client.http.headers["x-goog-api-key"]
    assert "unregistered" in await client.error(request(), 403)
    path = "/projects/{}/locations/global/publishers/google/models/gemini-3.8-flash:generateContent"
    vertex = f"http://simulator/v1beta1{path}"
    token = (await client.http.post("http://simulator/token")).json()["access_token"]
    for project, bearer, status in (
        ("sim-project", token, 200),
        ("other", token, 403),
        ("sim-project", "ya29-wrong", 401),
    ):
        headers = {"authorization": f"Bearer {bearer}"}
        sent = await client.http.post(vertex.format(project), json=request(), headers=headers)
        assert sent.status_code == status


# Contents -----------------------------------------------------------------------------------------

type Change = Callable[[list[Json]], Any]


def response_of(contents: list[Json]) -> Json:
    return contents[2]["parts"][0]["functionResponse"]


REFUSED_CONTENTS: dict[str, tuple[Change, str]] = {
    "unknown field": (lambda c: c[0].update(name="x"), "name"),
    "no role": (lambda c: c[0].pop("role"), "valid role"),
    "other role": (lambda c: c[0].update(role="assistant"), "valid role"),
    "no parts": (lambda c: c[0].update(parts=[]), "must not be empty"),
    "empty part": (lambda c: c[0]["parts"].append({}), "required oneof"),
    "two kinds in a part": (lambda c: c[0]["parts"][0].update(picture()), "required oneof"),
    "unknown part": (lambda c: c[0]["parts"].append({"image": "x"}), "image"),
    "empty text": (lambda c: c[0]["parts"].append({"text": ""}), "must not be empty"),
    "empty text of the model": (lambda c: c[1]["parts"].append({"text": ""}), "must not be empty"),
    "user thoughts": (lambda c: c[0]["parts"][0].update(thought=True), "no thoughts"),
    "image that is none": (
        lambda c: c[0]["parts"][1]["inlineData"].update(data="AAAA"),
        "process input image",
    ),
    "image not in base64": (
        lambda c: c[0]["parts"][1]["inlineData"].update(data="?"),
        "TYPE_BYTES",
    ),
    "image of another type": (
        lambda c: c[0]["parts"].append(picture("jpeg", "png")),
        "declared as image/png",
    ),
    "first turn of the model": (lambda c: c.pop(0), "starts and ends with a user"),
    "last turn of the model": (lambda c: c.pop(), "starts and ends with a user"),
    "user twice": (lambda c: c.insert(0, TASK), "alternate"),
    "user's call": (lambda c: c[0]["parts"].append(CLICK), "not allowed"),
    "missing response": (lambda c: c[2]["parts"].pop(), "number of function response parts"),
    "responses too many": (
        lambda c: c[2]["parts"].append(c[2]["parts"][0]),
        "number of function response parts",
    ),
    "text instead": (
        lambda c: c[2].update(parts=[{"text": "ok"}]),
        "number of function response parts",
    ),
    "response to nothing": (
        lambda c: c[0]["parts"].append(c[2]["parts"][0]),
        "immediately after a function call",
    ),
    "responses in another order": (lambda c: c[2]["parts"].reverse(), "does not match"),
    "response of another name": (lambda c: response_of(c).update(name="move"), "does not match"),
    "response without id": (lambda c: response_of(c).pop("id"), "does not match"),
    "unknown response field": (lambda c: response_of(c).update(error="x"), "error"),
    "empty response": (lambda c: response_of(c).update(response={}), "Struct"),
    "no address": (lambda c: response_of(c).update(response={"output": "ok"}), "'url'"),
    "picture beside the response": (
        lambda c: c[2]["parts"].append(picture()),
        "inside the function response",
    ),
    "bad picture in the response": (
        lambda c: response_of(c)["parts"][0]["inlineData"].update(data="AAAA"),
        "process input image",
    ),
    "missing signature": (
        lambda c: c[1]["parts"][0].pop("thoughtSignature"),
        "missing a thought_signature",
    ),
    "changed signature": (
        lambda c: c[1]["parts"][0].update(thoughtSignature="c2ln"),
        "Corrupted thought signature",
    ),
    "changed call": (
        lambda c: c[1]["parts"][0]["functionCall"]["args"].update(x=501),
        "Corrupted thought signature",
    ),
    "unacknowledged decision": (
        lambda c: c[2]["parts"][2]["functionResponse"]["response"].pop("safety_acknowledgement"),
        "safety decision from function call double_click must be acknowledged",
    ),
}


@pytest.mark.parametrize("name", REFUSED_CONTENTS)
async def test_bad_contents_are_refused(name: str) -> None:
    change, named = REFUSED_CONTENTS[name]
    client = Client(script([CLICK, call("switch_tab", index=1), unsafe("double_click", x=1, y=1)]))
    content = await client.content(request())
    contents = copy.deepcopy([TASK, content, answer(content)])
    change(contents)
    assert named in await client.error(request(contents=contents))


async def test_a_number_that_json_lacks_is_refused() -> None:
    client = Client(script())
    content = json.dumps(request(generationConfig={"temperature": float("nan")}))
    path = f"/models/{CURRENT}:generateContent"
    response = await client.http.post(path, content=content)
    assert response.status_code == 400
    assert "Invalid JSON payload" in response.text


async def test_contents_that_are_fine() -> None:
    client = Client(script([CLICK, call("switch_tab", index=1)], [CLICK]))
    first = await client.content(request())
    # A picture is not required, nor an address from a function tool; text may follow.
    told = answer(first, parts=None)
    for part in told["parts"]:
        del part["functionResponse"]["parts"]
    told["parts"][1]["functionResponse"]["response"] = {"output": "ok"}
    told["parts"].append({"text": "Hurry."})
    second = await client.content(request(contents=[TASK, first, told]))
    # Signatures are only required since the user's latest words.
    unsigned = copy.deepcopy(first)
    del unsigned["parts"][0]["thoughtSignature"]
    words = {"role": "user", "parts": [{"text": "And now this."}]}
    done = {"role": "model", "parts": [{"text": "Done."}]}
    later = [TASK, unsigned, answer(unsigned), done, words, second, answer(second)]
    await client.content(request(contents=later))
    # A call made elsewhere has a signature that says so.
    foreign = {**CLICK, "thoughtSignature": "skip_thought_signature_validator"}
    made = {"role": "model", "parts": [foreign]}
    await client.content(request(contents=[TASK, made, answer(made)]))
    assert client.simulator.altered_contents() == [unsigned, done, made]


# Replies and faults -------------------------------------------------------------------------------


async def test_outcomes() -> None:
    policy = scripts.in_order(
        scripts.finished("MALFORMED_FUNCTION_CALL"),
        scripts.blocked_prompt("SAFETY"),
        scripts.no_candidates(),
        SimReply([text("x")], usage=scripts.usage(10, 2, thoughts=3)),
    )
    client = Client(policy)
    malformed, blocked, none, counted = [(await client.send(request())).json() for _ in range(4)]
    assert malformed["candidates"] == [{"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}]
    assert blocked["promptFeedback"]["blockReason"] == "SAFETY"
    assert "candidates" not in blocked
    assert "candidates" not in none
    assert counted["usageMetadata"]["totalTokenCount"] == 15
    assert "cachedContentTokenCount" not in counted["usageMetadata"]


async def test_faults() -> None:
    client = Client(script())
    client.simulator.fail_next(scripts.rate_limited(retry_after="7", retry_info="7s"))
    limited = await client.send(request())
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    assert limited.json()["error"]["details"][0]["retryDelay"] == "7s"
    for fault, status in ((scripts.server_error(), 500), (scripts.unavailable(), 503)):
        client.simulator.fail_next(fault)
        assert (await client.send(request())).status_code == status
    client.simulator.fail_next(scripts.malformed_json())
    with pytest.raises(ValueError):
        (await client.send(request())).json()
    assert (await client.send(request())).status_code == 200
    with client.simulator.serve() as base_url:
        url = f"{base_url}/v1beta/models/{CURRENT}:generateContent"
        headers = {"x-goog-api-key": client.simulator.api_key}
        async with httpx.AsyncClient(headers=headers, timeout=0.5) as http:
            client.simulator.fail_next(scripts.cut_connection())
            with pytest.raises(httpx.RemoteProtocolError):
                await http.post(url, json=request())
            client.simulator.fail_next(scripts.hang())
            with pytest.raises(httpx.ReadTimeout):
                await http.post(url, json=request())
    assert [r.status for r in client.simulator.requests] == [429, 500, 503, 200, 200, 200, 200]


# Solutions ----------------------------------------------------------------------------------------


def test_every_pixel_is_on_the_grid() -> None:
    for px in range(1280):
        for_y = min(px, 719)
        field = grid({"x": px, "y": for_y})
        # Google's conversion; the last column of pixels lies beyond the grid.
        assert abs(field["x"] * 1280 // 1000 - px) <= 1
        assert field["y"] * 720 // 1000 == for_y
        assert min(field.values()) >= 0
        assert max(field.values()) <= 999


def test_solutions_are_in_geminis_words() -> None:
    path = [{"x": 64, "y": 72}, {"x": 640, "y": 360}, {"x": 1152, "y": 648}]
    assert native_calls({"type": "drag", "path": path[::2]}) == [
        call("drag_and_drop", start_x=50, start_y=100, end_x=900, end_y=900)
    ]
    assert native_calls({"type": "drag", "path": path}) == [
        call("mouse_down", x=50, y=100),
        call("move", x=500, y=500),
        call("move", x=900, y=900),
        call("mouse_up", x=900, y=900),
    ]
    scroll = {"type": "scroll", "x": 640, "y": 360, "scroll_x": 0, "scroll_y": -1200}
    amounts = [part["functionCall"]["args"] for part in native_calls(scroll)]
    assert [(args["direction"], args["magnitude_in_pixels"]) for args in amounts] == [
        ("up", 999),
        ("up", 201),
    ]
    with pytest.raises(ValueError, match="teleport"):
        native_calls({"type": "teleport"})
