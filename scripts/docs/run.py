"""`make test-docs`: runs the commands of the documents, each document in a shell of its own."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.docs.commands import Command, blocks_of, commands_of, documents
from scripts.docs.links import ROOT
from scripts.docs.not_run import FILES, STARTED_BEFORE, ready_text, reason_not_to_run
from scripts.processes import Processes

COMMAND_TIMEOUT_S = 900
READY_TIMEOUT_S = 180


class CommandFailed(Exception):
    """A command did not do what it should; the text says which, and shows what it printed."""


class Shell:
    """Runs commands one after another, and servers beside them, in the project's folder.

    Each command is a process; what it exports, its functions and its folder are there for the next.
    """

    def __init__(self, folder: Path, *, activated: bool) -> None:
        """Start with nothing exported.

        Args:
            folder: for its state and logs.
            activated: whether the project's environment is active.
        """
        self._state = folder / "state"
        path = f"PATH={shlex.quote(str(ROOT))}/.venv/bin:$PATH\n" if activated else ""
        self._state.write_text(f"set -a\nBROWSER=true\n{path}")
        self._log = (folder / "servers.log").open("wb")
        self._processes = Processes(self._log)
        self._servers: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> None:
        """Run a command to its end, or a server until it is ready.

        Raises:
            CommandFailed: it failed, or was not ready in time.
        """
        if "PORT" in command:
            command = command.replace("PORT", self._port())
        ready = ready_text(command)
        if ready is not None:
            self._serve(command, ready)
            return
        saved = shlex.quote(str(self._state))
        script = (
            f"source {saved}\n{command}\nstatus=$?\n"
            f'{{ echo set -a; export -p; declare -f; echo cd "$(printf %q "$PWD")"; }} > {saved}\n'
            "exit $status"
        )
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"took longer than {COMMAND_TIMEOUT_S} s") from error
        if done.returncode:
            raise CommandFailed(f"exit code {done.returncode}\n{_end_of(done.stdout)}")

    def _serve(self, command: str, ready: str) -> None:
        if "gym env start" in command:
            self._stop_servers()  # the stacks of a document have the same ports
        start = self._size()
        script = f"source {shlex.quote(str(self._state))}\nexec {command}"
        server = self._processes.start("bash", "-c", script)
        self._servers.append(server)
        until = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < until:
            if server.poll() is not None:
                break
            if ready in self.logged(start):
                return
            time.sleep(0.3)
        raise CommandFailed(f"was not ready\n{_end_of(self.logged(start))}")

    def _stop_servers(self) -> None:
        while self._servers:
            self._processes.stop(self._servers.pop())

    def _size(self) -> int:
        return Path(self._log.name).stat().st_size

    def logged(self, start: int = 0) -> str:
        """Return what servers have printed, from a place on."""
        return Path(self._log.name).read_bytes()[start:].decode("utf-8", "replace")

    def _port(self) -> str:
        """Return the port of the resources server that was started last, from the log."""
        found = re.findall(r"\[\d+\] browser_gym \(.*?'port': (\d+)", self.logged(), re.DOTALL)
        if not found:
            raise CommandFailed("no server has printed the port of browser_gym")
        return found[-1]

    def close(self) -> None:
        """End all that was started."""
        self._stop_servers()
        self._processes.clean_up()
        self._log.close()


@contextmanager
def stand_ins() -> Iterator[None]:
    """Put files where the reader would have some, if there are none."""
    made: list[Path] = []
    try:
        for name, source in FILES.items():
            path = ROOT / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / source, path)
                made.append(path)
        yield
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def run_document(document: Path) -> list[str]:
    """Run a document's commands and return what failed; after a failure the rest is not run."""
    commands = [c for block in blocks_of(document) for c in commands_of(block)]
    if all(reason_not_to_run(command) for command in commands):
        return []
    with tempfile.TemporaryDirectory() as folder:
        activates = any("bin/activate" in command.text for command in commands)
        shell = Shell(Path(folder), activated=not activates)
        try:
            before = STARTED_BEFORE.get(str(document.relative_to(ROOT)))
            if before:
                _run(shell, Command(document, 0, before))
            for command in commands:
                _run(shell, command)
        except CommandFailed as error:
            return [f"{error}\n  what the servers said last:\n{_end_of(shell.logged())}"]
        finally:
            shell.close()
    return []


def _run(shell: Shell, command: Command) -> None:
    reason = reason_not_to_run(command)
    print(f"{command}{f'   not run: {reason}' if reason else ''}", flush=True)
    if reason:
        return
    started = time.monotonic()
    try:
        shell.run(command.text)
    except CommandFailed as error:
        raise CommandFailed(f"{command}\n  {error}") from error
    print(f"    {time.monotonic() - started:.0f} s", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the commands; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="make test-docs", description=__doc__)
    parser.add_argument(
        "documents", nargs="*", type=Path, help="Markdown files (default: all that are pages)"
    )
    chosen = parser.parse_args(argv).documents
    failed: list[str] = []
    with stand_ins():
        for document in [path.resolve() for path in chosen] or documents():
            failed += run_document(document)
    for text in failed:
        print(f"\nFAILED {text}")
    print("\nAll commands ran." if not failed else f"\n{len(failed)} documents have failed.")
    return int(bool(failed))


def _end_of(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines()[-25:])


if __name__ == "__main__":
    sys.exit(main())
