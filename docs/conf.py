"""How the documentation is built; see `make docs`."""

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.docs.links import built

project = "Browser Gym"
author = "the authors of Browser Gym"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links to headings work as they do on code-hosting sites
html_theme = "furo"
html_title = "Browser Gym"
html_show_sphinx = False
html_copy_source = False
exclude_patterns = ["examples/*"]


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    content[0] = built(Path(app.srcdir) / f"{name}.md", content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Build READMEs as pages, and links to them."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
