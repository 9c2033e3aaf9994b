"""What one line of a task file must hold, checked before anything is run.

Extra fields are allowed and kept: NeMo Gym and later verifiers have their own.
"""

from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from resources_servers.browser_gym.verification.errors import InvalidTask

MIN_VIEWPORT_PX, MAX_VIEWPORT_PX = 100, 4096
DEFAULT_VIEWPORT = {"width": 1280, "height": 720}


def _check_web_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError for a port that is none
    except ValueError as error:
        raise ValueError(f"not a web address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or address != address.strip():
        raise ValueError("give a full web address, such as http://127.0.0.1:8777/crm/")
    return address


WebAddress = Annotated[str, AfterValidator(_check_web_address)]
Pixels = Annotated[int, Field(strict=True, ge=MIN_VIEWPORT_PX, le=MAX_VIEWPORT_PX)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="allow")

    @classmethod
    def _parse(cls, data: Any, field: str) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(part for part in (field, *map(str, first["loc"])) if part)
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] == "model_type":
                message = "give a JSON object"
            given = "" if first["type"] == "missing" else f", not {repr(first['input'])[:100]}"
            raise InvalidTask(f"{path or 'row'}: {message}{given}") from error


class Viewport(_Row):
    """Size of the page in CSS pixels."""

    width: Pixels
    height: Pixels


class VerifierMetadata(_Row):
    """What the resources server needs to start and to grade a task.

    Attributes:
        task_id: Name of the task, unique in its task set.
        gym_url: Address of the web gym that serves the task, if one does.
        start_url: Where the session starts; the gym's address if the row does not say.
        viewport: Size of the page; the server's default if the row does not say.
        verifier: Who grades; see `verification/verifiers.py`.
        category: Kind of task, for reports and for stratified splits.
        assertions: What `local_storage` checks; see `verification/assertions.py`.
    """

    task_id: Annotated[str, Field(min_length=1)] | None = None
    gym_url: WebAddress | None = None
    start_url: WebAddress | None = None
    viewport: Viewport | None = None
    verifier: str | None = None
    category: str | None = None
    assertions: list[Any] | None = None

    @model_validator(mode="after")
    def _start_at_the_gym(self) -> Self:
        if self.start_url is None:
            self.start_url = self.gym_url
        return self

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Checks a row's `verifier_metadata`; raises `InvalidTask` naming the field."""
        return cls._parse(data, "verifier_metadata")


def _check_input(value: Any) -> Any:
    messages = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if not value or not (messages or isinstance(value, str)):
        raise ValueError("give the task's text, or a list of messages that holds it")
    return value


class _Params(_Row):
    input: Annotated[Any, AfterValidator(_check_input)]


class TaskRow(_Row):
    """One line of a task file."""

    responses_create_params: _Params
    verifier_metadata: VerifierMetadata

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Checks a row; raises `InvalidTask` naming the field."""
        row = cls._parse(data, "")
        if row.verifier_metadata.start_url is None:
            raise InvalidTask("verifier_metadata.start_url: missing; give it, or a gym_url")
        return row
