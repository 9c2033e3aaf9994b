"""What a page that asks for files is given: those of the task, and those downloaded before.

No file dialog is ever shown, so none can hang. The page's question is an event that names the
files there are, and the model answers it as a person answers such a dialog: it types names, or
presses Escape. For models that can, `set_value` on a file input does the same without the dialog,
and on something that is no field it drops the files there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

from playwright.async_api import CDPSession, Error, FileChooser

from resources_servers.browser_gym import actions as act
from resources_servers.browser_gym.browser.announced import Announced
from resources_servers.browser_gym.browser.errors import ActionError
from resources_servers.browser_gym.browser.remote_files import RemoteFiles
from resources_servers.browser_gym.keys import UnknownKeyError, normalize_chord

# They neither answer an open question nor go on without it.
_PASSIVE = (
    act.Screenshot
    | act.Zoom
    | act.PageText
    | act.Find
    | act.ListElements
    | act.ScrollTo
    | act.Wait
    | act.Move
    | act.ListTabs
    | act.CursorPosition
)
_CANCEL_TIMEOUT_S = 2

# Chromium has told the page nothing yet. Not trusted, but the only way to say it.
_CANCEL_SCRIPT = "input => { input.dispatchEvent(new Event('cancel', {bubbles: true})); }"


class Uploads:
    """Holds the question for files that is open, and answers it."""

    def __init__(
        self,
        files: Callable[[], dict[str, Path]],
        report: Callable[..., None],
        remote_files: RemoteFiles | None = None,
    ) -> None:
        """Offer what `files` returns, by name.

        Args:
            files: called whenever a page asks.
            report: `report(kind, **fields)` takes `file_chooser`.
            remote_files: for a browser on another machine.
        """
        self._offered = files
        self._remote_files = remote_files
        self._report = report
        self._open: FileChooser | None = None
        self._answered = False
        self._announced = Announced()
        self._cancelling: set[asyncio.Task[None]] = set()

    @property
    def files(self) -> dict[str, Path]:
        """What is offered, by name."""
        return self._offered()

    async def watch(self, cdp: CDPSession) -> None:
        """Hear of questions ahead of `asked`, from the tab that `cdp` is attached to.

        Raises:
            playwright.async_api.Error: the tab is gone.
        """
        cdp.on("Page.fileChooserOpened", lambda _: self._announced.announce())
        await cdp.send("Page.setInterceptFileChooserDialog", {"enabled": True})

    async def arrived(self) -> bool:
        """Wait until all announced questions are asked, and those not left open are cancelled.

        Returns:
            Whether there was any to wait for.
        """
        waited = await self._announced.all_told()
        if self._cancelling:
            waited = True
            await asyncio.wait(self._cancelling)
        return waited

    def asked(self, chooser: FileChooser) -> None:
        """Take a page's question; the one before it, if it is open still, is cancelled."""
        self._announced.tell()
        self._cancel()
        names = list(self.files)
        self._report("file_chooser", files=names, multiple=chooser.is_multiple())
        self._open = chooser
        if not names:
            self._cancel()

    async def take(self, action: act.Action) -> str | None:
        """Return what an action did to the open question, or None if it is for the page.

        Raises:
            ActionError: it names a file that is not offered, or the page takes no such answer.
        """
        answered, self._answered = self._answered, False
        if answered and _presses_only(action, "Enter", "NumpadEnter"):
            return "the file was chosen already; the key was not passed on to the page"
        if self._open is None or isinstance(action, _PASSIVE):
            return None
        if _presses_only(action, "Escape"):
            await self._cancel()
            return "no file was chosen"
        if isinstance(action, act.Type):
            names = [line for line in action.text.splitlines() if line.strip()]
            # A model that types with a place may have turned to a field of the page.
            if (action.x is None and action.ref is None) or all(
                _base(name) in self.files for name in names
            ):
                return await self._answer(names)
        await self._cancel()
        return None

    def paths(self, names: list[str]) -> list[Path]:
        """Return where the files of these names are.

        Raises:
            ActionError: there is no such file; the text says which there are.
        """
        files = self.files
        if unknown := [name for name in names if _base(name) not in files]:
            there_are = ", ".join(map(repr, files)) or "none"
            raise ActionError(f"there is no file {unknown[0]!r} to choose: there are {there_are}")
        return [files[_base(name)] for name in names]

    async def paths_for_browser(self, paths: list[Path]) -> list[str]:
        """Return where the browser finds files, copied to its machine if need be.

        Raises:
            ActionError: they could not be copied there.
        """
        if self._remote_files is None:
            return [str(path) for path in paths]
        try:
            return await self._remote_files.place(paths)
        except TimeoutError:
            raise ActionError("copying the files to the browser took too long") from None

    async def stop(self) -> None:
        """End what still runs."""
        for task in self._cancelling:
            task.cancel()
        await asyncio.gather(*self._cancelling, return_exceptions=True)

    async def _answer(self, names: list[str]) -> str:
        chooser = self._open
        assert chooser is not None
        paths = self.paths(names)
        if not paths:
            raise ActionError("type the name of a file, or press Escape to choose none")
        if len(paths) > 1 and not chooser.is_multiple():
            raise ActionError("the page takes one file: type one name")
        self._open = None
        self._answered = True
        try:
            await chooser.set_files(paths)
        except Error as error:
            raise ActionError(f"the page did not take the files: {error.message}") from error
        return "chosen: " + ", ".join(path.name for path in paths)

    def _cancel(self) -> asyncio.Task[None]:
        """Begin to cancel the open question, if there is one; nobody needs to wait for it."""
        chooser, self._open = self._open, None
        task = asyncio.ensure_future(_tell_cancelled(chooser))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
        return task


async def _tell_cancelled(chooser: FileChooser | None) -> None:
    if chooser is None:
        return
    with contextlib.suppress(Error, TimeoutError):  # the page may be gone, or busy
        async with asyncio.timeout(_CANCEL_TIMEOUT_S):
            await chooser.element.evaluate(_CANCEL_SCRIPT)


def _presses_only(action: act.Action, *keys: str) -> bool:
    if not isinstance(action, act.Key):
        return False
    try:
        chords = [normalize_chord(chord) for chord in action.chords]
    except UnknownKeyError:
        return False  # told when it is pressed
    return all(len(chord) == 1 and chord[0] in keys for chord in chords)


def _base(name: str) -> str:
    """Return a file's name without folders and quotes, which a person may type too."""
    return PureWindowsPath(name.strip().strip("\"'")).name
