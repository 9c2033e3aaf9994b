"""Find a Chromium on this machine and the flags to start it with.

`find_chromium` is synchronous and starts the candidate once with `--version` (about 20 ms), so
call it while setting up, not on a busy event loop.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHROMIUM_VARIABLE = "BROWSER_GYM_CHROMIUM"
NO_SANDBOX_VARIABLE = "BROWSER_GYM_NO_SANDBOX"

# Headless shell first: it opens a context about three times faster than a full Chromium.
NAMES_ON_PATH = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
MACOS_APPLICATIONS = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)

# Where the executable lies inside a folder that Playwright downloaded, newest layout first.
_PLAYWRIGHT_EXECUTABLES = {
    "chromium_headless_shell": (
        "chrome-headless-shell-*/chrome-headless-shell",
        "chrome-*/headless_shell",
    ),
    "chromium": (
        "chrome-linux*/chrome",
        "chrome-mac*/*.app/Contents/MacOS/Google Chrome for Testing",
        "chrome-mac*/*.app/Contents/MacOS/Chromium",
    ),
}
_VERSION_TIMEOUT_S = 20
_SET_UP = "Run `make setup`, which installs one,"
_NO_WINDOW = "is a headless shell, which has no window"
_VERSION = re.compile(r"\d+\.\d+\.\d+\.\d+")

# Playwright hides scrollbars in headless mode; an agent that sees only the screenshot needs them
# to know that there is more below. Pass these as `ignore_default_args` when launching.
UNWANTED_PLAYWRIGHT_ARGS = ("--hide-scrollbars",)

# Flags for a pool of headless pages that one agent each drives. They stand beside Playwright's
# own without harm. No --disable-features here: a second one would replace Playwright's list.
_ARGS: tuple[str, ...] = (
    # Containers often give /dev/shm 64 MB, and a renderer that fills it crashes.
    "--disable-dev-shm-usage",
    # The browser itself makes no request: no update, sync, report, prediction or safe browsing.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    # No crash reporter process; a crash is noticed by its connection closing.
    "--disable-breakpad",
    # Nothing asks a question nobody can answer: first run, default browser, search engine,
    # keyring, "the page is not responding", "send the form again?".
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-search-engine-choice-screen",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    # No extension may change a page.
    "--disable-extensions",
    # Every session's pages are equally in front: none is slowed because another one is newer.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    # Scripted input is faster than a person; it must not be dropped as flooding.
    "--disable-ipc-flooding-protection",
    # The same page gives the same pixels on every machine.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    # As large as a viewport may be: a page that goes full screen takes input no further than this.
    "--screen-info={4096x4096}",
    # WebRTC sends no packets past the gateway.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # Nobody listens.
    "--mute-audio",
)


class ChromiumNotFound(RuntimeError):
    """No usable Chromium; the message lists what was tried and what to do."""


@dataclass(frozen=True)
class Chromium:
    """A Chromium that was found and answered `--version`.

    Attributes:
        executable: The browser's own binary, not a launcher script, so that the process we start
            is the one we can watch and end.
        version: For example `156.0.8078.108`.
        source: Where it was found: `argument`, `BROWSER_GYM_CHROMIUM`, `Playwright`, `PATH` or
            `Applications`.
        headless_shell: Whether it is the headless-only build.
    """

    executable: Path
    version: str
    source: str
    headless_shell: bool


def find_chromium(explicit: str | None = None, *, window: bool = False) -> Chromium:
    """Find a Chromium that starts.

    Order: `explicit`, the environment variable BROWSER_GYM_CHROMIUM, Playwright's own download,
    the usual names on PATH, the macOS applications. The first two are the user's choice, so if
    one of them does not work that is an error rather than a reason to look further.

    Args:
        explicit: Path (or name on PATH) of the executable, or None or "" to search.
        window: Whether it must be able to show a window.

    Raises:
        ChromiumNotFound: Nothing usable was found.
    """
    for source, chosen in (
        ("argument", explicit),
        (CHROMIUM_VARIABLE, os.environ.get(CHROMIUM_VARIABLE)),
    ):
        if chosen:
            return _chosen_chromium(source, chosen, window)

    tried: list[str] = []
    for source, candidate in _candidates():
        executable = real_binary(candidate)
        if window and _is_headless_shell(executable):
            tried.append(f"{executable} ({source}): {_NO_WINDOW}")
            continue
        version, problem = _version_of(executable)
        if version:
            return Chromium(executable, version, source, _is_headless_shell(executable))
        tried.append(f"{executable} ({source}): {problem}")
    tried.append(f"Playwright's downloads in {playwright_browsers_path()}")
    tried.append("on PATH: " + ", ".join(NAMES_ON_PATH))
    get_one = "Install a Chromium, not only its headless shell," if window else _SET_UP
    raise ChromiumNotFound(
        "No usable Chromium was found. Tried:\n  "
        + "\n  ".join(tried)
        + f"\n{get_one} or set {CHROMIUM_VARIABLE} to the path of a Chromium executable."
    )


def launch_args(root: bool) -> list[str]:
    """Return the command-line flags for a headless automation Chromium.

    Args:
        root: Whether the browser will run as root (see `running_as_root`). Chromium refuses to
            start its sandbox as root, so only then, or when the environment variable
            BROWSER_GYM_NO_SANDBOX is 1 (containers without user namespaces), it is off.
    """
    args = list(_ARGS)
    if root or os.environ.get(NO_SANDBOX_VARIABLE) == "1":
        args.append("--no-sandbox")
    return args


def running_as_root() -> bool:
    """Whether this process runs as root; False where the system has no such user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def playwright_browsers_path() -> Path:
    """Return the folder that Playwright downloads browsers to, whether it exists or not.

    Playwright's rule: PLAYWRIGHT_BROWSERS_PATH, where 0 means inside the package, else
    `ms-playwright` in the user's cache folder.
    """
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    if chosen == "0":
        package = _playwright_package()
        return (package or Path("playwright")) / ".local-browsers"
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ms-playwright"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ms-playwright"


