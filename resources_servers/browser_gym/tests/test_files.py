"""Files that pages ask for, and files that they give: never a dialog, always within bounds."""

import asyncio
import base64
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from playwright.async_api import FileChooser

from conftest import Client
from resources_servers.browser_gym.browser import downloads
from resources_servers.browser_gym.browser.uploads import Uploads
from resources_servers.browser_gym.task_row import VerifierMetadata
from resources_servers.browser_gym.verification.errors import InvalidTask
from tests.clicks import click_way, events_of, new_session
from tests.waiting import eventually

SCREENSHOT = {"type": "screenshot"}
LATE_S = 0.5  # longer than a page must be quiet
FILES = {
    "notes.txt": {"text": "Grüße"},
    "data.bin": {"base64": base64.b64encode(b"bytes").decode()},
}
ONE, SEVERAL, OPENER, ZONE, TEXT = (
    {"x": 100, "y": y} for y in (40, 100, 160, 220, 280)
)  # points in uploads.html


def click(point: dict[str, Any]) -> dict[str, Any]:
    return {"type": "click", **point}


async def uploads(client: Client, site: str, files: dict[str, Any] = FILES) -> str:
    """Open a session on uploads.html that offers files."""
    task = {
        "task_id": "T",
        "start_url": f"{site}/uploads.html",
        "verifier": "local_storage",
        "assertions": [{"title": "t", "only_changed": []}],
        "browser": {"files": files},
    }
    seeded = await client.post("/seed_session", {"verifier_metadata": task})
    client.opened.append(seeded["env_id"])
    return seeded["env_id"]


async def stored(client: Client, env_id: str, key: str) -> Any:
    dump = json.loads((await client.storage(env_id))["local_storage_dump"])
    return json.loads(dump[key])


@pytest.mark.parametrize(("point", "key"), [(ONE, "one"), (OPENER, "concealed")])
async def test_a_name_is_typed_when_a_page_asks_for_a_file(
    client: Client, site: str, point: dict[str, Any], key: str
) -> None:
    env_id = await uploads(client, site)
    answer = await client.step(env_id, click(point))
    assert answer["events"] == [
        {"type": "file_chooser", "files": ["notes.txt", "data.bin"], "multiple": False}
    ]
    # Looking around leaves the question open; Enter is the dialog's, as on a desktop.
    await client.step(env_id, SCREENSHOT, {"type": "find", "query": "drop"})
    answer = await client.step(
        env_id, {"type": "type", "text": "notes.txt"}, {"type": "key", "chords": [["Enter"]]}
    )
    assert answer["results"][0]["text"] == "chosen: notes.txt"
    assert (answer["title"], answer["events"]) == (f"{key} 1", [])
    assert await stored(client, env_id, key) == {"files": {"notes.txt": "Grüße"}, "trusted": True}


async def test_several_names_are_typed_on_lines(client: Client, site: str) -> None:
    env_id = await uploads(client, site)
    answer = await client.step(env_id, click(SEVERAL))
    assert answer["events"][0]["multiple"]
    text = '"data.bin"\n/home/ann/notes.txt\n'
    answer = await client.step(env_id, {"type": "type", "text": text})
    assert answer["results"][0]["text"] == "chosen: data.bin, notes.txt"
    files = (await stored(client, env_id, "several"))["files"]
    assert files == {"data.bin": "bytes", "notes.txt": "Grüße"}


async def test_wrong_names_are_told_and_the_question_stays_open(client: Client, site: str) -> None:
    env_id = await uploads(client, site)
    await client.step(env_id, click(ONE))
    for text, error in (
        ("other.txt", "there is no file 'other.txt' to choose: there are 'notes.txt', 'data.bin'"),
        ("notes.txt\ndata.bin", "the page takes one file"),
        ("\n", "type the name of a file, or press Escape"),
    ):
        answer = await client.step(env_id, {"type": "type", "text": text})
        assert error in answer["error"]
    answer = await client.step(env_id, {"type": "type", "text": "data.bin"})
    assert answer["title"] == "one 1"


async def test_escape_or_going_on_cancels_the_question(client: Client, site: str) -> None:
    env_id = await uploads(client, site)
    answer = await client.step(env_id, click(ONE), {"type": "key", "chords": [["esc"]]})
    assert answer["title"] == "one cancelled"
    answer = await client.step(env_id, click(OPENER), click(TEXT))
    assert answer["title"] == "concealed cancelled"
    await client.step(env_id, {"type": "type", "text": "notes.txt"})
    dump = json.loads((await client.storage(env_id))["local_storage_dump"])
    assert dump == {"text": "notes.txt"}  # the page's own field got it
    # With a point, text that is no file's name is for the page too.
    await client.step(env_id, click(ONE), {"type": "type", "text": "more", **TEXT})
    dump = json.loads((await client.storage(env_id))["local_storage_dump"])
    assert dump["text"] == "notes.txtmore"


