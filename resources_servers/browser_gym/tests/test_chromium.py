"""Finding a Chromium, on made-up folders and for real."""

from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from resources_servers.browser_gym.browser import chromium
from resources_servers.browser_gym.browser.chromium import (
    UNWANTED_PLAYWRIGHT_ARGS,
    ChromiumNotFound,
    find_chromium,
    launch_args,
    real_binary,
    running_as_root,
)

EXPECTED_REVISION = "1255"


def make_browser(path: Path, version: str = "100.0.0.1", works: bool = True) -> Path:
    """Write a stand-in that answers --version, or fails as one with a missing library does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = f"echo Chromium {version}" if works else "echo libnss3.so: cannot open >&2; exit 127"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def make_download(root: Path, name: str, executable: str, version: str) -> Path:
    path = make_browser(root / name / executable, version)
    (root / name / "INSTALLATION_COMPLETE").touch()
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder as a machine where nothing is installed: only its bin/ and ms-playwright/ count."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "ms-playwright"))
    monkeypatch.delenv("BROWSER_GYM_CHROMIUM", raising=False)
    monkeypatch.delenv("BROWSER_GYM_NO_SANDBOX", raising=False)
    monkeypatch.setattr(chromium, "MACOS_APPLICATIONS", ())
    package = tmp_path / "package"
    package.mkdir()
    (package / "browsers.json").write_text(
        '{"browsers": ['
        f'{{"name": "chromium", "revision": "{EXPECTED_REVISION}"}},'
        f'{{"name": "chromium-headless-shell", "revision": "{EXPECTED_REVISION}"}}]}}'
    )
    monkeypatch.setattr(chromium, "_playwright_package", lambda: package)
    return tmp_path


def test_an_empty_machine_says_what_was_tried_and_what_to_do(machine):
    with pytest.raises(ChromiumNotFound) as error:
        find_chromium()
    message = str(error.value)
    assert str(machine / "ms-playwright") in message
    assert "chromium-headless-shell, chrome-headless-shell, chromium" in message
    assert "make setup" in message
    assert "BROWSER_GYM_CHROMIUM" in message


def test_sources_are_searched_in_order(machine, monkeypatch):
    full = make_browser(machine / "bin/chromium", "101.0.0.1")
    found = find_chromium()
    assert (found.executable, found.source, found.headless_shell) == (full, "PATH", False)

    shell = make_browser(machine / "bin/chromium-headless-shell", "102.0.0.1")
    found = find_chromium()
    assert (found.executable, found.version, found.headless_shell) == (shell, "102.0.0.1", True)

    downloads = machine / "ms-playwright"
    downloaded = make_download(
        downloads, f"chromium-{EXPECTED_REVISION}", "chrome-linux64/chrome", "103.0.0.1"
    )
    found = find_chromium()
    assert (found.executable, found.source) == (downloaded, "Playwright")

    variable = make_browser(machine / "mine", "104.0.0.1")
    monkeypatch.setenv("BROWSER_GYM_CHROMIUM", str(variable))
    found = find_chromium()
    assert (found.executable, found.source) == (variable, "BROWSER_GYM_CHROMIUM")

    given = make_browser(machine / "given", "105.0.0.1")
    found = find_chromium(str(given))
    assert (found.version, found.source) == ("105.0.0.1", "argument")


@pytest.mark.parametrize("text", [None, ""])
def test_an_empty_setting_means_search(machine, monkeypatch, text):
    monkeypatch.setenv("BROWSER_GYM_CHROMIUM", "")
    make_browser(machine / "bin/google-chrome")
    assert find_chromium(text).source == "PATH"


def test_the_expected_revision_comes_first_then_the_newest(machine):
    root = machine / "ms-playwright"
    shell = "chrome-headless-shell-linux64/chrome-headless-shell"
    make_download(root, "chromium_headless_shell-999", "chrome-linux/headless_shell", "90.0.0.1")
    assert find_chromium().version == "90.0.0.1"
    make_download(root, "chromium_headless_shell-1300", shell, "91.0.0.1")
    assert find_chromium().version == "91.0.0.1"
    make_download(root, f"chromium-{EXPECTED_REVISION}", "chrome-linux64/chrome", "92.0.0.1")
    assert find_chromium().version == "92.0.0.1"
    make_download(root, f"chromium_headless_shell-{EXPECTED_REVISION}", shell, "93.0.0.1")
    found = find_chromium()
    assert (found.version, found.headless_shell) == ("93.0.0.1", True)


def test_the_macos_layout_is_found(machine):
    app = "chrome-mac-arm64/Google Chrome for Testing.app/Contents/MacOS"
    executable = make_download(
        machine / "ms-playwright",
        f"chromium-{EXPECTED_REVISION}",
        f"{app}/Google Chrome for Testing",
        "94.0.0.1",
    )
    assert find_chromium().executable == executable


def test_a_download_that_was_broken_off_is_passed_over(machine):
    make_browser(
        machine
        / f"ms-playwright/chromium_headless_shell-{EXPECTED_REVISION}"
        / "chrome-headless-shell-linux64/chrome-headless-shell"
    )
    with pytest.raises(ChromiumNotFound):
        find_chromium()


def test_one_that_does_not_start_is_passed_over_and_named(machine):
    broken = make_browser(machine / "bin/chromium-headless-shell", works=False)
    with pytest.raises(ChromiumNotFound) as error:
        find_chromium()
    assert str(broken) in str(error.value)
    assert "libnss3.so: cannot open" in str(error.value)
    working = make_browser(machine / "bin/chromium")
    assert find_chromium().executable == working


@pytest.mark.parametrize("by", ["argument", "BROWSER_GYM_CHROMIUM"])
def test_a_chosen_one_that_is_unusable_is_an_error_naming_the_choice(machine, monkeypatch, by):
    make_browser(machine / "bin/chromium")
    missing = str(machine / "nowhere")
    if by == "BROWSER_GYM_CHROMIUM":
        monkeypatch.setenv(by, missing)
    with pytest.raises(ChromiumNotFound, match=f"given by {by} cannot be used: {missing}"):
        find_chromium(missing if by == "argument" else None)


def make_binary(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("launcher", "binary"),
    [
        ("usr/bin/chromium", "usr/lib/chromium/chromium"),
        ("usr/bin/chromium-headless-shell", "usr/lib/chromium/chromium-headless-shell"),
        ("usr/bin/chromium-browser", "usr/lib/chromium-browser/chromium-browser"),
        ("opt/google/chrome/google-chrome", "opt/google/chrome/chrome"),
    ],
)
def test_launcher_scripts_are_seen_through(tmp_path, launcher, binary):
    script = make_browser(tmp_path / launcher)
    expected = make_binary(tmp_path / binary)
    assert real_binary(script) == expected


def test_a_linked_launcher_is_seen_through_and_a_linked_binary_stays(tmp_path):
    script = make_browser(tmp_path / "opt/google/chrome/google-chrome")
    binary = make_binary(tmp_path / "opt/google/chrome/chrome")
    link = tmp_path / "google-chrome"
    link.symlink_to(script)
    assert real_binary(link) == binary
    other = tmp_path / "snap-chromium"
    other.symlink_to(binary)
    assert real_binary(other) == other


def test_the_headless_launcher_never_becomes_the_full_browser(tmp_path):
    script = make_browser(tmp_path / "usr/bin/chromium-headless-shell")
    make_binary(tmp_path / "usr/lib/chromium/chromium")
    assert real_binary(script) == script


def test_the_sandbox_is_off_only_for_root_or_when_asked(monkeypatch):
    monkeypatch.delenv("BROWSER_GYM_NO_SANDBOX", raising=False)
    assert "--no-sandbox" not in launch_args(root=False)
    assert "--no-sandbox" in launch_args(root=True)
    monkeypatch.setenv("BROWSER_GYM_NO_SANDBOX", "1")
    assert "--no-sandbox" in launch_args(root=False)


async def test_the_one_on_this_machine_starts_and_is_the_version_it_says():
    found = find_chromium()
    assert real_binary(found.executable) == found.executable
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.executable,
            args=launch_args(running_as_root()),
            ignore_default_args=list(UNWANTED_PLAYWRIGHT_ARGS),
        )
        try:
            assert browser.version == found.version
            page = await browser.new_page(viewport={"width": 400, "height": 300})
            await page.set_content("<body style='height: 2000px'>")
            # A page longer than the viewport has a scrollbar that takes up room.
            assert await page.evaluate("document.documentElement.clientWidth") < 400
        finally:
            await browser.close()