def real_binary(path: Path) -> Path:
    """Return the browser that a launcher script starts, or `path` itself if it is no script.

    Debian's /usr/bin/chromium* are shell scripts before /usr/lib/chromium/*, Google's
    google-chrome is one beside its `chrome`. A script we cannot see through is returned as is.
    """
    script = path.resolve()
    if not _is_script(script):
        return path
    library = script.parent.parent / "lib"
    places = [
        library / "chromium" / path.name,
        library / "chromium" / "chromium",
        library / "chromium-browser" / path.name,
        library / "chromium-browser" / "chromium-browser",
        script.parent / "chrome",
    ]
    if path.name == "chromium-headless-shell":
        places = places[:1]
    for place in places:
        if _is_executable(place) and not _is_script(place):
            return place
    return path


def _chosen_chromium(source: str, chosen: str, window: bool) -> Chromium:
    found = shutil.which(Path(chosen).expanduser())
    problem = "no such executable file"
    if found:
        executable = real_binary(Path(found))
        version, problem = _version_of(executable)
        if version and window and _is_headless_shell(executable):
            version, problem = "", _NO_WINDOW
        if version:
            return Chromium(executable, version, source, _is_headless_shell(executable))
    raise ChromiumNotFound(
        f"The Chromium given by {source} cannot be used: {chosen}: {problem}. "
        "Give the path of a Chromium executable, or nothing to search for one."
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    for path in _playwright_downloads():
        yield "Playwright", path
    for name in NAMES_ON_PATH:
        found = shutil.which(name)
        if found:
            yield "PATH", Path(found)
    for path in MACOS_APPLICATIONS:
        if _is_executable(path):
            yield "Applications", path


def _playwright_downloads() -> Iterator[Path]:
    """Yield what Playwright downloaded: the revision it expects first, then the newest others."""
    root = playwright_browsers_path()
    expected = _expected_revisions()
    found: list[tuple[bool, bool, int, Path]] = []
    for kind, patterns in _PLAYWRIGHT_EXECUTABLES.items():
        for folder in root.glob(f"{kind}-*"):
            revision = folder.name.removeprefix(f"{kind}-")
            # Without its marker a download was broken off.
            if not revision.isdigit() or not (folder / "INSTALLATION_COMPLETE").exists():
                continue
            paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
            if paths:
                unexpected = revision != expected.get(kind)
                found.append((unexpected, kind == "chromium", -int(revision), paths[0]))
    for *_, path in sorted(found):
        yield path


def _expected_revisions() -> dict[str, str]:
    """Return the revision that the installed Playwright was made for, by folder name."""
    package = _playwright_package()
    if package is None:
        return {}
    browsers = json.loads((package / "browsers.json").read_text())["browsers"]
    return {browser["name"].replace("-", "_"): browser["revision"] for browser in browsers}


def _playwright_package() -> Path | None:
    # find_spec locates the package without importing it.
    spec = importlib.util.find_spec("playwright")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "driver" / "package"


def _version_of(executable: Path) -> tuple[str, str]:
    """Return (version, ""), or ("", what is wrong)."""
    try:
        result = subprocess.run(
            [executable, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        return "", f"does not start ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"gave no version within {_VERSION_TIMEOUT_S} s"
    version = _VERSION.search(result.stdout)
    if result.returncode == 0 and version:
        return version.group(), ""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return "", f"--version failed: {lines[-1] if lines else f'exit code {result.returncode}'}"


def _is_headless_shell(executable: Path) -> bool:
    return executable.name in {
        "chromium-headless-shell",
        "chrome-headless-shell",
        "headless_shell",
    }


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
