"""What a page says and holds, for models that ask for it in words instead of looking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.capture import valid_unicode
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.policy import Reach
from resources_servers.browser_gym.browser.tabs import Tab, Tabs

MAX_TEXT_CHARS = 20_000
MAX_MATCHES = 20
MAX_ELEMENTS = 200
# `find` looks further than a model is shown; the bound keeps an endless page from taking for ever.
MAX_SEARCHED_CHARS = 1_000_000

_SCRIPT = Path(__file__).with_name("reading.js").read_text(encoding="utf-8")
_WORLD = "browser-gym"
_DATE_TIME_OR_COLOR = re.compile(
    r"\d{4,6}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d)?)?)?"  # month, date, datetime-local
    r"|\d{4,6}-W\d\d|\d\d:\d\d(:\d\d)?|#[0-9a-fA-F]{6}"  # week, time, color
)


class Reader:
    """Reads the active tab: the page, its frames of the same origin, its open shadow roots.

    An element that `list_elements` names (`e1`, `e2`, …) keeps its name until its page is left; no
    name is given twice in a session, so that an old one is never taken for another element.
    """

    def __init__(self, tabs: Tabs, reach: Reach) -> None:
        """Read the active one of `tabs`, if `reach` lets it be seen."""
        self._tabs = tabs
        self._reach = reach
        self._next_ref = 1

    async def page_text(self) -> str:
        """Return the visible text, cut after `MAX_TEXT_CHARS`; it says when it is cut.

        Raises:
            ActionError: the page cannot be read.
        """
        return await self._read("pageText", max=MAX_TEXT_CHARS)

    async def find(self, query: str) -> str:
        """Return up to `MAX_MATCHES` places of a text, with points in CSS px of the viewport.

        Case and the kind of white space do not matter.

        Raises:
            ActionError: nothing to find was given, or the page cannot be read.
        """
        return await self._read("find", query=query, max=MAX_MATCHES, readMax=MAX_SEARCHED_CHARS)

    async def list_elements(self) -> str:
        """Return up to `MAX_ELEMENTS` elements on the screen that a click reaches, one a line.

        A line has the element's ref, role, name, state, the centre of its visible part in CSS px
        of the viewport, and its size in CSS px.

        Raises:
            ActionError: the page cannot be read.
        """
        return await self._read("listElements", max=MAX_ELEMENTS, nextRef=self._next_ref)

    async def set_value(self, action: act.SetValue) -> str:
        """Set a field's value and return what it is then; see `actions.SetValue`.

        The page's input and change events do not count as trusted (`isTrusted` is false), but for
        those of files: names of files that the session offers are chosen for a file input, and
        dropped on what is no field.

        Raises:
            ActionError: no such ref, no field there, or a value that the field does not take; the
                text says what it takes.
        """
        target = {"ref": action.ref} if action.ref else {"x": action.x, "y": action.y}
        files = list(self._tabs.uploads.files)
        answer = await self._ask("setValue", value=action.value, files=files, **target)
        names = action.value if isinstance(action.value, list) else [str(action.value)]
        if "upload" in answer:
            return await self._choose(names, **answer["upload"])
        if "drop" in answer:
            return await self._drop(names, valid_unicode(answer["what"]), **answer["drop"])
        return valid_unicode(answer["text"])

    async def _choose(self, names: list[str], *, multiple: bool) -> str:
        """Put files into the file input that `setValue` found."""
        paths = self._tabs.uploads.paths(names)
        if len(paths) > 1 and not multiple:
            raise ActionError("the file input takes one file: give one name")
        tab = self._tabs.active
        found = await tab.cdp.send(
            "Runtime.evaluate",
            {"expression": "browserGymRefs.upload", "contextId": await _world(tab)},
        )
        await tab.cdp.send(
            "DOM.setFileInputFiles",
            {"objectId": found["result"]["objectId"], "files": [str(path) for path in paths]},
        )
        return "chosen: " + ", ".join(path.name for path in paths)

    async def _drop(self, names: list[str], what: str, *, x: float, y: float) -> str:
        """Drag files to a point, as from a folder's window, and drop them there."""
        paths = self._tabs.uploads.paths(names)
        copied = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            await self._tabs.active.cdp.send(
                "Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": copied}
            )
        return f"dropped on {what}: " + ", ".join(path.name for path in paths)

    async def _read(self, command: str, **options: Any) -> str:
        return valid_unicode((await self._ask(command, **options))["text"])

    async def _ask(self, command: str, **options: Any) -> dict[str, Any]:
        tab = self._tabs.active
        await self._refuse_forbidden(tab)
        answer = await _call(tab, command, options)
        await self._refuse_forbidden(tab)  # it may have come while we read
        self._next_ref = answer.get("nextRef", self._next_ref)
        if error := answer.get("error"):
            raise ActionError(valid_unicode(error))
        return answer

    async def _refuse_forbidden(self, tab: Tab) -> None:
        """Keep what a screenshot must not show from being read either."""
        if await self._reach.forbids(tab.page):
            raise ActionError("this page cannot be read")


async def fill_focused(tab: Tab, text: str) -> bool:
    """Set the focused date, time or color input if `text` is a whole value of it; tell whether.

    Such an input takes keys part by part, in the order of the locale, and makes year 61129 of a
    typed 2026-11-29.

    Raises:
        ActionError: the page cannot be read.
    """
    if not _DATE_TIME_OR_COLOR.fullmatch(text):
        return False  # spares all other typing the round trip
    return (await _call(tab, "fillFocused", {"text": text}))["filled"]


async def _call(tab: Tab, command: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run one command of `reading.js` in the tab's main frame, in a world of our own.

    Raises:
        ActionError: the script failed.
        playwright.async_api.Error: the page crashed, closed or was left meanwhile.
    """
    answer = await tab.cdp.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": _SCRIPT,
            "executionContextId": await _world(tab),
            "arguments": [{"value": command}, {"value": options}],
            "returnByValue": True,
        },
    )
    if details := answer.get("exceptionDetails"):
        thrown = details.get("exception", {}).get("description") or details["text"]
        raise ActionError(f"the page could not be read: {thrown.splitlines()[0]}")
    return answer["result"]["value"]


async def _world(tab: Tab) -> int:
    """Return the id of our world in the tab's main frame: one for as long as a document lives."""
    tree = await tab.cdp.send("Page.getFrameTree")
    world = await tab.cdp.send(
        "Page.createIsolatedWorld",
        {"frameId": tree["frameTree"]["frame"]["id"], "worldName": _WORLD},
    )
    return world["executionContextId"]
