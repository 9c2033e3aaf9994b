"""The documents say what is so: the reference is the code's, and what they name is there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Client
from docs.examples.family import POLICIES
from docs.examples.lender import Lender
from docs.examples.web_gym import app as web_gym
from docs.examples.word_limit import WordLimitVerifier
from resources_servers.browser_gym.browser.backend import BrowserUnavailable
from resources_servers.browser_gym.browser.session_providers.contract import SessionProvider
from resources_servers.browser_gym.prepare_data import main as prepare_data
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.contract import Evidence, Verifier
from resources_servers.browser_gym.verification.errors import InvalidTask
from responses_api_agents.browser_agent.policies.base import Parsed
from scripts.docs.check import block_faults, faults_of, inline_commands
from scripts.docs.commands import Block, Command, blocks_of, commands_of, documents
from scripts.docs.links import DOCS, ROOT, built
from scripts.docs.not_run import NOT_RUN, STARTED_BEFORE, reason_not_to_run
from scripts.docs.reference import FOLDER, PAGES, made
from scripts.docs.run import run_document
from tests.simulators.http_server import serve


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text("utf-8") == made(name), "run make docs"


def test_documents_name_only_what_is_there() -> None:
    faults = []
    for document in documents():
        commands = list(inline_commands(document))
        for block in blocks_of(document):
            commands += commands_of(block)
            faults += [f"{document}:{block.line}: {fault}" for fault in block_faults(block)]
        faults += [f"{command}: {fault}" for command in commands for fault in faults_of(command)]
    assert faults == []


def test_links_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        built(page, page.read_text("utf-8"))


def test_what_is_not_run_is_there_and_no_more() -> None:
    commands = [
        command
        for document in documents()
        for block in blocks_of(document)
        for command in commands_of(block)
    ]
    assert len(commands) > 40
    for expression, reason in NOT_RUN.items():
        assert any(reason_not_to_run(command) == reason for command in commands), expression
    assert {ROOT / name for name in STARTED_BEFORE} <= set(documents())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("make tset", "make has no target tset"),
        ("cd x && make smoke ULR=http://127.0.0.1:1", "make smoke does not use ULR"),
        ('make demo ARGS="--taks 3"', "scripts/demo.py has no option --taks"),
        ("browser-gym prepare-data --gym x", "has no option --gym"),
        ("browser-gym viwe", "browser-gym has no command viwe"),
        ("browser-gym view x.jsonl | grep a; browser-gym view --prot 1", "no option --prot"),
        ("A=1 gym env start --config configs/none.yaml", "there is no configs/none.yaml"),
        ("gym eval run \\\n  --no-serve --agent nobody", "there is no agent nobody"),
        ("gym env start ++made_up_setting=1", "there is no setting ++made_up_setting=1"),
        ("gym eval rnu", "invalid choice"),
        ("gym env start --conifg x", "there is no setting --conifg"),
        (".venv/bin/python -m tests.nothing", "there is no module tests.nothing"),
        ("python -m resources_servers.browser_gym.prepare_data --gym x", "has no option --gym"),
        ("frobnicate --all", "nobody here knows the program frobnicate"),
    ],
)
def test_what_is_not_there_is_found(text: str, fault: str) -> None:
    assert fault in "; ".join(faults_of(Command(ROOT / "README.md", 1, text)))


@pytest.mark.parametrize(
    ("language", "text", "fault"),
    [
        ("yaml", "g: {resources_servers: {browser_gym: {max_session: 1}}}", "setting max_session"),
        (
            "json",
            '{"responses_create_params": {"input": "a"}, "verifier_metadata": '
            '{"start_url": "http://a.test/", "verifier": "answer", "assertions": [{"tilte": 1}]}}',
            "title",
        ),
    ],
)
def test_wrong_examples_are_found(language: str, text: str, fault: str) -> None:
    assert fault in "; ".join(block_faults(Block(ROOT / "README.md", 1, language, text)))


def test_commands_are_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = ROOT / "results" / f"{tmp_path.name}.md"
    document.parent.mkdir(exist_ok=True)
    out = tmp_path / "out"
    commands = [
        "export GREETING=hello   # not what gym env start prints",
        'say() { echo "$GREETING $1"; }',
        f"cd {tmp_path}",
        "say \\\n  there > out",
        "grep nothing out",
        "rm out",
    ]
    document.write_text("\n".join(["```bash", *commands, "```", ""]), "utf-8")
    try:
        (failed,) = run_document(document)
    finally:
        document.unlink()
    assert "grep nothing out" in failed
    assert "exit code 1" in failed
    assert out.read_text() == "hello there\n", "what comes after a failure is not run"
    assert "rm out" not in capsys.readouterr().out


async def test_the_example_of_a_web_gym(client: Client, tmp_path: Path) -> None:
    with serve(web_gym) as url:
        output = tmp_path / "lamp.jsonl"
        arguments = ["--gym-url", url, "--output", str(output)]
        assert await asyncio.to_thread(prepare_data, arguments) == 0
        row = json.loads(output.read_text())
        rewards = [await played(client, row, presses) for presses in (0, 1, 2)]
    assert rewards == [0, 1, 0]


async def played(client: Client, row: dict[str, Any], presses: int) -> float:
    """Return the reward for pressing the lamp's button so many times."""
    seeded = await client.post("/seed_session", row)
    client.opened.append(seeded["env_id"])
    click = {"type": "click", "x": 180, "y": 130}
    if presses:
        stepped = await client.step(seeded["env_id"], *[click] * presses)
        assert stepped["error"] is None
    response = {"id": "r", "object": "response", "created_at": 0, "model": "m", "output": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    graded = await client.post(
        "/verify", row | {"env_id": seeded["env_id"], "final_answer": "", "response": response}
    )
    assert not graded.get("mask_sample"), graded
    return graded["reward"]


async def test_the_example_of_a_source_of_browsers() -> None:
    lender: SessionProvider = Lender({"machines": {"CRM-": "http://10.0.0.7:9222"}})
    lent = await lender.acquire({"task_id": "CRM-01"})
    assert lent.endpoint == "http://10.0.0.7:9222"
    await lender.release(lent.session_id, broken=False)
    with pytest.raises(BrowserUnavailable, match="DOCS-01"):
        await lender.acquire({"task_id": "DOCS-01"})
    with pytest.raises(ValueError, match="machines"):
        Lender({})
    await lender.close()


@pytest.mark.parametrize(
    ("reply", "meaning"),
    [
        ("I see it.\nCLICK 500 250", Parsed([{"type": "click", "x": 640, "y": 180}])),
        ("TYPE hello there", Parsed([{"type": "type", "text": "hello there"}])),
        ("That is it.\nDONE 42", Parsed(answer="42")),
    ],
)
def test_the_example_of_a_family(reply: str, meaning: Parsed) -> None:
    parsed = POLICIES[0].parse(reply, 1280, 720)
    assert parsed.answer == meaning.answer
    for action, expected in zip(parsed.actions, meaning.actions, strict=True):
        assert action.items() >= expected.items()


@pytest.mark.parametrize("reply", ["", "CLICK here", "CLICK 1 2000", "JUMP", "click 1 2"])
def test_the_example_of_a_family_tells_what_is_wrong(reply: str) -> None:
    assert POLICIES[0].parse(reply, 1280, 720).error


async def test_the_example_of_a_verifier() -> None:
    task = VerifierMetadata.parse({"verifier": "word_limit", "max_words": 2})
    verifier: Verifier = WordLimitVerifier.for_task(task)
    for answer, reward in (("two words", 1), ("now three words", 0), ("", 0)):
        evidence = Evidence("http://a.test", initial={}, final={}, answer=answer)
        assert (await verifier.verify(evidence)).reward == reward
    with pytest.raises(InvalidTask, match="max_words"):
        WordLimitVerifier.for_task(VerifierMetadata.parse({"max_words": "2"}))
