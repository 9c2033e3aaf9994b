"""The running sessions as a table in a terminal."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from browser_gym.console import printable
from browser_gym.watching.gym import Gym, Unanswered

_PAUSE_S = 2.0
_LONGEST_CELL = 200


def show_once(gym: Gym) -> None:
    """Print what the sessions do now.

    Raises:
        Unanswered: the server does not tell.
    """
    Console(highlight=False).print(_view(gym.look()))


def show_on(gym: Gym) -> None:
    """Show it until interrupted; an error is shown as long as it lasts."""
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            try:
                view = _view(gym.look())
            except Unanswered as error:
                view = Group(_text(str(error)))
            live.update(view, refresh=True)
            time.sleep(_PAUSE_S)


def summary(health: dict[str, Any]) -> str:
    """Return the state of the browser supply in a line."""
    browsers = health.get("browsers") or []
    memory = health.get("rss_mb")
    parts = [
        f"{health.get('sessions')} of {health.get('max_sessions')} sessions",
        f"{health.get('queued')} waiting for one",
        f"{sum(bool(one.get('alive')) for one in browsers)} of {len(browsers)} browsers alive",
        *([] if memory is None else [f"{memory:.0f} MB"]),
        f"{health.get('restarts')} restarts",
    ]
    return ", ".join(parts)


def _view(look: dict[str, Any]) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", "state", "step", "age", "action", "page"):
        table.add_column(name, overflow="fold")
    for each in look["sessions"]:
        table.add_row(
            _text(each.get("task_id") or each.get("env_id")),
            _text(f"{each.get('state')} {_seconds(each.get('since_request_s'))}"),
            _text(each.get("steps")),
            _text(_seconds(each.get("age_s"))),
            _text(", ".join(each["doing"])),
            _text(each.get("url")),
        )
    return Group(_text(summary(look["health"])), *([table] if look["sessions"] else []))


def _seconds(value: Any) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def _text(words: Any) -> Text:
    return Text(printable(str(words if words is not None else ""))[:_LONGEST_CELL])