async def test_question_that_is_told_late_is_waited_for(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Uploads.asked

    def late(self: Uploads, chooser: FileChooser) -> None:
        asyncio.get_running_loop().call_later(LATE_S, asked, self, chooser)

    monkeypatch.setattr(Uploads, "asked", late)
    env_id = await uploads(client, site)
    answer = await client.step(env_id, click(ONE), {"type": "key", "chords": [["esc"]]})
    assert (answer["results"][1]["text"], answer["title"]) == (
        "no file was chosen",
        "one cancelled",
    )
    answer = await client.step(env_id, click(OPENER))
    assert len(events_of(answer, "file_chooser")) == 1
    env_id = await uploads(client, site, {})
    answer = await client.step(env_id, click(ONE))
    assert (answer["title"], len(answer["events"])) == ("one cancelled", 1)


async def test_without_files_the_question_is_cancelled(client: Client, site: str) -> None:
    env_id = await uploads(client, site, {})
    answer = await client.step(env_id, click(ONE))
    assert answer["events"] == [{"type": "file_chooser", "files": [], "multiple": False}]
    assert answer["title"] == "one cancelled"


async def test_set_value_chooses_and_drops_files(client: Client, site: str) -> None:
    env_id = await uploads(client, site)
    answer = await client.step(
        env_id, {"type": "set_value", "value": ["notes.txt", "data.bin"], **SEVERAL}
    )
    assert answer["results"][0]["text"] == "chosen: notes.txt, data.bin"
    assert answer["title"] == "several 2"
    answer = await client.step(env_id, {"type": "set_value", "value": "data.bin", **ZONE})
    assert answer["results"][0]["text"].startswith('dropped on div "Drop files here": data.bin')
    assert await stored(client, env_id, "zone") == {"files": {"data.bin": "bytes"}, "trusted": True}
    for point, value, error in (
        (ONE, ["notes.txt", "data.bin"], "takes one file"),
        (ONE, "other.txt", "there is no file 'other.txt'"),
        (ZONE, "other.txt", "this is no field"),
    ):
        answer = await client.step(env_id, {"type": "set_value", "value": value, **point})
        assert error in answer["error"]
    await client.step(env_id, {"type": "set_value", "value": "notes.txt", **TEXT})
    dump = json.loads((await client.storage(env_id))["local_storage_dump"])
    assert dump["text"] == "notes.txt"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a/b.txt": {"text": ""}}, "give a plain file name"),
        ({"..": {"text": ""}}, "give a plain file name"),
        ({"a.txt": "text"}, "browser.files.a.txt"),
        ({"a.txt": {}}, "give either 'text' or 'base64'"),
        ({"a.txt": {"base64": "%"}}, "not base64"),
    ],
)
def test_unusable_files_are_named(files: Any, message: str) -> None:
    with pytest.raises(InvalidTask, match=message):
        VerifierMetadata.parse({"browser": {"files": files}})


@pytest.mark.usefixtures("time_for_downloads")
@pytest.mark.parametrize(
    ("way", "name", "size"),
    [("blobdownload", "blob.txt", 11), ("attribute", "page.html", None), ("newtab", "tab.csv", 8)],
)
async def test_downloads_of_every_kind_are_told_in_their_step(
    client: Client, site: str, way: str, name: str, size: int | None
) -> None:
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, way)
    (told,) = events_of(answer, "download")
    assert told["filename"] == name
    assert size in (None, told["bytes"])
    # No empty tab stays behind, and the page is where it was.
    assert (answer["title"], len(answer["tabs"])) == ("Clicks", 1)


