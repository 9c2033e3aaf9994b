"""The table of commands.

Each has a module of its own, which imports only when it runs what takes long to import.
"""

from __future__ import annotations

import typer

from browser_gym.commands.bench import bench
from browser_gym.commands.demo import demo
from browser_gym.commands.doctor import doctor
from browser_gym.commands.export import export
from browser_gym.commands.groups import groups
from browser_gym.commands.gym import gym
from browser_gym.commands.prepare_data import prepare_data
from browser_gym.commands.record import record
from browser_gym.commands.replay import replay
from browser_gym.commands.report import report
from browser_gym.commands.view import view
from browser_gym.commands.watch import watch

# Programs with arguments and a --help of their own.
_PROGRAM = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    help="Browser Gym: run it, and work with its rollouts.",
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
app.command("record")(record)
app.command("gym", add_help_option=False, context_settings=_PROGRAM)(gym)
app.command("prepare-data", add_help_option=False, context_settings=_PROGRAM)(prepare_data)
app.command("demo", add_help_option=False, context_settings=_PROGRAM)(demo)
app.command("doctor")(doctor)
app.command("bench", add_help_option=False, context_settings=_PROGRAM)(bench)
