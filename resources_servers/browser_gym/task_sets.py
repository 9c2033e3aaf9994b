"""Order, sample, split, identify and write sets of task rows.

All choices depend on the seed and the task ids alone, through a hash. So they are the same on every
machine, and when a gym gets new tasks the old ones keep their order, and only those at the edge of
a sample or split can change sides.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_LINE_BREAKS_OF_UNICODE = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\u0085\u2028\u2029"}


def task_set_id(rows: Iterable[Row]) -> str:
    """Returns 12 hex digits that name a set of rows, whatever their order and file."""
    digests = sorted(hashlib.sha256(_canonical(row)).digest() for row in rows)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def shuffle(rows: list[Row], seed: int) -> list[Row]:
    """Returns the rows in the random order of a seed."""
    return sorted(rows, key=lambda row: _rank(row, seed))


def sample(rows: list[Row], size: int, seed: int) -> list[Row]:
    """Picks rows at random, from each category in proportion; they keep their order.

    Raises:
        ValueError: There are fewer rows, or `size` is not positive.
    """
    if not 0 < size <= len(rows):
        raise ValueError(f"cannot sample {size} of {len(rows)} tasks")
    share = Fraction(size, len(rows))
    return split(rows, {"picked": share, "rest": 1 - share}, seed)["picked"]


def split(rows: list[Row], shares: Mapping[str, Fraction], seed: int) -> dict[str, list[Row]]:
    """Puts each row into one of several sets, each category in proportion; rows keep their order.

    Args:
        rows: The tasks.
        shares: {name of the set: its share}; together 1.
        seed: Chooses the tasks within a category.
    """
    by_category: defaultdict[str, list[Row]] = defaultdict(list)
    for row in shuffle(rows, seed):
        by_category[row["verifier_metadata"].get("category") or ""].append(row)

    set_of: dict[int, str] = {}
    given = dict.fromkeys(shares, 0)
    seen = 0
    for category in sorted(by_category):
        # How many of this category each set gets: the next always goes to the set that lags most
        # behind its share of all tasks so far, which keeps both it and the whole in proportion.
        counts = dict.fromkeys(shares, 0)
        for _ in by_category[category]:
            seen += 1
            neediest = max(shares, key=lambda name: shares[name] * seen - given[name])
            given[neediest] += 1
            counts[neediest] += 1
        names = [name for name, count in counts.items() for _ in range(count)]
        set_of |= {id(row): name for row, name in zip(by_category[category], names, strict=True)}
    return {name: [row for row in rows if set_of[id(row)] == name] for name in shares}


def write_jsonl(files: Mapping[Path, list[Row]]) -> None:
    """Writes each file whole or not at all: under another name in its folder, then renamed.

    Missing folders are made. Nothing is renamed before all are written, so a full disk leaves every
    old file as it was.

    Raises:
        OSError: A file cannot be written.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, rows in files.items():
            # Through a symbolic link the file it points at is replaced, not the link.
            target = path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise IsADirectoryError(f"{path} is a folder; give the name of a file")
            unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            temporary[target] = unfinished
            with unfinished.open("wb") as file:
                file.writelines(jsonl_line(row) for row in rows)
                file.flush()
                os.fsync(file.fileno())
        for target, unfinished in temporary.items():
            unfinished.replace(target)
    finally:
        for unfinished in temporary.values():
            unfinished.unlink(missing_ok=True)


def jsonl_line(row: Row) -> bytes:
    """Returns a row as one line of UTF-8, with no other line break of Unicode in it."""
    text = json.dumps(row, ensure_ascii=False).translate(_LINE_BREAKS_OF_UNICODE)
    # An unpaired surrogate becomes its JSON escape, since UTF-8 has no form for it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _canonical(row: Row) -> bytes:
    return json.dumps(row, sort_keys=True, separators=(",", ":")).encode("ascii")


def _rank(row: Row, seed: int) -> bytes:
    metadata = row["verifier_metadata"]
    key = f"{seed}\n{metadata['task_id']}"
    return hashlib.sha256(key.encode("utf-8", "backslashreplace")).digest()
