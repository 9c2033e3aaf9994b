"""Show what this machine has for Browser Gym, and what is missing with what to do about it.

Run it with `make doctor`. Exit code 1 only when something is missing that the demo needs.
"""

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import yaml
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from resources_servers.browser_gym.browser.chromium import (
    Chromium,
    ChromiumNotFound,
    find_chromium,
    launch_args,
    running_as_root,
)

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30

OK, MISSING, WARNING, UNUSED = "ok", "missing", "warning", "not set"
STYLES = {OK: "green", MISSING: "bold red", WARNING: "yellow", UNUSED: "dim"}

# What a stack of four servers, Ray and a few browsers takes, with some room.
MEMORY_WANTED_GIB = 3
DISK_WANTED_GIB = 2
# Ray keeps its object store in shared memory and warns when it is small.
SHARED_MEMORY_WANTED_GIB = 1

PORTS = {11000: "NeMo Gym's head server", 8777: "the demo gym"}
# Environment variables and the env.yaml keys that serve instead, by provider.
KEYS = {"OpenAI": ("OPENAI_API_KEY", "cua_openai_api_key")}


@dataclass(frozen=True)
class Finding:
    """One line of the table; `advice` says what to do when `state` is not ok."""

    name: str
    state: str
    found: str
    advice: str = ""


def main() -> int:
    """Print the table; return the exit code."""
    findings = [
        check_python(),
        check_packages(),
        check_version("nemo-gym"),
        check_version("playwright"),
        *check_chromium(),
        check_fonts(),
        *(check_port(port, user) for port, user in PORTS.items()),
        check_memory(),
        check_shared_memory(),
        check_disk(),
        check_ray(),
        *check_keys(),
    ]
    print_table(findings)
    missing = [finding.name for finding in findings if finding.state == MISSING]
    if missing:
        print(f"The demo cannot run yet: see {', '.join(missing)}.")
        return 1
    print("All that the demo needs is here: make demo")
    return 0


def print_table(findings: list[Finding]) -> None:
    """Print one row for each finding, advice below what was found."""
    table = Table(title="Browser Gym on this machine", title_justify="left")
    table.add_column("What", no_wrap=True)
    table.add_column("State", no_wrap=True)
    table.add_column("Found", overflow="fold")
    for finding in findings:
        text = finding.found + (f"\n→ {finding.advice}" if finding.advice else "")
        style = STYLES[finding.state]
        table.add_row(finding.name, f"[{style}]{finding.state}[/]", escape(text))
    Console().print(table)


def check_python() -> Finding:
    """The interpreter of the environment."""
    found = f"{sys.version.split()[0]} ({sys.prefix})"
    if sys.version_info[:2] == (3, 13):
        return Finding("Python", OK, found)
    return Finding("Python", MISSING, found, "Python 3.13 is needed: make setup")


def check_packages() -> Finding:
    """Whether the environment holds the versions of requirements.lock."""
    wanted = locked_versions()
    wrong = []
    for name, number in wanted.items():
        installed = installed_version(name)
        if installed != number:
            wrong.append(f"{name} {installed or 'missing'} (wanted {number})")
    if wrong:
        return Finding("Packages", MISSING, ", ".join(wrong), "make setup")
    return Finding("Packages", OK, f"{len(wanted)} as in requirements.lock")


