"""The demo gym's front page, for people: the apps to click through and the tasks to try."""

from collections.abc import Sequence
from html import escape
from string import Template

from resources_servers.browser_gym.demo_gym.tasks import STATIC_DIR, Task


def render_index(tasks: Sequence[Task]) -> str:
    """Returns the front page's HTML with one row for each task."""
    template = Template((STATIC_DIR.parent / "index.html").read_text(encoding="utf-8"))
    return template.substitute(count=len(tasks), rows="\n".join(_row(task) for task in tasks))


def _row(task: Task) -> str:
    return (
        f'<a class="task" href="{escape(task.start_path)}">'
        f"<b>{escape(task.id)}</b><i>{escape(task.category)}</i>"
        f"<span>{escape(task.prompt)}</span></a>"
    )
