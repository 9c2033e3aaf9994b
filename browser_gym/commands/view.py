"""`browser-gym view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from browser_gym.console import counting, fail, finite, reading
from browser_gym.rollouts import UnusableInput

if TYPE_CHECKING:
    from browser_gym.viewer.index import RolloutFile


def view(
    rollouts: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROLLOUTS.jsonl",
            help="A file that `gym eval run --output` wrote. [default: the newest in results]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE.html",
            help="Write one page that holds everything, screenshots too, instead of serving it.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="With --output: only this task; can be given repeatedly."),
    ] = None,
    max_mb: Annotated[
        float,
        typer.Option(
            "--max-mb", metavar="MB", callback=finite, help="With --output: the largest page."
        ),
    ] = 200,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="To serve on; 0 for any free one.")
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only print the address; open no browser.")
    ] = False,
) -> None:
    """Look at rollouts, step by step.

    Serves a page on this machine only, to whoever has the address, until Ctrl-C.

    Examples:

    `browser-gym view`

    `browser-gym view results/demo/rollouts.jsonl --port 8080`

    `browser-gym view results/run.jsonl --task CRM-02 --output results/crm-02.html`
    """
    from browser_gym.viewer.index import RolloutFile, newest_rollouts

    if task and not output:
        fail("--task is for --output; the page itself has filters")
    try:
        rollouts = rollouts or newest_rollouts(Path("results"))
        file = RolloutFile(rollouts)
        with reading([rollouts]) as progress:
            file.read_on(progress)
        if not file.summaries:
            fail(f"{rollouts}: no rollouts")
        if output:
            _write(file, output, task or [], max_mb)
        else:
            _serve(file, port, no_open)
    except UnusableInput as error:
        fail(str(error))


def _write(file: RolloutFile, output: Path, tasks: list[str], max_mb: float) -> None:
    from browser_gym.viewer.written import write_page

    known = {summary["task"] for summary in file.summaries}
    if unknown := [task for task in tasks if task not in known]:
        some = ", ".join(map(repr, sorted(known)[:10]))  # quoted: names may hold anything
        fail(f"--task {unknown[0]}: no rollout of it in {file.path}; there are {some}")
    rows = [i for i, one in enumerate(file.summaries) if not tasks or one["task"] in tasks]
    with counting("writing", len(rows)) as progress:
        size = write_page(file, rows, output, int(max_mb * 1e6), progress)
    typer.echo(f"{output}: {len(rows)} rollouts, {size / 1e6:.1f} MB")


def _serve(file: RolloutFile, port: int, no_open: bool) -> None:
    import os
    import sys
    import webbrowser

    from browser_gym.loopback import HOST
    from browser_gym.viewer.server import ViewerServer

    try:
        server = ViewerServer(file, port)
    except OSError as error:
        fail(f"--port {port}: {HOST} cannot be listened on there ({error.strerror}); try another")
    typer.echo(f"{len(file.summaries)} rollouts at {server.url}\nCtrl-C ends it")
    # Without a display, a browser in the terminal would take it.
    display = sys.platform == "darwin" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
    if display and not no_open:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
