"""Files whose content is fixed by their path, such as those named by its hash."""

import uuid
from pathlib import Path


def write_once(path: Path, data: bytes) -> None:
    """Write a file unless it is there, so that no reader ever sees half of it.

    Raises:
        OSError: it could not be written.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".writing-{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
