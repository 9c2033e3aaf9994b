"""Makes the project's Markdown fit for the documentation: READMEs as pages, links between them.

A page of `docs` that holds nothing but a link to a Markdown file is that file. A line elsewhere
that holds nothing but a link to another file of the project shows its content as code. So the same
pages can be read without being built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_ONLY_A_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)\)")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".html": "html"}


def pages() -> dict[Path, Path]:
    """Return the page of each Markdown file that is one, also of those outside of `docs`."""
    found: dict[Path, Path] = {}
    for page in sorted(DOCS.rglob("*.md")):
        found[_shown_by(page, page.read_text("utf-8"))] = page
    return found


def built(page: Path, text: str) -> str:
    """Return the text that is built for a page.

    Args:
        page: its file.
        text: its content.

    Raises:
        FileNotFoundError: a link leads to nothing.
    """
    source = _shown_by(page, text)
    if source != page:
        text = source.read_text("utf-8")
    known = pages()
    lines = [_code_of(line, source) for line in text.splitlines()]
    return _outside_code("\n".join(lines) + "\n", lambda part: _linked(part, source, page, known))


def _shown_by(page: Path, text: str) -> Path:
    match = _ONLY_A_LINK.fullmatch(text.strip())
    return (page.parent / match[1]).resolve() if match else page


def _code_of(line: str, source: Path) -> str:
    match = _ONLY_A_LINK.fullmatch(line)
    path = (source.parent / match[1]).resolve() if match else source
    if path.suffix not in _LANGUAGES:
        return line
    return f"```{_LANGUAGES[path.suffix]}\n{path.read_text('utf-8').rstrip()}\n```"


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCE.split(text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def _linked(text: str, source: Path, page: Path, known: dict[Path, Path]) -> str:
    def link(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = (source.parent / target).resolve()
        if not path.exists():
            raise FileNotFoundError(f"{source.relative_to(ROOT)}: {match[0]} leads to nothing")
        if path in known or match["image"]:
            to = os.path.relpath(known.get(path, path), page.parent)
            return f"{match['image']}[{match['text']}]({to}{'#' if anchor else ''}{anchor})"
        # What is no page has no address in the documentation.
        return f"{match['text']} (`{path.relative_to(ROOT)}`)"

    return _LINK.sub(link, text)
