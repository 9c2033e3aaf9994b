"""`browser-gym record`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from browser_gym.console import fail, short
from browser_gym.rollouts import UnusableInput

if TYPE_CHECKING:
    from browser_gym.recording.gestures import Recorded
    from browser_gym.recording.record import Asked, Recording

PLACEHOLDER = "TO DO: say what is to be done."


def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="The start page.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="TASK.jsonl", help="The task; the other files go beside it."
        ),
    ] = Path("results/recorded.jsonl"),
    viewport: Annotated[
        str, typer.Option(metavar="WxH", help="Size of the page in CSS px.")
    ] = "1280x720",
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="The task.")] = PLACEHOLDER,
    answer: Annotated[
        str, typer.Option(metavar="TEXT", help="What the task asks to be told, if it does.")
    ] = "",
    headless: Annotated[
        bool,
        typer.Option(
            "--headless",
            help="Show no window: a program does the task, over the CDP address that is printed.",
        ),
    ] = False,
) -> None:
    """Do a task in a browser, and get it as a task row, a rollout, a script and an SFT sample.

    Ctrl-C or closing the window ends it. The task's assertions are proposed from what was changed
    in localStorage: check them.

    Examples:

    `browser-gym record http://127.0.0.1:8777/crm/ --prompt "Change Priya's number to 123."`

    `browser-gym record https://example.org --viewport 1024x768 --output results/mine.jsonl`
    """
    import asyncio

    from browser_gym.environment import CannotRun
    from browser_gym.recording.files import check_output, write

    try:
        check_output(output)
        recording = asyncio.run(_record(_asked(url, viewport, headless)))
        paths = write(recording, output, prompt, answer)
    except (UnusableInput, CannotRun) as error:
        fail(str(error))
    _tell(recording, paths)


def _asked(url: str, viewport: str, headless: bool) -> Asked:
    import re
    import socket

    from browser_gym.recording.record import Asked
    from resources_servers.browser_gym.task_row import MAX_VIEWPORT_PX, MIN_VIEWPORT_PX

    size = re.fullmatch(r"(\d{1,5})x(\d{1,5})", viewport)
    if not size or not all(MIN_VIEWPORT_PX <= int(px) <= MAX_VIEWPORT_PX for px in size.groups()):
        raise UnusableInput(
            f"--viewport {viewport}: give width and height from {MIN_VIEWPORT_PX} to "
            f"{MAX_VIEWPORT_PX} px, such as 1280x720"
        )
    port = None
    if headless:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
    return Asked(url, int(size[1]), int(size[2]), port)


async def _record(asked: Asked) -> Recording:
    import asyncio
    import itertools
    import signal

    from browser_gym.recording.record import record
    from browser_gym.viewer.actions import describe

    stop, numbers = asyncio.Event(), itertools.count(1)

    def ready() -> None:
        port = asked.debugging_port
        where = f"a browser at http://127.0.0.1:{port}" if port else "the browser window"
        typer.echo(f"recording what is done in {where}; Ctrl-C or closing it ends it")

    def done(recorded: Recorded) -> None:
        typer.echo(f"{next(numbers):4}  {short(describe(recorded.action), 120)}")

    typer.echo("starting a browser …", err=True)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await record(asked, stop, ready, done)


def _tell(recording: Recording, paths: dict[str, Path]) -> None:
    for note in recording.notes:
        typer.echo(f"note: {short(note)}")
    typer.echo(f"{len(recording.actions)} actions")
    about = {
        "task": "check its prompt and assertions",
        "rollout": f"browser-gym replay {paths['rollout']} --verify",
        "script": "++policy_model.responses_api_models.scripted_model.scripts_path=…",
        "sft": "a training sample",
    }
    for what, path in paths.items():
        typer.echo(f"{what:8} {path}  ({about[what]})")
