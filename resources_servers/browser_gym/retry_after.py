"""The Retry-After header (RFC 9110, section 10.2.3)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_S = 86_400.0


def retry_after_s(header: str | None) -> float | None:
    """Return after how many seconds another try is welcome, or None if the header does not say.

    Args:
        header: its value, seconds or a date; None if there was none.
    """
    value = (header or "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), _LONGEST_S)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max(0.0, (until - datetime.now(UTC)).total_seconds()), _LONGEST_S)
