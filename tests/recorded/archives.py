"""What the three providers' APIs really answered, as other projects recorded it for their tests.

The recordings are in source archives that these projects publish (all free software). Nothing of
them is part of this repository: the archives come through uv and pip, so the user's own registry
settings hold, are checked against the hashes below, and what is needed stays in `cache/recorded`.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.apps.packages import run

Json = dict[str, Any]

CACHE = Path(__file__).parents[2] / "cache" / "recorded"
# Name, version and SHA-256 of each archive. MIT: mirascope, langchain; Apache-2.0: the others.
ARCHIVES = (
    ("mirascope", "2.8.2", "743079786d5015a8953e4221d99333b54a59d24272ae365d8a9b4ffb89c8d7c9"),
    (
        "langchain-anthropic",
        "1.7.10",
        "72869686960b3d6665f99e7c91c9f6dd4a1d9ccf73d23edd8702eb603cc2e498",
    ),
    (
        "langchain-openai",
        "1.7.4",
        "8fd90e41588526d990f32262447adf8e130d7ce28ed66cefa315e64cc9dd12ce",
    ),
    (
        "opentelemetry-instrumentation-anthropic",
        "0.62.4",
        "861d893c0e20022fa5bee6134cc36c1b5bf847cf831ec0d8b78b0a8267e2a21b",
    ),
    (
        "opentelemetry-instrumentation-google-genai",
        "1.3b0",
        "d818c8a3613d77f5b6cb97b1b9dd208df711ac8c7892f9303cb3336b134ceca6",
    ),
    (
        "openinference-instrumentation-google-genai",
        "1.4.14",
        "75fc9c49a27327e25c8802fb23dbeb80839988a17fb6b6ee5dedaa20912bb3d7",
    ),
)
# What of an address says which API it is. Some recordings hide the address.
_ADDRESSES = {"anthropic": "/v1/messages", "gemini": ":generateContent", "openai": "/responses"}


@dataclass(frozen=True)
class Exchange:
    """One answer of a provider.

    Attributes:
        provider: `anthropic`, `gemini` or `openai`.
        source: Where it was recorded: archive, file and number.
        status: The HTTP status.
        request: The request's body, as text.
        reply: The answer's body, as text: a JSON object.
    """

    provider: str
    source: str
    status: int
    request: str
    reply: str


def load() -> list[Exchange]:
    """Return all recorded answers, each once; downloads the archives at first use.

    Raises:
        DownloadFailed: The registry cannot be reached, has no such release or another archive.
    """
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    cached = CACHE / f"{digest}.json"
    CACHE.mkdir(parents=True, exist_ok=True)
    # One process downloads, and the others wait for it.
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cached.exists():
            _extract(cached)
    return [Exchange(**entry) for entry in json.loads(cached.read_text("utf-8"))]


def _extract(cached: Path) -> None:
    """Download the archives and write what is needed of them."""
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="download-") as name:
        work = Path(name)
        _download(work)
        found = {e.reply: e for path in sorted(work.glob("*.tar.gz")) for e in _read(path)}
        written = work / cached.name
        written.write_text(json.dumps([asdict(e) for e in found.values()]), "utf-8")
        written.replace(cached)


def _download(work: Path) -> None:
    wanted = work / "archives.txt"
    lines = [f"{name}=={version} --hash=sha256:{sha}" for name, version, sha in ARCHIVES]
    wanted.write_text("\n".join(lines))
    uv = run("bash", "scripts/setup.sh", "uv").strip()
    # pip reads the metadata of source archives, for which it needs what they are built with.
    pip = (uv, "tool", "run", "--quiet", "--python", sys.executable, "--with", "hatchling", "pip")
    options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation")
    run(*pip, "download", *options, "--require-hashes", "--requirement", wanted, "--dest", work)


def _read(archive: Path) -> Iterator[Exchange]:
    with tarfile.open(archive) as tar:
        for member in tar:
            if "/cassettes/" not in member.name or not member.isfile():
                continue
            file = tar.extractfile(member)
            assert file is not None
            content = file.read()
            if member.name.endswith(".gz"):
                content = gzip.decompress(content)
            for index, (request, response) in enumerate(_pairs(content)):
                if exchange := _exchange(request, response, f"{member.name}#{index}"):
                    yield exchange


def _pairs(content: bytes) -> list[tuple[Json, Json]]:
    """Return the requests and responses of a cassette, of either layout that is in use."""
    try:
        cassette = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return []  # a text that YAML forbids
    if not isinstance(cassette, dict):
        return []
    if isinstance(cassette.get("requests"), list):
        return list(zip(cassette["requests"], cassette["responses"], strict=True))
    pairs = cassette.get("interactions")
    pairs = pairs if isinstance(pairs, list) else []
    return [
        (pair["request"], pair["response"])
        for pair in pairs
        if isinstance(pair.get("request"), dict)
    ]


def _exchange(request: Json, response: Json, source: str) -> Exchange | None:
    reply = _text(response.get("body"))
    try:
        parsed = json.loads(reply)
    except ValueError:
        return None  # streamed, or binary
    status = response.get("status")
    status = status.get("code") if isinstance(status, dict) else status
    provider = _provider(str(request.get("uri")), parsed)
    if provider is None or not isinstance(status, int):
        return None
    return Exchange(provider, source, status, _text(request.get("body")), reply)


def _text(body: Any) -> str:
    content = body.get("string") if isinstance(body, dict) else body
    if isinstance(content, str):
        return content
    content = bytes(content or b"")
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    return content.decode("utf-8", "replace")


def _provider(address: str, reply: Any) -> str | None:
    if not isinstance(reply, dict):
        return None
    if reply.get("error"):
        path = address.partition("?")[0]
        return next((name for name, end in _ADDRESSES.items() if path.endswith(end)), None)
    if reply.get("type") == "message" and "content" in reply:
        return "anthropic"
    if reply.get("object") == "response" and "output" in reply:
        return "openai"
    return "gemini" if "candidates" in reply or "promptFeedback" in reply else None
