"""One to-do task for the many apps of the TodoMVC package, whose storage is never the same.

Each app needs another query to be graded; together they show what assertions can say about lists,
maps, nested JSON, and items that lie in a storage key of their own.
"""

from tests.apps.runner import AppTask

EACH = "values(@)[?{0}]"
"""Items that have a key each, told from other keys by their field for the text."""

APPS: dict[str, tuple[str, str, str]] = {
    # app: where its items are, and their fields for the text and for being done
    "agilityjs": ('values("todos-agilityjs")', "title", "completed"),
    "ampersand": ('"todos-ampersand"', "title", "completed"),
    "backbone": (EACH, "title", "completed"),
    "batman": (EACH, "title", "completed"),
    "canjs": ("Constructor", "text", "complete"),
    "closure": ('"todos-closure"', "title", "completed"),
    "componentjs": ('"todos-componentjs".items', "title", "completed"),
    "emberjs": ('values("todos-emberjs".todo.records)', "title", "isCompleted"),
    "epitome": ('"epitome-localStorage"."collection:todos"', "title", "completed"),
    "extjs_deftjs": (EACH, "title", "completed"),
    "flight": (EACH, "title", "completed"),
    "gwt": ('"todo-gwt"', "task", "complete"),
    "kendo": (EACH, "title", "completed"),
    "knockback": (EACH, "title", "completed"),  # holds when it was done
    "knockoutjs": ('"todos-knockoutjs"', "title", "completed"),
    "puremvc": ('"todos-puremvc".todos', "title", "completed"),
    "ractive": ('"todos-ractive"', "description", "completed"),
    "rappidjs": ('values("todo-rappidjs")[?title]', "title", "completed"),
    "react": ('"react-todos"', "title", "completed"),
    "react-backbone": (EACH, "title", "completed"),
    "sammyjs": ('"todos-sammyjs"', "name", "completed"),
    "serenadejs": ('"todos-serenade".all', "title", "completed"),
    "somajs": ('"todos-somajs"', "title", "completed"),
    "spine": ("Todo", "title", "completed"),
    "troopjs_require": ('"todos-troopjs"', "title", "completed"),
    "typescript-backbone": (EACH, "content", "done"),
    "vue": ('"todos-vuejs"', "title", "completed"),
}

PROMPT = 'Add the to-dos "buy milk" and "write tests 🚀", and tick the first one.'
# All apps of the package are styled by the same sheet, in px.
_NEW_TODO = {"x": 640, "y": 179}
_TICKS = {"x": 386, "y": 242}, {"x": 386, "y": 302}


def todo_tasks(origin: str) -> list[AppTask]:
    """Returns the task for each app, served at `origin`."""
    return [_task(origin, app, *shape) for app, shape in APPS.items()]


def _task(origin: str, app: str, items: str, text: str, done: str) -> AppTask:
    items = items.format(text)
    expected = [{"text": "buy milk", "done": True}, {"text": "write tests 🚀", "done": False}]
    query = f"sort_by({items}[].{{text: {text}, done: !!{done}}}, &text)"
    metadata = {
        "task_id": f"TODOMVC-{app}",
        "start_url": f"{origin}/todomvc/{app}/index.html",
        "viewport": {"width": 1280, "height": 720},
        "category": "todomvc",
        "verifier": "local_storage",
        "assertions": [{"title": "Both are there, one done", "query": query, "equals": expected}],
    }
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": PROMPT}]},
        "verifier_metadata": metadata,
    }
    add = [
        {"type": "type", **_NEW_TODO, "text": todo["text"], "press_enter": True}
        for todo in expected
    ]
    first, second = ({"type": "click", **point} for point in _TICKS)
    return AppTask(row, right=[[*add, first]], wrong=[[*add, second]])
