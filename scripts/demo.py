"""`make demo`: start the demo stack, run the demo tasks, show a table, leave nothing behind."""

import argparse
import itertools
import json
import math
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from scripts.demo_models import PROVIDERS, SCRIPTED, Model, chosen_model
from scripts.processes import BIN, ROOT, START_TIMEOUT_S, Processes

LOG_NAME = "demo.log"
ROWS_NAME = "rollouts.jsonl"
DEFAULT_OUTPUT = ROOT / "results" / "demo"
SOLUTIONS = ROOT / "resources_servers" / "browser_gym" / "demo_gym" / "solutions.json"
START_TRIES = 3
# On two cores with nothing else to do.
USUAL_START_S = 45
USUAL_ROLLOUT_S = 1.5
PORTS = range(20_000, 32_768)
"""Below those that Linux and macOS take for outgoing connections."""

console = Console()


class DemoError(Exception):
    """The demo cannot go on; the message says why, `log_lines` what was logged last by then."""

    log_lines: list[str]


def free_port() -> int:
    """Return a TCP port that nobody listens on now, and that no outgoing connection is given.

    A minute can go by until it is listened on.

    Raises:
        DemoError: there is none.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def start_stack(
    processes: Processes,
    output: Path,
    head_port: int,
    gym_port: int,
    timeout_s: float,
    model: Model = SCRIPTED,
) -> subprocess.Popen[bytes]:
    """Start the servers and wait until all are ready.

    Raises:
        DemoError: they did not start in time.
    """
    command = [
        str(BIN / "gym"),
        "env",
        "start",
        "--config",
        model.config,
        f"++head_server.port={head_port}",
        "++head_server.host=127.0.0.1",
        f"++demo_gym_port={gym_port}",
        f"++{model.agent}.responses_api_agents.browser_agent.artifact_dir={output}/artifacts",
        f"++browser_gym.resources_servers.browser_gym.evidence_dir={output}/evidence",
        *model.overrides,
    ]
    started = time.monotonic()
    for tries_left in reversed(range(START_TRIES)):
        stack = processes.start(*command)
        with console.status("starting the servers") as status:
            while stack.poll() is None:
                waited = time.monotonic() - started
                status.update(f"starting the servers … {waited:.0f} s")
                if _ready(head_port):
                    console.print(f"servers ready after {waited:.0f} s")
                    return stack
                if waited > timeout_s:
                    processes.stop(stack)
                    raise DemoError(f"the servers were not ready after {timeout_s:.0f} s")
                time.sleep(0.5)
        if tries_left:
            console.print(f"the servers did not start (exit {stack.returncode}); trying again")
    raise DemoError(f"the servers did not start, {START_TRIES} times")


def _ready(head_port: int) -> bool:
    try:
        url = f"http://127.0.0.1:{head_port}/readyz"
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def run_to_end(processes: Processes, what: str, *command: str) -> None:
    """Run a command that ends by itself."""
    with console.status(what):
        process = processes.start(*command)
        try:
            process.wait()
        finally:
            processes.stop(process)
    if process.returncode:
        raise DemoError(f"{what}: exit code {process.returncode}")


def eval_command(
    tasks: Path, rows: Path, repeats: int, head_port: int, agent: str = SCRIPTED.agent
) -> list[str]:
    """Return the command that collects the rollouts."""
    return [
        *(str(BIN / "gym"), "eval", "run", "--no-serve", "--agent", agent),
        *("--input", _relative(tasks), "--output", _relative(rows)),
        *("--num-repeats", str(repeats), "--concurrency", "4"),
        *(f"++head_server.port={head_port}", "++head_server.host=127.0.0.1"),
    ]


def run_rollouts(
    processes: Processes, stack: subprocess.Popen[bytes], command: list[str], total: int, rows: Path
) -> None:
    """Run the rollouts and show how many are done."""
    progress = Progress(
        TextColumn("rollouts"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        console=console,
    )
    process = processes.start(*command)
    try:
        with progress:
            bar = progress.add_task("rollouts", total=total)
            while process.poll() is None:
                if stack.poll() is not None:
                    raise DemoError("the servers ended during the rollouts")
                progress.update(bar, completed=_count_lines(rows))
                time.sleep(0.3)
            progress.update(bar, completed=_count_lines(rows))
    finally:
        processes.stop(process)
    if process.returncode:
        raise DemoError(f"the rollouts ended with exit code {process.returncode}")


def _count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rollout rows, ordered by task and repeat."""
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return sorted(rows, key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"]))


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table of results, a line per task with its repeats side by side."""
    table = Table(title="Rollouts", title_justify="left")
    table.add_column("task", no_wrap=True)
    table.add_column("category")
    for name in ("reward", "turns", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why it ended")
    table.add_column("what failed", ratio=1)
    for task_id, group in itertools.groupby(rows, lambda row: row["verifier_metadata"]["task_id"]):
        repeats = list(group)
        failed = [text for text in dict.fromkeys(_why(row) for row in repeats) if text]
        table.add_row(
            task_id,
            repeats[0]["verifier_metadata"].get("category", ""),
            " ".join("masked" if r["mask_sample"] else f"{r['reward']:g}" for r in repeats),
            " ".join(str(r["num_turns"]) for r in repeats),
            " ".join(f"{r['total_seconds']:.1f}" for r in repeats),
            ", ".join(dict.fromkeys(r["termination_reason"] for r in repeats)),
            "; ".join(failed),
            style="yellow" if failed else None,
        )
    console.print(table)
    valid = [row["reward"] for row in rows if not row["mask_sample"]]
    if valid:
        console.print(
            f"mean reward {sum(valid) / len(valid):.3f} over {len(valid)} valid rollouts, "
            f"{len(rows) - len(valid)} masked"
        )


def compare_with_scripts(rows: list[dict[str, Any]]) -> bool:
    """Say which failures the scripts mean, and return whether all else was solved."""
    solutions = json.loads(SOLUTIONS.read_text())
    wrong_scripts = {task for task, one in solutions.items() if one.get("expected_reward") == 0}
    task_of = [row["verifier_metadata"]["task_id"] for row in rows]
    if on_purpose := [task for task in dict.fromkeys(task_of) if task in wrong_scripts]:
        console.print(f"on purpose wrong: the scripts of {' and '.join(on_purpose)}")
    unexpected = {
        task: None
        for task, row in zip(task_of, rows, strict=True)
        if row["mask_sample"] or row["reward"] != (0 if task in wrong_scripts else 1)
    }
    if unexpected:
        console.print(f"[red]not as the scripts mean:[/red] {', '.join(unexpected)}")
    return not unexpected


def judge(rows: list[dict[str, Any]], model: Model) -> bool:
    """Say what was asked, and return whether all went as it must."""
    console.print(f"the model was {model.about}")
    for text in model.refused():
        console.print(f"[red]the simulator refused a request:[/red] {escape(text)}")
    if model.scripted:
        return compare_with_scripts(rows) and not model.refused()
    return not any(row["mask_sample"] for row in rows)


def _why(row: dict[str, Any]) -> str:
    if row["mask_sample"]:
        return f"{row['failure_kind']}: {row['failure_reason']}"
    assertions = (row.get("verification_result") or {}).get("assertions", [])
    failed = next((a for a in assertions if a["result"] != "pass"), None)
    if failed is None:
        return ""
    return f"{failed['title']}: expected {failed.get('expected')}, got {failed.get('actual')}"[:90]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def run(arguments: argparse.Namespace) -> bool:
    """Run the demo and return whether all rollouts ended as they must."""
    output: Path = arguments.output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with chosen_model(arguments.provider, arguments.single_turn) as model:
        if model.scripted:  # nobody knows how long a real one takes
            console.print(_usual_time(arguments.tasks, arguments.repeats))
        console.print(f"the model is {model.about}")
        _run_stack(arguments, model, output)
        rows = read_rows(output / ROWS_NAME)
        show(rows)
        as_it_must = judge(rows, model)
    console.print(f"rollouts, profile and screenshots are in {_relative(output)}/")
    rollouts = "" if output == DEFAULT_OUTPUT else f" ROLLOUTS={_relative(output / ROWS_NAME)}"
    console.print(f"to look at them, step by step: make view{rollouts}", soft_wrap=True)
    return as_it_must


def _usual_time(tasks: int | None, repeats: int) -> str:
    count = (tasks or _count_lines(ROOT / "data" / "demo_tasks.jsonl")) * repeats
    minutes = math.ceil((USUAL_START_S + count * USUAL_ROLLOUT_S) / 60)
    return f"takes about {minutes} min on two cores, longer on a busy machine"


def _run_stack(arguments: argparse.Namespace, model: Model, output: Path) -> None:
    tasks, rows_path = output / "tasks.jsonl", output / ROWS_NAME
    head_port, gym_port = free_port(), free_port()
    with (output / LOG_NAME).open("wb") as log:
        processes = Processes(log)
        try:
            stack = start_stack(
                processes, output, head_port, gym_port, arguments.start_timeout, model
            )
            run_to_end(
                processes,
                "fetching the tasks from the demo gym",
                *(sys.executable, "-m", "resources_servers.browser_gym.prepare_data"),
                *("--gym-url", f"http://127.0.0.1:{gym_port}", "--output", str(tasks)),
                *(("--sample", str(arguments.tasks), "--seed", "7") if arguments.tasks else ()),
            )
            count = _count_lines(tasks)
            console.print(f"{count} tasks x {arguments.repeats} repeats")
            command = eval_command(tasks, rows_path, arguments.repeats, head_port, model.agent)
            run_rollouts(processes, stack, command, count * arguments.repeats, rows_path)
            inputs = output / "rollouts_materialized_inputs.jsonl"
            run_to_end(
                processes,
                "profiling the rollouts",
                *(str(BIN / "gym"), "eval", "profile", "--inputs", _relative(inputs)),
                *("--rollouts", _relative(rows_path)),
            )
        except DemoError as error:
            error.log_lines = (output / LOG_NAME).read_text(errors="replace").splitlines()[-25:]
            raise
        finally:
            # A second Ctrl-C must not leave half of it running.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            try:
                console.print("stopping the servers")
            finally:  # the terminal may be gone
                processes.clean_up()


def _interrupted(number: int, _: Any) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(
    argv: Sequence[str] | None = None, *, prog: str = "make demo", epilog: str | None = None
) -> int:
    """Run the demo and return the exit code.

    Args:
        argv: the arguments; those of the process by default.
        prog: how help calls the program.
        epilog: how help ends.
    """
    parser = argparse.ArgumentParser(prog=prog, description=__doc__, epilog=epilog)
    parser.add_argument(
        "--provider",
        choices=sorted(PROVIDERS),
        help="ask this provider: its real API if there is a key, a simulator of it if not "
        "(default: the embedded scripted model)",
    )
    parser.add_argument(
        "--single-turn",
        action="store_true",
        help="let NeMo Gym's single_agent_turn_legacy environment server open, grade and close the "
        "sessions (default: legacy_agent, which leaves that to the agent)",
    )
    parser.add_argument(
        "--tasks",
        type=_positive_number,
        metavar="N",
        help="how many tasks, of every category (default all)",
    )
    parser.add_argument(
        "--repeats",
        type=_positive_number,
        metavar="N",
        default=2,
        help="rollouts per task (default 2)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        default=DEFAULT_OUTPUT,
        help="where the results go; emptied first (default results/demo)",
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        metavar="S",
        default=START_TIMEOUT_S,
        help=f"seconds to wait for the servers (default {START_TIMEOUT_S}, for a busy machine)",
    )
    arguments = parser.parse_args(argv)
    if arguments.provider and arguments.single_turn:
        parser.error("--single-turn is for the scripted model: leave --provider out")
    arguments.output = arguments.output.resolve()
    if problem := _not_ours(arguments.output):
        parser.error(f"--output {arguments.output} {problem}; it would be emptied: choose another")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    started = time.monotonic()
    try:
        as_meant = run(arguments)
    except DemoError as error:
        console.print(f"[red]The demo failed:[/red] {error}")
        console.print(f"The last lines of {_relative(arguments.output / LOG_NAME)} by then:")
        text = "\n".join(error.log_lines)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130
    console.print(f"done in {time.monotonic() - started:.0f} s")
    return 0 if as_meant else 1


def _positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give a number of at least 1")
    return number


def _not_ours(output: Path) -> str | None:
    """Return why a folder may not be emptied: it holds what no demo run wrote."""
    if not output.exists():
        return None
    if not output.is_dir():
        return "is a file"
    if any(output.iterdir()) and not (output / LOG_NAME).exists():
        return "holds something else than a demo run"
    return None


if __name__ == "__main__":
    sys.exit(main())
