"""What a page says and holds, for models that ask for it in words instead of looking."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.capture import shown_text, valid_unicode
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.frames import Document, Frames, main_document
from resources_servers.browser_gym.browser.policy import Reach
from resources_servers.browser_gym.browser.tabs import Tab, Tabs
from resources_servers.browser_gym.verification.errors import InvalidTask

MAX_TEXT_CHARS = 20_000
MAX_MATCHES = 20
MAX_ELEMENTS = 200
# `find` looks further than a model is shown; the bound keeps an endless page from taking for ever.
MAX_SEARCHED_CHARS = 1_000_000

_REF = re.compile(r"(?:f(\d+))?e\d+")
_DATE_TIME_OR_COLOR = re.compile(
    r"\d{4,6}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d)?)?)?"  # month, date, datetime-local
    r"|\d{4,6}-W\d\d|\d\d:\d\d(:\d\d)?|#[0-9a-fA-F]{6}"  # week, time, color
)


@dataclass(frozen=True)
class Spot:
    """Where an element is.

    Attributes:
        x: of a point where a click reaches it, in CSS px of the viewport.
        y: likewise.
        takes_keys: whether its value can be typed; else it is chosen, as of a select.
    """

    x: float
    y: float
    takes_keys: bool


class Reader:
    """Reads the active tab: the page, the frames in it, their open shadow roots.

    An element that is told of (`e1`, `e2`, …; in a frame of another site `f1e1`, …) keeps its name
    until its page is left; no name is given twice in a session, so that an old one is never taken
    for another element.
    """

    def __init__(self, tabs: Tabs, reach: Reach) -> None:
        """Read the active one of `tabs`, if `reach` lets it be seen."""
        self._tabs = tabs
        self._reach = reach
        self._frames = Frames()
        self._frame_numbers: dict[str, int] = {}
        self._next_refs: dict[str, int] = {}

    async def page_text(self) -> str:
        """Return the visible text, cut after `MAX_TEXT_CHARS`; it says when it is cut.

        Here and below, frames of other sites come after the page, each under its address.

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
        return await self._read("listElements", max=MAX_ELEMENTS)

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
        if action.ref:
            document = await self._document_of(action.ref)
        else:
            document = await self._document_at(action.x or 0, action.y or 0)
        options = {"value": action.value, "files": files, **target}
        answer = await self._ask("setValue", document, **options)
        names = action.value if isinstance(action.value, list) else str(action.value).splitlines()
        if "upload" in answer:
            return await self._choose(document, names, **answer["upload"])
        if "drop" in answer:
            return await self._drop(names, valid_unicode(answer["what"]), **answer["drop"])
        return valid_unicode(answer["text"])

    async def observe(self, max_chars: int, query: str | None = None) -> str:
        """Return what the page shows in words, with its elements named where they stand.

        The whole page if it is short enough, else what is on the screen and what follows.

        Args:
            max_chars: length that is not passed, but for short remarks.
            query: only the lines that hold this text.

        Raises:
            ActionError: the page cannot be read.
            playwright.async_api.Error: the page crashed, closed or was left meanwhile.
        """
        return await self._read("observe", max=max_chars, query=query, readMax=MAX_SEARCHED_CHARS)

    async def locate(self, ref: str, *, must_work: bool = False) -> Spot:
        """Return where an element is reached by the mouse, after scrolling it into view.

        Args:
            ref: its name.
            must_work: whether a disabled one is an error.

        Raises:
            ActionError: it is not on the page any more, hidden, covered (the text says by what) or
                disabled.
        """
        options = {"ref": ref, "mustWork": must_work}
        document = await self._document_of(ref)
        try:
            return await self._spot(document, options)
        except ActionError:
            if not document.outer:
                raise
        # The frame that it is in may be off the screen: only the browser scrolls across sites.
        quoted = f"browserGymRefs.elements.get({ref!r})?.deref()"
        if (object_id := await document.object_id(quoted)) is not None:
            await document.cdp.send("DOM.scrollIntoViewIfNeeded", {"objectId": object_id})
        return await self._spot(await self._document_of(ref), options)

    async def _spot(self, document: Document, options: dict[str, Any]) -> Spot:
        answer = await self._ask("locate", document, **options)
        points = answer["points"]
        for outer, path in document.outer:
            through = await self._ask("throughFrame", outer, points=points, path=path)
            points = through["points"]
        return Spot(*points[0], takes_keys=answer["takesKeys"])

    async def caret_to_end(self, ref: str) -> bool:
        """Put the caret behind what is in a focused field; False if only a key can."""
        return (await self._ask("caretToEnd", await self._document_of(ref)))["done"]

    async def _choose(self, document: Document, names: list[str], *, multiple: bool) -> str:
        """Put files into the file input that `setValue` found."""
        paths = self._tabs.uploads.paths(names)
        if len(paths) > 1 and not multiple:
            raise ActionError("the file input takes one file: give one name")
        there = await self._tabs.uploads.paths_for_browser(paths)
        await document.cdp.send(
            "DOM.setFileInputFiles",
            {
                "objectId": await document.object_id("browserGymRefs.upload"),
                "files": there,
            },
        )
        return "chosen: " + ", ".join(path.name for path in paths)

    async def _drop(self, names: list[str], what: str, *, x: float, y: float) -> str:
        """Drag files to a point, as from a folder's window, and drop them there."""
        paths = self._tabs.uploads.paths(names)
        there = await self._tabs.uploads.paths_for_browser(paths)
        copied = {"items": [], "files": there, "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            await self._tabs.active.cdp.send(
                "Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": copied}
            )
        return f"dropped on {what}: " + ", ".join(path.name for path in paths)

    async def _read(self, command: str, **options: Any) -> str:
        """Return what a command says of the page, and of each frame of another site in it.

        `max` among the options bounds each of the two halves.
        """
        tab = self._tabs.active
        await self._refuse_forbidden(tab)
        main, *inner = await self._frames.shown(tab)
        if inner and command == "observe":
            options["max"] //= 2
        share = options | {"max": max(options["max"] // max(len(inner), 1), 1)}
        told, others = await asyncio.gather(
            self._ask(command, main, **options),
            asyncio.gather(*(self._ask_frame(command, document, **share) for document in inner)),
        )
        parts = [told["text"]]
        unread = told.get("unread", 0) - len(inner)
        for document, other in zip(inner, others, strict=True):
            if other is None:
                parts.append(f"in the frame {shown_text(document.url)}: (not read)")
                continue
            unread += other.get("unread", 0)
            if other["found"]:
                parts.append(f"in the frame {shown_text(document.url)}:\n{other['text']}")
        if unread > 0:
            parts.append(f"[{unread} frame(s) of another site: not read]")
        return valid_unicode("\n".join(parts))

    async def _ask(
        self, command: str, document: Document | None = None, **options: Any
    ) -> dict[str, Any]:
        """Run a command in a document, by default the tab's own, if it may be seen."""
        tab = self._tabs.active
        await self._refuse_forbidden(tab)
        document = document or await main_document(tab)
        prefix = self._prefix(document)
        names = {"prefix": prefix, "nextRef": self._next_refs.get(prefix, 1)}
        answer = await document.call(command, {**names, **options})
        await self._refuse_forbidden(tab)  # it may have come while we read
        if "nextRef" in answer:
            self._next_refs[prefix] = answer["nextRef"]
        if error := answer.get("error"):
            raise ActionError(valid_unicode(error))
        return answer

    async def _ask_frame(
        self, command: str, document: Document, **options: Any
    ) -> dict[str, Any] | None:
        """Do the same in a frame, which may go meanwhile: then there is no answer."""
        try:
            return await self._ask(command, document, **options)
        except (ActionError, Error):
            return None

    async def _document_at(self, x: float, y: float) -> Document:
        """Return the document that a click at a point goes to."""
        documents = await self._frames.shown(self._tabs.active)
        for document in reversed(documents[1:]):
            if document.is_at(x, y):
                with contextlib.suppress(ActionError):  # covered
                    for outer, path in document.outer:
                        await self._ask("throughFrame", outer, points=[[x, y]], path=path)
                    return document
        return documents[0]

    async def _document_of(self, ref: str) -> Document:
        """Return the document that an element is in."""
        tab = self._tabs.active
        match = _REF.fullmatch(ref)
        number = match[1] if match else None
        if number is None:
            return await main_document(tab)
        for document in await self._frames.shown(tab):
            if self._frame_numbers.get(document.frame_id) == int(number):
                return document
        raise ActionError(f'element "{ref}" is not on this page (any more): its frame is gone')

    def _prefix(self, document: Document) -> str:
        """Return what the names of a document's elements start with."""
        if not document.place:
            return ""
        numbers = self._frame_numbers
        return f"f{numbers.setdefault(document.frame_id, len(numbers) + 1)}"

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
    document = await main_document(tab)
    return (await document.call("fillFocused", {"text": text}))["filled"]


async def read_final_page(
    tab: Tab, *, text: bool, selectors: Sequence[str], most: int, max_chars: int
) -> dict[str, Any]:
    """Return what is graded of a page.

    Returns:
        `text`: the visible text, cut after `MAX_SEARCHED_CHARS`, if wanted, else None; `found`: per
        selector the `count` of elements and the `texts` of the first `most`, each cut after
        `max_chars`.

    Raises:
        ActionError: the script failed.
        playwright.async_api.Error: the page crashed, closed or was left meanwhile.
    """
    options = {"text": text, "selectors": list(selectors), "max": MAX_SEARCHED_CHARS}
    document = await main_document(tab)
    return await document.call("finalPage", options | {"most": most, "maxEach": max_chars})


async def check_selectors(tab: Tab, selectors: Sequence[str]) -> None:
    """Raise `InvalidTask` if one of them is no CSS selector that the browser knows."""
    document = await main_document(tab)
    if bad := await document.call("badSelector", {"selectors": list(selectors)}):
        raise InvalidTask(f"not a CSS selector: {bad['selector']!r}: {bad['reason']}")