@pytest.mark.usefixtures("time_for_downloads")
async def test_address_of_a_download_is_not_an_error(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    url = f"{site}/download/direct.csv"
    answer = await client.step(env_id, {"type": "navigate", "url": url})
    assert (answer["error"], answer["title"]) == (None, "Second")
    assert [event["filename"] for event in events_of(answer, "download")] == ["direct.csv"]


@pytest.mark.usefixtures("time_for_downloads")
async def test_what_was_downloaded_can_be_uploaded(client: Client, site: str) -> None:
    env_id = await uploads(client, site)
    for _ in range(2):
        url = f"{site}/download/notes.csv"
        await client.step(env_id, {"type": "navigate", "url": url})
    answer = await client.step(env_id, click(ONE))
    assert answer["events"][0]["files"][-2:] == ["notes.txt", "data.bin"]
    assert set(answer["events"][0]["files"]) > {"notes.csv", "notes (1).csv"}
    await client.step(env_id, {"type": "type", "text": "notes (1).csv"})
    assert (await stored(client, env_id, "one"))["files"] == {"notes (1).csv": "a,b\n1,2\n"}


async def failure(client: Client, env_id: str, answer: dict[str, Any]) -> str:
    """Return why a download failed, as soon as that is told, in `answer` or later."""
    reasons = [event["reason"] for event in events_of(answer, "download_failed")]

    async def told() -> bool:
        if not reasons:
            answer = await client.step(env_id, SCREENSHOT)
            reasons.extend(event["reason"] for event in events_of(answer, "download_failed"))
        return bool(reasons)

    await eventually(told)
    return reasons[0]


async def test_endless_download_is_told_and_ends(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_WAIT_S", 0.1)
    monkeypatch.setattr(downloads, "MAX_DOWNLOAD_BYTES", 1_000_000)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "endless")
    begun = [event["filename"] for event in events_of(answer, "download_started")]
    assert begun == ["endless.bin"]
    assert "may have 1000000 bytes together" in await failure(client, env_id, answer)

    monkeypatch.setattr(downloads, "DOWNLOAD_TIMEOUT_S", 0.3)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "endless")
    assert "did not end within 0.3 s" in await failure(client, env_id, answer)


async def test_session_ends_while_a_download_runs(client: Client, site: str) -> None:
    env_id = await new_session(client, site)
    await click_way(client, env_id, site, "endless")
    async with asyncio.timeout(downloads.DOWNLOAD_TIMEOUT_S / 2):
        await client.post("/close", {"env_id": env_id})


@pytest.mark.usefixtures("time_for_downloads")
async def test_downloads_without_number_are_refused(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_DOWNLOADS", 3)
    env_id = await new_session(client, site)
    answer = await click_way(client, env_id, site, "many")
    kept = events_of(answer, "download")
    failed = events_of(answer, "download_failed")

    async def all_told() -> bool:
        # Some may begin only after the page is quiet.
        if len(kept) + len(failed) < 5:
            answer = await client.step(env_id, SCREENSHOT)
            kept.extend(events_of(answer, "download"))
            failed.extend(events_of(answer, "download_failed"))
        return len(kept) + len(failed) >= 5

    await eventually(all_told)
    assert len(kept) == 3
    assert [event["reason"] for event in failed] == [
        "at most 3 files can be downloaded in one session"
    ] * 2


async def test_downloads_that_start_together_are_counted_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_DOWNLOADS", 1)
    source = tmp_path / "source"
    source.write_text("a,b")
    download = MagicMock(suggested_filename="a.csv", url="http://a.test/a.csv")
    download.path = AsyncMock(return_value=source)
    download.save_as = AsyncMock(side_effect=lambda target: shutil.copy(source, target))
    download.cancel, download.delete = AsyncMock(), AsyncMock()
    told: list[str] = []
    saved = downloads.Downloads(tmp_path, lambda kind, **fields: told.append(kind))
    saved.start(download)
    saved.start(download)
    await saved.pause()
    assert sorted(told) == ["download", "download_failed"]


@pytest.mark.parametrize(
    ("suggested", "saved"),
    [
        ("report.csv", "report.csv"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/etc/shadow", "shadow"),
        ("C:\\x\\a.txt", "a.txt"),
        ("..", "download"),
        (".", "download"),
        ("", "download"),
        (" . . ", "download"),
        ("a\x00b\n.txt", "a_b_.txt"),
        ("x" * 400 + ".csv", "x" * 180 + ".csv"),
        ("é" * 400, "é" * 90),
        ("a." + "b" * 400, "a." + "b" * 20),
        (".bashrc", "bashrc"),
    ],
)
def test_names_that_downloads_are_saved_under(suggested: str, saved: str) -> None:
    assert downloads.safe_name(suggested) == saved


@pytest.mark.usefixtures("time_for_downloads")
async def test_downloads_stay_in_the_folder_of_their_session(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    keep = downloads.Downloads._keep

    async def kept(self: Any, download: Any, name: str) -> None:
        folders.append(self._folder)
        await keep(self, download, name)

    monkeypatch.setattr(downloads.Downloads, "_keep", kept)
    env_id = (await client.seed(f"{site}/second.html"))["env_id"]
    names = ["..%2F..%2Fup.csv", "%2Fabsolute.csv", "..", "y" * 300 + ".csv", "nul%00.csv", "CON"]
    for name in names:
        answer = await client.step(
            env_id, {"type": "navigate", "url": f"{site}/download-as?{name}"}
        )
        assert len(events_of(answer, "download")) == 1, (name, answer["events"])
    files = [path for path in folders[0].parent.rglob("*") if path.is_file()]
    assert len(files) == len(names)
    assert {path.parent for path in files} == {folders[0]}
    await client.post("/close", {"env_id": env_id})
    assert not folders[0].parent.exists()
