"""What the READMEs document, for tests that it is all there is."""

import re
from pathlib import Path


def first_column(readme: Path, heading: str) -> set[str]:
    """Return the names in backticks in the first column of a README's table.

    Args:
        readme: The file.
        heading: What stands above the column; one table has it.
    """
    rows = readme.read_text(encoding="utf-8").split(f"\n| {heading} |")
    assert len(rows) == 2, f"{readme}: there must be one table that starts with {heading!r}"
    table = rows[1].partition("\n\n")[0].splitlines()[2:]
    cells = (row.split("|")[1] for row in table)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