def locked_versions() -> dict[str, str]:
    """Return the version of each package that requirements.lock asks for on every system."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    # A marker (";") limits a package to some systems, so it may rightly be absent here.
    pins = [line for line in lines if "==" in line and ";" not in line]
    return dict(pin.split("==") for pin in pins)


def installed_version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_version(name: str) -> Finding:
    """The version of one package that people ask for in reports."""
    found = installed_version(name)
    return Finding(name, OK, found) if found else Finding(name, MISSING, "-", "make setup")


def check_chromium() -> list[Finding]:
    """Which Chromium is used, and whether it takes a screenshot."""
    try:
        chromium = find_chromium()
    except ChromiumNotFound as error:
        return [Finding("Chromium", MISSING, str(error))]
    kind = "headless shell" if chromium.headless_shell else "full browser"
    found = f"{chromium.version}, {kind}, from {chromium.source}\n{chromium.executable}"
    return [Finding("Chromium", OK, found), check_screenshot(chromium)]


def check_screenshot(chromium: Chromium) -> Finding:
    """Start the browser and take a picture of a page."""
    name = "Screenshot"
    started = time.monotonic()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium.executable,
                args=launch_args(running_as_root()),
                timeout=30_000,
            )
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.set_content("<h1>Browser Gym</h1>")
            image = _picture(page)
            browser.close()
    except PlaywrightError as error:
        message = error.message.strip()
        advice = "run it by hand to see more: " + str(chromium.executable)
        if "sandbox" in message:
            advice = "no sandbox in this container? Set BROWSER_GYM_NO_SANDBOX=1"
        return Finding(name, MISSING, message.splitlines()[0], advice)
    seconds = time.monotonic() - started
    return Finding(name, OK, f"1280x720, {len(image):,} bytes, {seconds:.1f} s with the start")


def _picture(page: Page) -> bytes:
    """Take a picture; a busy machine refuses one now and then."""
    for _ in range(2):
        with contextlib.suppress(PlaywrightError):
            return page.screenshot(type="jpeg")
    return page.screenshot(type="jpeg")


def check_fonts() -> Finding:
    """Whether Chromium has a font to draw text with (Linux only: macOS has its own)."""
    if sys.platform != "linux":
        return Finding("Fonts", OK, "the system's")
    folders = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".fonts"]
    folders.append(Path.home() / ".local/share/fonts")
    suffixes = {".ttf", ".otf", ".ttc", ".pfb"}
    count = sum(path.suffix.lower() in suffixes for folder in folders for path in folder.rglob("*"))
    if count:
        return Finding("Fonts", OK, f"{count} font files")
    advice = "pages have no readable text: apt-get install fonts-liberation"
    return Finding("Fonts", WARNING, "none", advice)


def check_port(port: int, user: str) -> Finding:
    """Whether the usual port of a server is free on the loopback interface."""
    name = f"Port {port}"
    with socket.socket() as probe:
        # As servers do, so that one that ended a moment ago does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            advice = "fine if that is your own stack; the demo takes other ports by itself"
            return Finding(name, WARNING, f"in use; the usual one of {user}", advice)
    return Finding(name, OK, f"free, for {user}")


def check_memory() -> Finding:
    """Memory and cores, within the container's limit if there is one."""
    memory = psutil.virtual_memory()
    limit = container_memory_limit() or memory.total
    available, total = min(memory.available, limit), min(memory.total, limit)
    found = f"{available / GIB:.1f} GiB available of {total / GIB:.1f}, {usable_cores()} cores"
    if available < MEMORY_WANTED_GIB * GIB:
        return Finding("Memory", WARNING, found, f"{MEMORY_WANTED_GIB} GiB is comfortable")
    return Finding("Memory", OK, found)


def container_memory_limit() -> int | None:
    """Return the memory limit of the container in bytes, or None."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_shared_memory() -> Finding:
    """Size of /dev/shm, where Ray keeps objects (Linux only)."""
    name = "Shared memory"
    folder = Path("/dev/shm")
    if not folder.is_dir():
        return Finding(name, OK, "not used on this system")
    free = shutil.disk_usage(folder).free
    found = f"{free / GIB:.1f} GiB free in {folder}"
    if free < SHARED_MEMORY_WANTED_GIB * GIB:
        advice = "Ray falls back to disk and is slower; in Docker: --shm-size=1g"
        return Finding(name, WARNING, found, advice)
    return Finding(name, OK, found)


def check_disk() -> Finding:
    """Free disk space where results and temporary files go."""
    places = {"here": ROOT, "in the temporary folder": Path(tempfile.gettempdir())}
    free = {name: shutil.disk_usage(place).free for name, place in places.items()}
    found = ", ".join(f"{size / GIB:.0f} GiB free {name}" for name, size in free.items())
    if min(free.values()) < DISK_WANTED_GIB * GIB:
        return Finding("Disk", WARNING, found, f"{DISK_WANTED_GIB} GiB is comfortable")
    return Finding("Disk", OK, found)


def ray_cluster_file() -> Path:
    """Return the file in which Ray notes the address of the cluster on this machine.

    The folder follows Ray's own rule: RAY_TMPDIR, on Linux TMPDIR, else /tmp.
    """
    folder = os.environ.get("RAY_TMPDIR")
    if not folder and sys.platform == "linux":
        folder = os.environ.get("TMPDIR")
    return Path(folder or "/tmp") / "ray" / "ray_current_cluster"


def check_ray() -> Finding:
    """Whether a dead Ray cluster left its address behind.

    Ray then tries for minutes to join it. Our own commands start Ray with RAY_ADDRESS=local.
    """
    name = "Ray"
    file = ray_cluster_file()
    try:
        address = file.read_text().strip()
    except OSError:
        return Finding(name, OK, "no cluster is noted on this machine")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return Finding(name, OK, f"a cluster runs at {address}")
    except (OSError, ValueError):
        advice = f"remove {file}, or start NeMo Gym with RAY_ADDRESS=local"
        return Finding(name, WARNING, f"{file} names a dead cluster, {address}", advice)


def check_keys() -> list[Finding]:
    """Which providers have a key; never the key itself."""
    settings = env_yaml()
    findings = []
    for provider, (variable, name) in KEYS.items():
        places = [variable] if os.environ.get(variable) else []
        places += [f"{name} in env.yaml"] if settings.get(name) else []
        advice = f"only for runs with {provider}'s models: set {variable} or {name} in env.yaml"
        found = f"set: {', '.join(places)}" if places else "no key"
        state = OK if places else UNUSED
        findings.append(Finding(f"{provider} key", state, found, "" if places else advice))
    return findings


def env_yaml() -> dict:
    """Return the settings in env.yaml; empty if there is none or it cannot be read."""
    try:
        content = yaml.safe_load((ROOT / "env.yaml").read_text())
    except (OSError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
