"""Where a sample's images are: references that hold from the output file on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from browser_gym.exporting.left_out import LeftOut
from browser_gym.viewer.pictures import picture_file, read_picture

Images = Literal["reference", "copy"]
MISSING = "a missing image"


class ImagePlaces:
    """Says how a sample refers to an image that a row refers to.

    A file is referred to relative to the output file, so that both can be moved together. With
    `copy` the files, and images that the row holds itself, are put into a folder beside the output
    file, each once. Web addresses stay as they are.
    """

    def __init__(self, output: Path, images: Images) -> None:
        """Prepare for samples in `output`.

        Args:
            output: the file of the samples.
            images: whether to refer to the files where they are, or to copies.
        """
        self._base = output.parent.resolve()
        self._folder = self._base / f"{output.stem}_images" if images == "copy" else None
        self._known: dict[tuple[Path, str], str] = {}

    def place(self, reference: str, folder: Path) -> str:
        """Return how a sample refers to an image.

        Args:
            reference: the row's: a path, or a `file:`, `data:` or web address.
            folder: of the row's file, which paths are relative to.

        Raises:
            LeftOut: there is no such file, or the data are none.
        """
        if reference.startswith(("http://", "https://")):
            return reference
        if reference.startswith("data:"):
            return self._data(reference) if self._folder else reference
        key = (folder, reference)
        if key not in self._known:
            self._known[key] = self._file(reference, folder)
        return self._known[key]

    def _file(self, reference: str, folder: Path) -> str:
        path = picture_file(reference, folder)
        if path is None:
            raise LeftOut(
                MISSING,
                f"{reference:.500} is no image file, seen from {folder}; keep rollouts and their "
                "artifacts together",
            )
        if self._folder:
            return self._keep(path.read_bytes(), path.suffix)
        return self._relative(path)

    def _data(self, url: str) -> str:
        picture = read_picture(url, Path())
        if picture is None:
            raise LeftOut(MISSING, f"an image in the row is no base64 of one: {url[:60]}")
        subtype = picture.media_type.rpartition("/")[2]
        return self._keep(picture.data, "." + subtype.replace("jpeg", "jpg"))

    def _keep(self, content: bytes, suffix: str) -> str:
        """Return the reference to a copy, named by what is in it."""
        assert self._folder
        path = self._folder / (hashlib.sha256(content).hexdigest() + suffix)
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return self._relative(path)

    def _relative(self, path: Path) -> str:
        return Path(os.path.relpath(path, self._base)).as_posix()
