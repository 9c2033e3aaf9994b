"""The page of the viewer, in one piece: its style and scripts are in it.

The scripts are modules, so that each can be read, checked and edited by itself. In the page they
are one: they use no name twice, and import only each other.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = (
    *("dom.js", "source.js", "words.js", "overlay.js", "step.js", "verdict.js"),
    *("pane.js", "filters.js", "list.js", "theme.js", "keys.js", "main.js"),
)
"""In an order in which each comes after what it imports."""
_STYLES = ("colors.css", "layout.css", "rollout.css")
_IMPORT = re.compile(r"^import \{[^}]*\} from \"\./[a-z]+\.js\";\n", re.MULTILINE)


@cache
def style() -> str:
    """Return the page's style sheet."""
    return "".join(_read(name) for name in _STYLES)


@cache
def script() -> str:
    """Return the page's script."""
    modules = (_IMPORT.sub("", _read(name)) for name in _SCRIPTS)
    return "".join(re.sub(r"^export ", "", module, flags=re.MULTILINE) for module in modules)


def policy(more: str) -> str:
    """Return the page's content security policy: nothing but its own style and script.

    Args:
        more: directives of how this page gets its data.
    """
    allowed = f"script-src '{_hash(script())}'; style-src '{_hash(style())}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'; {more}"


def page(*, head: str = "", data: str = "") -> str:
    """Return the page.

    Args:
        head: HTML that comes first in its head.
        data: HTML of elements that hold data, before the script.
    """
    parts = {"HEAD": head, "STYLE": style(), "DATA": data, "SCRIPT": script()}
    return re.sub(r"<!--([A-Z]+)-->", lambda match: parts[match[1]], _read("page.html"))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (_STATIC / name).read_text("utf-8")
