"""What is fetched is what was asked for, and stays in its folder."""

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.apps import packages
from tests.apps.packages import Package, WrongArchive, load_packages


def tarball(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"hi"))
    return path


def package(archive: Path, root: str = "") -> Package:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    return Package("app", "1.0.0", "MIT", f"sha512-{digest}", root=root)


def test_every_package_is_pinned_and_has_a_license() -> None:
    for item in load_packages():
        assert item.integrity.startswith(("sha512-", "sha256:"))
        assert item.license
        assert item.integrity.startswith("sha256:") == bool(item.archive)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    first = tarball(tmp_path / "first.tgz", "package/index.html")
    other = tarball(tmp_path / "other.tgz", "package/other.html")
    packages._check(package(first), first)
    with pytest.raises(WrongArchive, match=r"app@1\.0\.0 hashes to sha512-"):
        packages._check(package(first), other)


def test_only_the_web_root_is_unpacked(tmp_path: Path) -> None:
    archive = tarball(tmp_path / "app.tgz", "package/README.md", "package/dist/js/app.js")
    packages._unpack(package(archive, root="dist/"), archive, tmp_path / "app")
    assert [path.name for path in (tmp_path / "app").rglob("*")] == ["js", "app.js"]


def test_a_path_that_leads_out_is_refused(tmp_path: Path) -> None:
    archive = tarball(tmp_path / "app.tgz", "package/../../evil.js")
    with pytest.raises(tarfile.OutsideDestinationError):
        packages._unpack(package(archive), archive, tmp_path / "app")
    assert not (tmp_path / "evil.js").exists()


def test_a_missing_web_root_is_told(tmp_path: Path) -> None:
    archive = tarball(tmp_path / "app.tgz", "package/index.html")
    with pytest.raises(WrongArchive, match="has nothing in 'dist/'"):
        packages._unpack(package(archive, root="dist/"), archive, tmp_path / "app")
