"""The set-up: quiet when nothing is to do, whole, and explained by the doctor."""

import contextlib
import fcntl
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "scripts" / "setup.sh"

made_by_setup = pytest.mark.skipif(
    Path(sys.prefix).resolve() != (ROOT / ".venv").resolve(),
    reason="checks the environment that make setup made; these tests run in another one",
)


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=os.environ | env, capture_output=True, text=True, timeout=240
    )


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    wanted = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in wanted}


def test_the_lock_satisfies_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    wanted = [*project["project"]["dependencies"], *groups["dev"], *groups["docs"]]
    requirements = [Requirement(text) for text in wanted]
    assert len(requirements) > 10
    pins = locked()
    for requirement in requirements:
        assert requirement.name in pins
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_lock_names_no_host():
    assert not re.search(
        r"https?://|file:|--index|--find-links", (ROOT / "requirements.lock").read_text()
    )


@made_by_setup
def test_the_environment_holds_what_the_lock_says():
    assert {name: version(name) for name in locked()} == locked()


@made_by_setup
def test_the_project_can_be_imported_from_anywhere(tmp_path):
    code = "import resources_servers.browser_gym as m; print(m.__file__)"
    result = run(sys.executable, "-c", code, cwd=tmp_path)
    assert Path(result.stdout.strip()).is_relative_to(ROOT), result.stderr


@made_by_setup
def test_every_server_has_a_link_to_the_one_environment():
    kinds = ("resources_servers", "responses_api_agents", "responses_api_models")
    servers = [
        folder.relative_to(ROOT)
        for kind in kinds
        for folder in (ROOT / kind).iterdir()
        if folder.is_dir() and folder.name != "__pycache__"
    ]
    servers += [
        Path("environment_servers/legacy_agent"),
        Path("environment_servers/single_agent_turn_legacy"),
        Path("responses_api_models/openai_model"),
        Path("responses_api_models/vllm_model"),
    ]
    for server in servers:
        link = ROOT / ".venvs" / server / ".venv"
        assert link.readlink() == Path("../../../.venv"), server
        # What NeMo Gym looks for before it takes an environment as made.
        assert (link / "bin" / "python").exists()
        assert (link / "bin" / "activate").exists()


@made_by_setup
def test_a_second_set_up_is_quiet_and_quick():
    def used_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used_s()
    result = run("bash", SETUP)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert used_s() - before < 1


@made_by_setup
def test_the_doctor_finds_all_that_the_demo_needs():
    secret = "not-to-be-shown"
    result = run("bash", SETUP, "doctor", OPENAI_API_KEY=secret, COLUMNS="120")
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("nemo-gym", "0.7.0", "Chromium", "Screenshot", "Port 8777", "OPENAI_API_KEY"):
        assert text in result.stdout
    assert secret not in result.stdout


@made_by_setup
def test_the_doctor_says_what_is_missing(tmp_path):
    stale = tmp_path / "ray"
    stale.mkdir()
    (stale / "ray_current_cluster").write_text("127.0.0.1:1")
    result = run(
        "bash",
        SETUP,
        "doctor",
        BROWSER_GYM_CHROMIUM=str(tmp_path / "nowhere"),
        RAY_TMPDIR=str(tmp_path),
        COLUMNS="200",
    )
    assert result.returncode == 1
    assert "given by BROWSER_GYM_CHROMIUM cannot be used" in result.stdout
    assert "names a dead cluster, 127.0.0.1:1" in result.stdout
    assert "The demo cannot run yet: see Chromium." in result.stdout


@pytest.fixture
def bare_clone(tmp_path):
    """The files that the set-up reads, without an environment."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(SETUP, clone / "scripts")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, clone)
    return clone


def test_the_doctor_works_before_any_set_up_and_changes_nothing(bare_clone):
    before = sorted(bare_clone.rglob("*"))
    result = run("bash", bare_clone / "scripts" / "setup.sh", "doctor")
    assert result.returncode == 1
    assert 'run "make setup"' in result.stdout
    assert "Python 3.13" in result.stdout
    assert sorted(bare_clone.rglob("*")) == before


@pytest.fixture
def tools(tmp_path):
    """A folder for PATH: Python, a uv that cannot install anything, and what the script calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    uv = folder / "uv"
    uv.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '--version) echo "uv 99.0.0" ;;\n'
        "venv)\n"
        "  for folder; do :; done\n"
        '  mkdir -p "$folder/bin" "$folder/lib/python3.13/site-packages" ;;\n'
        '*) echo "no such package: unobtainium" >&2; exit 1 ;;\n'
        "esac\n"
    )
    uv.chmod(0o755)
    (folder / "python3.13").symlink_to(sys.executable)
    posix = "sh bash cat cksum dirname env ln mkdir mv rm sed sleep tail touch"
    for name in posix.split():
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def test_a_failed_set_up_shows_its_log_and_starts_over_next_time(bare_clone, tools):
    for _ in range(2):
        result = run("bash", bare_clone / "scripts" / "setup.sh", PATH=str(tools))
        assert result.returncode == 1
        assert "Make .venv" in result.stderr
        assert "FAILED: the packages could not be installed." in result.stderr
        assert "| no such package: unobtainium" in result.stderr
    assert not (bare_clone / ".setup" / "done").exists()


@pytest.mark.parametrize("lock", ["flock", "process id"])
def test_a_set_up_waits_for_another_one(bare_clone, tools, lock):
    state = bare_clone / ".setup"
    state.mkdir()
    with contextlib.ExitStack() as held:
        if lock == "flock":
            found = shutil.which("flock") or pytest.skip("this system has no flock command")
            (tools / "flock").symlink_to(found)
            file = held.enter_context((state / "lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        else:
            (state / "lock.pid").write_text(str(os.getpid()))
            held.callback((state / "lock.pid").unlink)
        waiting = subprocess.Popen(
            ["bash", bare_clone / "scripts" / "setup.sh"],
            env=os.environ | {"PATH": str(tools)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr
        assert "Another set-up" in waiting.stderr.readline()
        assert not (bare_clone / ".venv").exists()
    _, rest = waiting.communicate(timeout=240)
    assert "Make .venv" in rest
    assert sorted(path.name for path in state.glob("lock*")) in ([], ["lock"])


def test_a_lock_that_a_dead_set_up_left_is_taken_over(bare_clone, tools):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    state = bare_clone / ".setup"
    state.mkdir()
    (state / "lock.pid").write_text(str(dead.pid))
    result = run("bash", bare_clone / "scripts" / "setup.sh", PATH=str(tools))
    assert "Make .venv" in result.stderr
    assert "Another set-up" not in result.stderr
    assert not list(state.glob("lock*"))
