"""The table of commands.

Each has a module of its own, which imports only when it runs what takes long to import.
"""

from __future__ import annotations

import typer

from browser_gym.commands.export import export
from browser_gym.commands.groups import groups
from browser_gym.commands.replay import replay
from browser_gym.commands.report import report
from browser_gym.commands.view import view
from browser_gym.commands.watch import watch

app = typer.Typer(
    help="Work with the rollouts of Browser Gym.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _commands() -> None:
    """Keep `browser-gym COMMAND` even with one command."""


app.command("export")(export)
app.command("groups")(groups)
app.command("report")(report)
app.command("view")(view)
app.command("watch")(watch)
app.command("replay")(replay)
