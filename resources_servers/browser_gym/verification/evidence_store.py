"""Keeps what was graded in files, so that it can be graded again without a browser.

Each evidence is a folder named by the hash of its content: `evidence.json.gz` and the screenshots,
named by their own hashes. It never changes once written, and what does not match its name is not
graded.
"""

import asyncio
import base64
import binascii
import gzip
import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resources_servers.browser_gym.browser.page_state import Matches, PageState
from resources_servers.browser_gym.verification.contract import Evidence, Screenshot
from resources_servers.browser_gym.verification.errors import VerifierError
from resources_servers.browser_gym.write_once import write_once

EVIDENCE_NAME = "evidence.json.gz"
_SUFFIXES = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
_MEDIA_TYPES = {suffix: media_type for media_type, suffix in _SUFFIXES.items()}
_NAME = re.compile(r"([0-9a-f]{64})\.(jpg|png|webp)")
_FOLDER_NAME_CHARS = 32


class EvidenceStore:
    """Writes evidence under one folder and reads it back.

    Args:
        folder: Where new evidence goes, relative to `root` or absolute; made when needed.
        root: What relative references start from.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root

    async def save(self, evidence: Evidence) -> str:
        """Writes evidence, if it is not there yet, and returns the reference to read it by.

        Raises:
            OSError: It could not be written.
        """
        name = await asyncio.to_thread(_write, self._root / self._folder, evidence)
        return str(self._folder / name)

    async def load(self, reference: str) -> Evidence:
        """Returns the evidence of a reference.

        Raises:
            VerifierError: It is not there, or is not what was written.
        """
        try:
            return await asyncio.to_thread(_read, self._root / reference)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise VerifierError(
                f"the evidence in {reference!r} cannot be graded again: "
                f"{type(error).__name__}: {error}"
            ) from error


def screenshot_names(evidence: Evidence) -> list[str]:
    """Returns the names of the files that hold the screenshots, in order."""
    return [_screenshot_name(screenshot) for screenshot in evidence.screenshots]


def _screenshot_name(screenshot: Screenshot) -> str:
    digest = hashlib.sha256(screenshot.data).hexdigest()
    return f"{digest}.{_SUFFIXES[screenshot.media_type]}"


def _write(folder: Path, evidence: Evidence) -> str:
    kept: dict[str, Any] = {
        "task": evidence.task,
        "answer": evidence.answer,
        "start_origin": evidence.start_origin,
        "page": asdict(evidence.page),
        "screenshots": screenshot_names(evidence),
        "initial": {origin: dict(items) for origin, items in evidence.initial.items()},
        "final": {origin: dict(items) for origin, items in evidence.final.items()},
    }
    # ASCII keeps what UTF-8 cannot hold: a page's unpaired surrogates.
    text = json.dumps(kept, ensure_ascii=True, sort_keys=True).encode("ascii")
    name = hashlib.sha256(text).hexdigest()[:_FOLDER_NAME_CHARS]
    target = folder / name
    for screenshot in evidence.screenshots:
        write_once(target / _screenshot_name(screenshot), screenshot.data)
    # Last: whoever finds it finds the screenshots too.
    write_once(target / EVIDENCE_NAME, gzip.compress(text, 6, mtime=0))
    return name


def _read(folder: Path) -> Evidence:
    text = gzip.decompress((folder / EVIDENCE_NAME).read_bytes())
    if hashlib.sha256(text).hexdigest()[:_FOLDER_NAME_CHARS] != folder.name:
        raise ValueError(f"{EVIDENCE_NAME} is not what was written")
    kept = json.loads(text)
    page = kept["page"]
    found = {selector: Matches(**matches) for selector, matches in page.pop("found").items()}
    return Evidence(
        start_origin=kept["start_origin"],
        initial=kept["initial"],
        final=kept["final"],
        answer=kept["answer"],
        task=kept["task"],
        page=PageState(**page, found=found),
        screenshots=tuple(_read_screenshot(folder, name) for name in kept["screenshots"]),
    )


def _read_screenshot(folder: Path, name: str) -> Screenshot:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise ValueError(f"{name!r} is not the name of a screenshot")
    data = (folder / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != parts[1]:
        raise ValueError(f"{name} is not what was written")
    return Screenshot(data, _MEDIA_TYPES[parts[2]])


def decoded(data: str, media_type: str) -> Screenshot:
    """Returns the screenshot that a base64 text holds; raises `VerifierError` if it is none."""
    try:
        return Screenshot(base64.b64decode(data, validate=True), media_type)
    except binascii.Error as error:
        raise VerifierError(f"a screenshot is not base64: {error}") from error
