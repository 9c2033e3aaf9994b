"""The scripted model: scripts, the place of a request in one, and the server over HTTP."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from responses_api_models.scripted_model.app import (
    ScriptedModel,
    ScriptedModelConfig,
    load_scripts,
    main,
)
from responses_api_models.scripted_model.reply import TOKENS_PER_IMAGE, build_reply
from responses_api_models.scripted_model.script import (
    InvalidScript,
    Script,
    UnplaceableRequest,
    parse_scripts,
)
from tests.simulators.openai_items import Ledger, check_input
from tests.simulators.openai_rules import check_request

PROJECT = Path(__file__).resolve().parents[3]
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Json = dict[str, Any]

CLICK = {"type": "click", "button": "left", "x": 10, "y": 20}
TYPE = {"type": "type", "text": "Ada"}
ENTER = {"type": "keypress", "keys": ["ENTER"]}
SCREENSHOT = {"type": "screenshot"}
PROMPT = "Rename the lead."
DOCUMENT: Json = {
    "CRM_01-a": {
        "prompt": PROMPT,
        "turns": [
            {"actions": [SCREENSHOT]},
            {"actions": [CLICK, SCREENSHOT, TYPE], "message": "I fill in the name."},
            {"function": {"name": "switch_tab", "arguments": {"index": 1}}},
            {"actions": [ENTER], "function": {"name": "go_back", "arguments": {}}},
            {"answer": "Renamed."},
        ],
    },
    "SHOP-02": {"prompt": "Buy it.", "turns": [{"actions": [CLICK]}]},
}
COMPUTER = {"type": "computer"}
PREVIEW = {
    "type": "computer_use_preview",
    "display_width": 1280,
    "display_height": 720,
    "environment": "browser",
}


def function_tool(name: str, **properties: Any) -> Json:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "parameters": schema, "strict": True}


FUNCTIONS = [
    function_tool("navigate", url={"type": "string"}),
    function_tool("new_tab", url={"type": "string"}),
    function_tool("switch_tab", index={"type": "integer"}),
    *(
        function_tool(name)
        for name in ("go_back", "go_forward", "reload", "close_tab", "list_tabs")
    ),
]


def task(text: str) -> Json:
    """The first user message as the agent sends it: the task, then the first screenshot."""
    image = {"type": "input_image", "image_url": PIXEL, "detail": "original"}
    return {"role": "user", "content": [{"type": "input_text", "text": text}, image]}


def answers(output: list[Json]) -> list[Json]:
    items: list[Json] = []
    for item in output:
        if item["type"] == "computer_call":
            shot = {"type": "computer_screenshot", "image_url": PIXEL}
            kind = "computer_call_output"
            items.append({"type": kind, "call_id": item["call_id"], "output": shot})
        elif item["type"] == "function_call":
            kind = "function_call_output"
            items.append({"type": kind, "call_id": item["call_id"], "output": "ok"})
    return items


class Conversation:
    """Plays an agent, and holds every request against the strict rules of the real API."""

    def __init__(
        self, scripts: dict[str, Script], text: str, *, stateless: bool, preview: bool = False
    ) -> None:
        self.scripts = scripts
        self.stateless = stateless
        self.ledger = Ledger()
        self.history: list[Json] = []
        self.new: list[Json] = [task(text)]
        self.previous: str | None = None
        self.replies: list[Json] = []
        tools = [PREVIEW if preview else COMPUTER, *FUNCTIONS]
        self.body = {"tools": tools} | ({"truncation": "auto"} if preview else {})
        self.model = "computer-use-preview" if preview else "gpt-5.4"

    def step(self) -> Json:
        body = dict(self.body)
        if self.stateless:
            body |= {"store": False, "input": self.history + self.new}
        else:
            body |= {"input": self.new, "previous_response_id": self.previous}
        strict = {name: value for name, value in body.items() if value is not None}
        check_request(strict | {"model": self.model})
        seen = check_input(strict | {"model": self.model}, self.ledger)
        NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
        token = f"{len(self.replies):032x}"
        reply = build_reply(body, self.scripts, token=token, now=0)
        validated = NeMoGymResponse.model_validate(reply)
        assert validated.model_dump(mode="json", exclude_unset=True) == reply
        self.ledger.conversations[reply["id"]] = seen + reply["output"]
        self.history = self.history + self.new + reply["output"]
        self.new = answers(reply["output"])
        self.previous = reply["id"]
        self.replies.append(reply)
        return reply

    def play(self) -> list[Json]:
        """Go on until a reply makes no call."""
        while not self.replies or self.new:
            self.step()
        return self.replies


def kinds(reply: Json) -> list[str]:
    return [item["type"] for item in reply["output"]]


def final_text(reply: Json) -> str:
    return reply["output"][-1]["content"][0]["text"]


@pytest.fixture
def scripts() -> dict[str, Script]:
    return parse_scripts(DOCUMENT)


@pytest.mark.parametrize("stateless", [True, False])
def test_the_general_tool_gets_a_batch_per_turn(
    scripts: dict[str, Script], stateless: bool
) -> None:
    replies = Conversation(scripts, PROMPT, stateless=stateless).play()
    assert [kinds(reply) for reply in replies] == [
        ["computer_call"],
        ["message", "computer_call"],
        ["function_call"],
        ["computer_call", "function_call"],
        ["message"],
    ]
    assert replies[1]["output"][0]["content"][0]["text"] == "I fill in the name."
    assert replies[1]["output"][1]["actions"] == [CLICK, SCREENSHOT, TYPE]
    assert replies[2]["output"][0]["arguments"] == '{"index": 1}'
    assert final_text(replies[4]) == "Renamed."
    assert [reply["id"].rsplit("_", 1)[0] for reply in replies] == [
        f"resp_CRM_01-a_{turn}" for turn in range(5)
    ]


@pytest.mark.parametrize("stateless", [True, False])
def test_the_preview_tool_gets_one_action_per_reply(
    scripts: dict[str, Script], stateless: bool
) -> None:
    replies = Conversation(scripts, PROMPT, stateless=stateless, preview=True).play()
    calls = [item for reply in replies for item in reply["output"] if "action" in item]
    assert [call["action"] for call in calls] == [SCREENSHOT, CLICK, TYPE, ENTER]
    assert not any("actions" in call for call in calls)
    assert [kinds(reply) for reply in replies] == [
        ["computer_call"],
        ["message", "computer_call"],
        ["computer_call"],
        ["function_call"],
        ["computer_call", "function_call"],
        ["message"],
    ]


@pytest.mark.parametrize("stateless", [True, False])
def test_past_its_end_a_script_says_so(scripts: dict[str, Script], stateless: bool) -> None:
    conversation = Conversation(scripts, "Buy it.", stateless=stateless)
    replies = conversation.play()
    assert final_text(replies[-1]) == "The script of task SHOP-02 has ended."
    conversation.new = [{"role": "user", "content": "Go on."}]
    assert final_text(conversation.step()) == "The script of task SHOP-02 has ended."


@pytest.mark.parametrize("stateless", [True, False])
def test_a_task_without_a_script_is_told_so(scripts: dict[str, Script], stateless: bool) -> None:
    conversation = Conversation(scripts, "Something else.", stateless=stateless)
    assert final_text(conversation.step()) == "There is no script for this task."
    conversation.new = [{"role": "user", "content": "Go on."}]
    assert final_text(conversation.step()) == "There is no script for this task."


def test_the_turn_is_read_from_the_ids_so_a_pruned_history_still_fits(
    scripts: dict[str, Script],
) -> None:
    conversation = Conversation(scripts, PROMPT, stateless=True)
    conversation.step()
    conversation.step()
    first = conversation.replies[0]["output"] + answers(conversation.replies[0]["output"])
    conversation.history = [item for item in conversation.history if item not in first]
    assert kinds(conversation.step()) == ["function_call"]


def test_examples_in_the_prompt_are_not_turns(scripts: dict[str, Script]) -> None:
    examples = [
        {"role": "system", "content": PROMPT},
        {"role": "user", "content": "Say hello."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": PROMPT},
    ]
    reply = build_reply({"input": examples, "tools": [COMPUTER]}, scripts, token="0", now=0)
    assert reply["id"] == "resp_CRM_01-a_0_0"
    text = build_reply({"input": PROMPT, "tools": [COMPUTER]}, scripts, token="0", now=0)
    assert text["id"] == reply["id"]
    other = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "Hello."}]
    unscripted = build_reply({"input": other}, scripts, token="0", now=0)
    assert final_text(unscripted) == "There is no script for this task."


def first_call(scripts: dict[str, Script]) -> Json:
    return build_reply({"input": PROMPT, "tools": [COMPUTER]}, scripts, token="a1", now=0)


def test_requests_that_cannot_be_placed(scripts: dict[str, Script]) -> None:
    reply = first_call(scripts)
    (call,) = reply["output"]
    (answer,) = answers([call])
    foreign = call | {"id": "cu_x", "call_id": "call_x"}
    for changes, reason in (
        ({"input": "x", "previous_response_id": "resp_1"}, "'resp_1' not found"),
        ({"input": "x", "previous_response_id": "resp_GONE_0_a1"}, "'resp_GONE_0_a1' not found"),
        ({"input": "x", "previous_response_id": reply["id"]}, "No tool output found for call"),
        (
            {"input": [answer, answer | {"call_id": "c"}], "previous_response_id": reply["id"]},
            "No tool call found for output of c",
        ),
        ({"input": [task(PROMPT), call]}, "No tool output found for call"),
        ({"input": [task(PROMPT), answer]}, "No tool call found for output"),
        ({"input": [task(PROMPT), foreign]}, "Call call_x was not made by the scripted model"),
        ({"input": PROMPT, "tools": FUNCTIONS}, "Turn 0 of task CRM_01-a needs a computer tool"),
        ({"input": PROMPT, "tools": []}, "needs a computer tool"),
    ):
        with pytest.raises(UnplaceableRequest, match=reason):
            build_reply({"tools": [COMPUTER], **changes}, scripts, token="b2", now=0)


def test_a_function_must_be_offered() -> None:
    turns = [{"function": {"name": "switch_tab", "arguments": {"index": 1}}}]
    scripts = parse_scripts({"T": {"prompt": "Go.", "turns": turns}})
    body = {"input": "Go.", "tools": [function_tool("reload")]}
    with pytest.raises(UnplaceableRequest, match=r"needs the function 'switch_tab'.*\['reload'\]"):
        build_reply(body, scripts, token="0", now=0)


@pytest.mark.parametrize("stateless", [True, False])
def test_usage_grows_with_the_conversation(scripts: dict[str, Script], stateless: bool) -> None:
    replies = Conversation(scripts, PROMPT, stateless=stateless).play()
    usages = [reply["usage"] for reply in replies]
    inputs = [usage["input_tokens"] for usage in usages]
    assert inputs == sorted(set(inputs))
    assert inputs[0] > TOKENS_PER_IMAGE
    assert usages[0]["input_tokens_details"]["cached_tokens"] == 0
    for usage in usages[1:]:
        cached = usage["input_tokens_details"]["cached_tokens"]
        assert 1024 <= cached <= usage["input_tokens"]
        assert cached % 128 == 0
    for usage in usages:
        assert usage["output_tokens"] > 0
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def one_turn(turn: Any) -> Json:
    return {"T": {"prompt": "Go.", "turns": [turn]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "object"),
        ({"T": {"prompt": "Go."}}, "T: needs a 'prompt' and a list of 'turns'"),
        ({"T": {"prompt": " ", "turns": []}}, "T: 'prompt' must be the task's text"),
        (
            {"T": {"prompt": "Go.", "turns": []}, "U": {"prompt": "Go.", "turns": []}},
            "U: has the same 'prompt' as T; scripts are told apart by it",
        ),
        (one_turn({"action": []}), "T: turn 0: must be an object with the fields"),
        (one_turn({"message": "hi"}), "T: turn 0: needs 'actions'"),
        (one_turn({"answer": "x", "actions": [CLICK]}), "'answer' must be a text, alone"),
        (
            {"T": {"prompt": "Go.", "turns": [{"answer": "x"}, {"actions": [CLICK]}]}},
            "turn 0: 'answer' must be a text, alone, and in the last turn",
        ),
        (one_turn({"function": {"name": "f"}}), "'function' needs a 'name'"),
        (one_turn({"actions": [CLICK], "message": 1}), "'message' must be a text"),
        (one_turn({"actions": [{"type": "zoom"}]}), "action 0 is no computer action: .*'zoom'"),
        (
            one_turn({"actions": [CLICK, {"type": "move", "x": 1}]}),
            "action 1 is no computer action: 'y': Field",
        ),
        (one_turn({"actions": [CLICK | {"z": 1}]}), "action 0: unknown field 'z'"),
        (one_turn({"actions": ["click"]}), "action 0 is no computer action"),
    ],
)
def test_scripts_that_cannot_be_followed(document: Any, message: str) -> None:
    with pytest.raises(InvalidScript, match=message):
        parse_scripts(document)


def server(scripts_path: str) -> ScriptedModel:
    config = ScriptedModelConfig(
        host="127.0.0.1",
        port=1,
        entrypoint="app.py",
        name="policy_model",
        scripts_path=scripts_path,
    )
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = OmegaConf.create({})
    return ScriptedModel(config=config, server_client=client)


@pytest.fixture
def scripts_path(tmp_path: Path) -> Path:
    path = tmp_path / "scripts.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


async def test_the_server(scripts_path: Path) -> None:
    app = server(str(scripts_path)).setup_webserver()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        body: Json = {"input": [task(PROMPT)], "tools": [COMPUTER, *FUNCTIONS]}
        replies = []
        while True:
            response = await client.post("/v1/responses", json=body)
            assert response.status_code == 200, response.text
            replies.append(response.json())
            outputs = answers(replies[-1]["output"])
            if not outputs:
                break
            body |= {"input": outputs, "previous_response_id": replies[-1]["id"]}
        assert len(replies) == 5
        assert final_text(replies[-1]) == "Renamed."
        ids = [item["id"] for reply in replies for item in reply["output"]]
        assert len(set(ids)) == len(ids)

        body = {"input": "x", "previous_response_id": "resp_1"}
        refused = await client.post("/v1/responses", json=body)
        assert refused.status_code == 400
        assert refused.json()["error"] == {
            "message": "Previous response with id 'resp_1' not found.",
            "type": "invalid_request_error",
            "code": None,
        }
        body = {"messages": [{"role": "user", "content": "hi"}]}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 501


def test_scripts_are_found_from_the_project_root() -> None:
    with pytest.raises(InvalidScript, match=r"no/such\.json: No such file"):
        server("no/such.json")


def test_a_broken_scripts_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scripts.json"
    path.write_text("{")
    with pytest.raises(InvalidScript, match=r"scripts\.json: not JSON"):
        load_scripts(path)
    path.write_text("[]")
    with pytest.raises(InvalidScript, match=r"scripts\.json: the scripts file must hold"):
        load_scripts(path)


def test_bad_scripts_end_the_server_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedModel, "run_webserver", lambda: server("no/such.json"))
    with pytest.raises(SystemExit, match=r"^scripted_model: scripts_path: cannot read"):
        main()


def test_every_demo_script_can_be_played() -> None:
    config = OmegaConf.load(
        PROJECT / "responses_api_models/scripted_model/configs/scripted_model.yaml"
    )
    path = config.policy_model.responses_api_models.scripted_model.scripts_path
    scripts = load_scripts(PROJECT / path)
    assert scripts
    for script in scripts.values():
        for stateless in (True, False):
            for preview in (True, False):
                conversation = Conversation(
                    scripts, script.prompt, stateless=stateless, preview=preview
                )
                replies = conversation.play()
                assert final_text(replies[-1]) == script.turns[-1].answer
                expected = script.single_actions() if preview else script
                assert len(replies) == len(expected.turns)
