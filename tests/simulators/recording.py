"""What all simulated APIs have: a record of their requests, and faults on demand."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.simulators.faults import Fault


@dataclass
class RecordedRequest:
    """One request as it arrived, and how it was answered."""

    body: dict[str, Any]
    headers: dict[str, str]
    status: int = 0
    reply: dict[str, Any] | None = None

    @property
    def error(self) -> str | None:
        """The message of the error it was answered with."""
        error = (self.reply or {}).get("error")
        return error["message"] if error else None


class Recorder[Request: RecordedRequest]:
    """A simulated API's requests, and the faults that the next ones get.

    Attributes:
        requests: In the order they came.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._faults: deque[Fault] = deque()

    def fail_next(self, fault: Fault, *, times: int = 1) -> None:
        """Answer the next requests with a fault instead of a reply."""
        self._faults.extend([fault] * times)

    def next_fault(self, record: Request) -> Fault | None:
        """Return what a request is to fail with, if anything, and record it."""
        if not self._faults:
            return None
        fault = self._faults.popleft()
        record.status, record.reply = fault.status, fault.body
        return fault
