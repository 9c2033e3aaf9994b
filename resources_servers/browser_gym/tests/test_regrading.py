"""What is kept of a graded rollout, and grading it again without a browser."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym.browser.final_state import FinalState
from resources_servers.browser_gym.browser.page_state import Matches, PageState
from resources_servers.browser_gym.grading import MAX_STORAGE_CHARS, Grading, masked, task_text
from resources_servers.browser_gym.tests.grading import seeded, verify
from resources_servers.browser_gym.verification.contract import Evidence, Screenshot
from resources_servers.browser_gym.verification.errors import VerifierError
from resources_servers.browser_gym.verification.evidence_store import EVIDENCE_NAME, EvidenceStore

ORIGIN = "http://127.0.0.1:8777"
EVIDENCE = Evidence(
    ORIGIN,
    {ORIGIN: {"a": "1"}},
    {ORIGIN: {"a": "half \ud800 pair", "b": "ü"}, "http://b.test": {"c": "2"}},
    "It is 42.",
    "Find it.",
    PageState(f"{ORIGIN}/x", [f"{ORIGIN}/x"], "text", {"p": Matches(2, ["one", "two"])}),
    (Screenshot(b"first", "image/jpeg"), Screenshot(b"second", "image/png")),
)


async def again(client: Client, row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Grade a row as `gym eval reverify` does: with the task and what the rollout hands on."""
    handed_on = ("responses_create_params", "response", "verifier_metadata", "deliverables_dir")
    return await client.post("/verify", {key: row[key] for key in handed_on} | fields)


async def test_a_stored_rollout_is_graded_again(
    new_client: ClientFactory, site: str, tmp_path: Path
):
    client = await new_client(evidence_dir=str(tmp_path))
    metadata: dict[str, Any] = {
        "start_url": f"{site}/graded.html",
        "verifier": "all_of",
        "verifiers": [
            {
                "verifier": "page_state",
                "assertions": [
                    {"title": "text", "dom_contains": "Order placed"},
                    {"title": "field", "dom_contains": {"selector": "#name", "text": "Ada"}},
                ],
            },
            {
                "verifier": "local_storage",
                "assertions": [{"title": "left", "query": "left", "equals": "yes"}],
            },
            {"verifier": "answer", "assertions": [{"title": "answer", "answer_number": 42}]},
        ],
    }
    env_id = await seeded(client, metadata)
    row = await verify(client, metadata, env_id, final_answer="It is 42.")
    assert (row["reward"], row["final_local_storage"]) == (1, {"left": "yes"})
    assert await client.sessions() == 0

    assert (await client.http.get("/reverify_mode")).json() == "stateless"
    second = await again(client, row)
    for key in ("reward", "verification_result", "final_url", "final_local_storage"):
        assert second[key] == row[key]
    assert (second["final_answer"], second["mask_sample"]) == ("It is 42.", False)

    stricter = json.loads(json.dumps(metadata).replace("Ada", "Adam"))
    third = await again(client, row, verifier_metadata=stricter)
    assert (third["reward"], third["partial_credit"]) == (0, pytest.approx(2.5 / 3))

    other = json.loads(json.dumps(metadata).replace("#name", "#other"))
    fourth = await again(client, row, verifier_metadata=other)
    assert (fourth["mask_sample"], fourth["failure_kind"]) == (True, "verifier_error")
    assert "'#other' matches was not kept" in fourth["failure_reason"]

    fifth = await again(client, row, deliverables_dir="results/evidence/none")
    assert (fifth["mask_sample"], fifth["failure_kind"]) == (True, "verifier_error")
    assert "cannot be graded again" in fifth["failure_reason"]


async def test_a_row_without_evidence_is_refused_with_the_reason(client: Client, site: str):
    check = {"title": "answer", "answer_exact": "x"}
    metadata = {"start_url": f"{site}/links.html", "verifier": "answer", "assertions": [check]}
    row = await verify(client, metadata, await seeded(client, metadata))
    assert row["deliverables_dir"] is None
    client.http.cookies.clear()  # the one who grades again has not seeded the session
    second = await again(client, row)
    assert (second["mask_sample"], second["failure_kind"]) == (True, "session_lost")
    assert "graded again by its deliverables_dir" in second["failure_reason"]


async def test_evidence_comes_back_as_it_was(tmp_path: Path):
    store = EvidenceStore(Path("kept"), tmp_path)
    reference = await store.save(EVIDENCE)
    assert reference.startswith("kept/")
    assert await store.load(reference) == EVIDENCE
    before = _written(tmp_path)
    assert await store.save(EVIDENCE) == reference
    assert _written(tmp_path) == before
    assert await store.save(replace(EVIDENCE, answer="no")) != reference
    # An absolute folder stays absolute.
    assert await EvidenceStore(tmp_path / "far", Path("/nowhere")).save(EVIDENCE)


async def test_evidence_that_was_changed_is_not_graded(tmp_path: Path):
    store = EvidenceStore(tmp_path, tmp_path)
    for change in (_change_answer, _change_screenshot, _cut, _remove):
        reference = await store.save(EVIDENCE)
        change(Path(reference))
        with pytest.raises(VerifierError, match="cannot be graded again") as caught:
            await store.load(reference)
        assert caught.value.fault.kind == "verifier_error"
        shutil.rmtree(reference)


def _written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def _change_answer(folder: Path) -> None:
    path = folder / EVIDENCE_NAME
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"42", b"43")))


def _change_screenshot(folder: Path) -> None:
    next(folder.glob("*.png")).write_bytes(b"another")


def _cut(folder: Path) -> None:
    path = folder / EVIDENCE_NAME
    path.write_bytes(path.read_bytes()[:-20])


def _remove(folder: Path) -> None:
    next(folder.glob("*.jpg")).unlink()


async def test_what_a_row_shows(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    large = {"key": "x" * MAX_STORAGE_CHARS}
    state = FinalState(ORIGIN, {}, {ORIGIN: large}, "", EVIDENCE.page)
    (tmp_path / "file").write_text("")
    # A folder that cannot be made costs the second grading, not the first.
    grading = Grading("file/evidence", tmp_path)
    evidence, fields = await grading.of_session(state, "yes", "Do it.")
    assert (evidence.task, evidence.answer) == ("Do it.", "yes")
    assert fields == {"final_url": f"{ORIGIN}/x", "final_local_storage": None}
    assert "could not be kept" in caplog.text


def test_what_was_asked():
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "x"}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Do it."},
        {"role": "user", "content": content},
    ]
    assert task_text(messages) == "Do it.\nLook."


def test_a_judge_that_fails_goes_to_the_failures_of_a_run():
    assert masked("judge_failed", "r")["_ng_failure_class"] == "judge_failed"
    assert masked("judge_unparseable", "r")["_ng_failure_class"] == "judge_invalid"
    assert "_ng_failure_class" not in masked("session_lost", "r")
