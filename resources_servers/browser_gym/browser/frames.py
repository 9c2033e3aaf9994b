"""Runs `reading.js` in the frames of a tab, each in an isolated world that pages do not notice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from playwright.async_api import CDPSession, Error, Frame

from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.tabs import Tab

_FOLDER = Path(__file__).parent
_SCRIPT = (
    (_FOLDER / "reading.js")
    .read_text(encoding="utf-8")
    .replace("/* elements.js */", (_FOLDER / "elements.js").read_text(encoding="utf-8"))
)
_WORLD = "browser-gym"
# Frames of other sites, nearly all of them advertisements on a page that has more.
MAX_FRAMES = 30

Path_ = tuple[int, ...]
Json = dict[str, Any]


@dataclass(frozen=True)
class Document:
    """The document of one frame, with those of the same site in it.

    Attributes:
        frame_id: Chromium's name of the frame.
        url: the frame's address.
        cdp: a session attached to its process.
        world: id of our world in it: one for as long as the document lives.
        place: where on the screen it is, as `places` tells; None of the tab's own document.
        outer: the documents around it, from the innermost to the tab's own, each with the path
            of the frame in it that leads here.
    """

    frame_id: str
    url: str
    cdp: CDPSession
    world: int
    place: Json | None = None
    outer: tuple[tuple[Document, Path_], ...] = field(default=(), repr=False)

    async def call(self, command: str, options: Json) -> Any:
        """Run one command of `reading.js`.

        Raises:
            ActionError: the script failed.
            playwright.async_api.Error: the page crashed, closed or was left meanwhile.
        """
        answer = await self.cdp.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": _SCRIPT,
                "executionContextId": self.world,
                "arguments": [{"value": command}, {"value": {**options, "place": self.place}}],
                "returnByValue": True,
            },
        )
        if details := answer.get("exceptionDetails"):
            thrown = details.get("exception", {}).get("description") or details["text"]
            raise ActionError(f"the page could not be read: {thrown.splitlines()[0]}")
        return answer["result"].get("value")

    def is_at(self, x: float, y: float) -> bool:
        """Whether a point, in CSS px of the viewport, is in what is seen of the document."""
        view = self.place["view"] if self.place else {}
        return (
            bool(view) and view["left"] <= x < view["right"] and view["top"] <= y < view["bottom"]
        )

    async def object_id(self, expression: str) -> str | None:
        """Return Chromium's handle of what an expression in our world gives, if it is an object."""
        found = await self.cdp.send(
            "Runtime.evaluate", {"expression": expression, "contextId": self.world}
        )
        return found["result"].get("objectId")


async def main_document(tab: Tab) -> Document:
    """Return the tab's own document.

    Raises:
        playwright.async_api.Error: the page crashed or closed.
    """
    tree = await tab.cdp.send("Page.getFrameTree")
    return await _document(tab.cdp, tree["frameTree"]["frame"])


class Frames:
    """Finds the documents that a tab shows: its own, and those of frames of other sites."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Frame, CDPSession] = WeakKeyDictionary()

    async def shown(self, tab: Tab) -> list[Document]:
        """Return the tab's own document and those that it cannot see into, outer ones first.

        Frames that are not drawn are left out; so are those beyond `MAX_FRAMES`.

        Raises:
            ActionError: the page could not be read.
            playwright.async_api.Error: the page crashed or closed.
        """
        tree = await tab.cdp.send("Page.getFrameTree")
        own, *inner = [(tab.cdp, frame) for frame in _flat(tree["frameTree"])]
        inner += await self._in_other_processes(tab, [frame["url"] for _, frame in (own, *inner)])
        main = await _document(*own)
        if not inner:
            return [main]
        found = await asyncio.gather(
            _placed(main), *(self._placed_document(*frame) for frame in inner)
        )
        by_path = {tuple(told["path"]): (document, told) for document, told in filter(None, found)}
        documents: dict[Path_, Document] = {}
        for path in sorted(by_path, key=len):
            document, _ = by_path[path]
            if path:
                outer_path = _longest_start(path, documents)
                outer = documents[outer_path]
                holes = {tuple(hole["path"]): hole for hole in by_path[outer_path][1]["holes"]}
                if path not in holes or len(documents) > MAX_FRAMES:
                    continue
                document = _within(document, outer, path, holes[path])
            documents[path] = document
        return list(documents.values())

    async def _placed_document(self, cdp: CDPSession, frame: Json) -> tuple[Document, Json] | None:
        with contextlib.suppress(Error, ActionError):  # it may have gone meanwhile
            return await _placed(await _document(cdp, frame))
        return None

    async def _in_other_processes(
        self, tab: Tab, known: list[str]
    ) -> list[tuple[CDPSession, Json]]:
        """Return the frames that Chromium has in processes of their own, with sessions for them."""
        missing = len(tab.page.frames) - len(known)
        if missing <= 0:
            return []
        strangers = [frame for frame in tab.page.frames[1:] if frame.url not in known]
        found = await asyncio.gather(*(self._trees(tab, f) for f in strangers[: 2 * MAX_FRAMES]))
        return [entry for entries in found for entry in entries]

    async def _trees(self, tab: Tab, frame: Frame) -> list[tuple[CDPSession, Json]]:
        try:
            cdp = self._sessions.get(frame)
            if cdp is None:
                cdp = await tab.page.context.new_cdp_session(frame)
                self._sessions[frame] = cdp
            tree = await cdp.send("Page.getFrameTree")
        except Error:
            self._sessions.pop(frame, None)
            return []  # in the process of the frame around it, which told of it, or gone
        return [(cdp, inner) for inner in _flat(tree["frameTree"])]


async def _document(cdp: CDPSession, frame: Json) -> Document:
    world = await cdp.send(
        "Page.createIsolatedWorld", {"frameId": frame["id"], "worldName": _WORLD}
    )
    return Document(frame["id"], frame["url"], cdp, world["executionContextId"])


async def _placed(document: Document) -> tuple[Document, Json] | None:
    told = await document.call("places", {})
    return (document, told) if told else None


def _flat(tree: Json) -> list[Json]:
    """Return a frame and all in it, outer ones first."""
    inner = [frame for child in tree.get("childFrames", []) for frame in _flat(child)]
    return [tree["frame"], *inner]


def _longest_start(path: Path_, known: Mapping[Path_, Any]) -> Path_:
    return next(path[:end] for end in range(len(path) - 1, -1, -1) if path[:end] in known)


def _within(document: Document, outer: Document, path: Path_, hole: Json) -> Document:
    """Return a document with its place on the screen, from where it is in the one around it."""
    around = outer.place or {"left": 0, "top": 0, "view": hole["view"]}
    left, top = around["left"], around["top"]
    view, seen = hole["view"], around["view"]
    if outer.place:
        shift = {"left": left, "right": left, "top": top, "bottom": top}
        view = {side: value + shift[side] for side, value in view.items()}
    view = {
        side: (max if side in ("left", "top") else min)(view[side], seen[side]) for side in view
    }
    place = {"left": hole["left"] + left, "top": hole["top"] + top, "view": view}
    return Document(
        document.frame_id,
        document.url,
        document.cdp,
        document.world,
        place,
        ((outer, path), *outer.outer),
    )
