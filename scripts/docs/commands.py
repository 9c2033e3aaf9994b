"""The shell commands in the documents, and whether all that they name exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.docs.links import ROOT, pages

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SEPARATORS = {"&&", "||", ";", "|", "&", "(", ")", "{", "}"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        document: its file.
        line: of its first line of text, from 1.
        language: as the fence says, such as `bash`.
        text: without the fence and its indentation.
    """

    document: Path
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line for a shell, with the lines that continue it.

    Attributes:
        document: where it stands.
        line: likewise, from 1.
        text: as it is written, continued lines too, without a comment behind it.
    """

    document: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}: {self.text}"

    @property
    def simple(self) -> list[list[str]]:
        """The words of each simple command in it, without redirections."""
        lexer = shlex.shlex(self.text.replace("\\\n", " "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        found: list[list[str]] = [[]]
        for word in lexer:
            if word in _SEPARATORS:
                found.append([])
            elif word not in (">", ">>", "<", "()"):
                found[-1].append(word)
        return [words for words in found if words]


def documents() -> list[Path]:
    """Return all documents: the pages of `docs`, and the READMEs that are pages."""
    return sorted(pages())


def blocks_of(document: Path) -> Iterator[Block]:
    """Yield a document's fenced blocks."""
    text = document.read_text("utf-8")
    for match in _FENCE.finditer(text):
        indent, language, body = match.groups()
        line = text.count("\n", 0, match.start()) + 2
        yield Block(document, line, language, re.sub(f"^{indent}", "", body, flags=re.MULTILINE))


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a block, if it is one for a shell."""
    if block.language not in ("bash", "sh", "console"):
        return
    text, first = "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        first = first if text else number
        text += line + "\n"
        if line.endswith("\\"):
            continue
        if text.strip() and not text.lstrip().startswith("#"):
            yield Command(block.document, first, re.sub(r"\s#\s.*", "", text).strip())
        text = ""


def without_assignments(words: list[str]) -> list[str]:
    """Return a simple command without the variables that are set before it."""
    position = next((i for i, w in enumerate(words) if not _ASSIGNMENT.fullmatch(w)), len(words))
    return words[position:]
