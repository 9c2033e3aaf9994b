"""What one line of a task file must hold, checked before anything is run.

Extra fields are allowed and kept: NeMo Gym and later verifiers have their own.
"""

import base64
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from resources_servers.browser_gym.redaction import SECRET_FIELDS
from resources_servers.browser_gym.verification.errors import InvalidTask

ClockMode = Literal["real", "step"]
MIN_VIEWPORT_PX, MAX_VIEWPORT_PX = 100, 4096
DEFAULT_VIEWPORT = {"width": 1280, "height": 720}


def check_web_address(address: str) -> str:
    """Returns a full http(s) address; raises `ValueError` if it is none."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError for a port that is none
    except ValueError as error:
        raise ValueError(f"not a web address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or address != address.strip():
        raise ValueError("give a full web address, such as http://127.0.0.1:8777/crm/")
    return address


WebAddress = Annotated[str, AfterValidator(check_web_address)]
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
            given = f", not {repr(first['input'])[:100]}"
            inside = isinstance(first["input"], dict | list) and "browser" in path
            if first["type"] == "missing" or inside or any(k in path for k in SECRET_FIELDS):
                given = ""  # a message is logged, and none of these may be
            raise InvalidTask(f"{path or 'row'}: {message}{given}") from error


class Viewport(_Row):
    """Size of the page in CSS pixels."""

    width: Pixels
    height: Pixels


class _Strict(BaseModel):
    """An object whose keys are all ours: a misspelt one would go unnoticed."""

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, data: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in data if key not in known] if isinstance(data, dict) else []
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(known)}")
        return data


def _check_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(
            'give a text in quotes; an object as its JSON text, such as "{\\"a\\": 1}"'
        )
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("half of a surrogate pair is no text; give the whole character")
    return value


def _check_origin(address: str) -> str:
    parts = urlsplit(address)
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise ValueError("give scheme, host and port only, such as http://127.0.0.1:8777")
    return address


# The network stack sets these itself, and refuses a request on which somebody else did.
_RESERVED_HEADERS = re.compile(
    "connection|content-length|cookie2?|host|keep-alive|te|trailer|transfer-encoding|upgrade",
    re.IGNORECASE,
)


def _check_header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError("not the name of a header, such as X-User")
    if _RESERVED_HEADERS.fullmatch(name):
        raise ValueError("the browser sets this header itself; cookies go in 'cookies'")
    return name


def _check_header_value(value: str) -> str:
    if not re.fullmatch(r"(?:[!-~](?:[ -~\t]*[!-~])?)?", value):
        raise ValueError("a header holds printable ASCII only, and no space at its ends")
    return value


def _check_expiry(time_s: float) -> float:
    if time_s != -1 and not 0 < time_s < 1e11:
        raise ValueError("give a Unix time in seconds, or -1 for the length of the session")
    return time_s


Text = Annotated[str, BeforeValidator(_check_text)]
Origin = Annotated[WebAddress, AfterValidator(_check_origin), BeforeValidator(_check_text)]
HeaderName = Annotated[Text, AfterValidator(_check_header_name)]
HeaderValue = Annotated[Text, AfterValidator(_check_header_value)]
Items = dict[Text, Text]


class Cookie(_Strict):
    """A cookie, in Playwright's words; either `url`, or `domain` and `path`, say whose it is.

    Attributes:
        expires: Unix time in seconds; -1, or nothing, for a cookie of the session.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    name: Annotated[Text, Field(min_length=1)]
    value: Text
    url: WebAddress | None = None
    domain: Text | None = None
    path: Text | None = None
    expires: Annotated[float, AfterValidator(_check_expiry)] | None = None
    http_only: bool | None = None
    secure: bool | None = None
    same_site: Literal["Strict", "Lax", "None"] | None = None
    partition_key: Text | None = None

    @model_validator(mode="after")
    def _has_an_owner(self) -> Self:
        if self.url and (self.domain or self.path):
            raise ValueError("give either 'url', or 'domain' and 'path', not both")
        if not self.url and not (self.domain and self.path):
            raise ValueError("give 'url', or both 'domain' and 'path'")
        return self


class HttpCredentials(_Strict):
    """What the browser answers when the start page's origin asks for a user name (HTTP auth)."""

    username: Text
    password: Text


class Geolocation(_Strict):
    """Where the browser says it is, in degrees, to pages that have the permission `geolocation`."""

    latitude: Annotated[float, Field(strict=True, ge=-90, le=90)]
    longitude: Annotated[float, Field(strict=True, ge=-180, le=180)]


def _check_locale(tag: str) -> str:
    if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", tag):
        raise ValueError("give a BCP 47 tag, such as de-DE")
    return tag


def _check_timezone(name: str) -> str:
    known = available_timezones()  # empty on a machine that has no such data
    if known and name not in known:
        raise ValueError("give a name of the IANA time zone data, such as Europe/Berlin")
    return name


def _check_host(host: str) -> str:
    if not re.fullmatch(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", host.lower()):
        raise ValueError(
            "give a host name without scheme and port, such as example.org, or *.example.org for "
            "every host below it"
        )
    return host.lower()


AllowedHost = Annotated[Text, AfterValidator(_check_host)]

Permission = Literal[
    "accelerometer",
    "ambient-light-sensor",
    "background-sync",
    "camera",
    "clipboard-read",
    "clipboard-write",
    "geolocation",
    "gyroscope",
    "local-fonts",
    "magnetometer",
    "microphone",
    "midi",
    "midi-sysex",
    "notifications",
    "payment-handler",
    "storage-access",
]


def _check_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("give a time in ISO form, such as 2026-03-01T09:00:00Z") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if not datetime(1970, 1, 1, tzinfo=UTC) <= time < datetime(3000, 1, 1, tzinfo=UTC):
        raise ValueError("give a time from 1970 to 2999")
    return time


Time = Annotated[datetime, BeforeValidator(_check_time), BeforeValidator(_check_text)]


def _check_file_name(name: str) -> str:
    if not name.strip() or name in (".", "..") or re.search(r'[/\\"\x00-\x1f]', name):
        raise ValueError("give a plain file name, such as report.pdf")
    if len(name.encode()) > 200:
        raise ValueError("give a name of at most 200 bytes")
    return name


def _check_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("not base64") from None
    return text


class File(_Strict):
    """A file's content, in one of two forms."""

    text: Text | None = None
    base64: Annotated[Text, AfterValidator(_check_base64)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("give either 'text' or 'base64'")
        return self

    @property
    def content(self) -> bytes:
        """The bytes of the file; text in UTF-8."""
        return self.text.encode() if self.text is not None else base64.b64decode(self.base64 or "")


FileName = Annotated[Text, AfterValidator(_check_file_name)]


class BrowserStart(_Strict):
    """How the browser of a task starts; all of it is in place before the start page is opened.

    Attributes:
        local_storage: {origin: {key: text}}; part of the initial state.
        session_storage: {origin: {key: text}} of the first tab.
        cookies: For any site.
        headers: {name: value}, added to each request to the start URL's origin.
        http_credentials: For the start URL's origin.
        locale: BCP 47 tag; the server's default if it is not given.
        timezone: IANA name; the server's default if it is not given.
        permissions: What every page may do without asking.
        reduced_motion: Whether pages are told that the user wants less of it.
        clock: Whether the time of pages is the wall clock's (`real`) or passes only during steps
            (`step`); the server's default if it is not given.
        time: When it is for pages as the session starts, in ISO form, UTC unless it says; time
            goes on from there.
        random_seed: Chooses the numbers of `Math.random`.
        allowed_origins: What pages may reach at private addresses, beside the start page's origin.
        allowed_hosts: What pages may reach on the public internet, beside the task's own origins:
            hosts, and `*.` with a domain for every host below it; everything if it is not given.
        ignore_tls_errors: Whether pages open although their server's certificate is not valid; the
            server's default if it is not given.
        files: {name: content} that pages which ask for files may be given.
    """

    local_storage: dict[Origin, Items] = {}
    session_storage: dict[Origin, Items] = {}
    cookies: list[Cookie] = []
    headers: dict[HeaderName, HeaderValue] = {}
    http_credentials: HttpCredentials | None = None
    locale: Annotated[Text, AfterValidator(_check_locale)] | None = None
    timezone: Annotated[Text, AfterValidator(_check_timezone)] | None = None
    geolocation: Geolocation | None = None
    permissions: list[Permission] = []
    color_scheme: Literal["light", "dark"] = "light"
    reduced_motion: Annotated[bool, Field(strict=True)] = False
    clock: ClockMode | None = None
    time: Time | None = None
    random_seed: Annotated[int, Field(strict=True, ge=0, lt=2**32)] | None = None
    allowed_origins: list[Origin] = []
    allowed_hosts: list[AllowedHost] | None = None
    ignore_tls_errors: Annotated[bool, Field(strict=True)] | None = None
    files: dict[FileName, File] = {}


MAX_JUDGE_SCREENSHOTS = 20


class JudgeTask(_Strict):
    """What a task tells its judge.

    Attributes:
        criteria: What counts in this task, beside its text.
        reference_answer: A right answer to compare with.
        instructions: What makes a YES, instead of the server's words.
        screenshots: How many of the last ones the judge sees; the server's default if the row does
            not say.
    """

    criteria: Text | None = None
    reference_answer: Text | None = None
    instructions: Text | None = None
    screenshots: Annotated[int, Field(strict=True, ge=0, le=MAX_JUDGE_SCREENSHOTS)] | None = None


class VerifierMetadata(_Row):
    """What the resources server needs to start and to grade a task.

    Attributes:
        task_id: Name of the task, unique in its task set.
        gym_url: Address of the web gym that serves the task, if one does.
        start_url: Where the session starts; the gym's address if the row does not say.
        viewport: Size of the page; the server's default if the row does not say.
        browser: How the browser starts: what is stored in it, and what it tells pages.
        verifier: Who grades; see `verification/verifiers.py`.
        category: Kind of task, for reports and for stratified splits.
        assertions: What `local_storage`, `page_state` and `answer` check; see
            `verification/assertions.py`.
        verifiers: The parts of `all_of` and `any_of`.
        judge: What `judge` is told about the task.
    """

    task_id: Annotated[str, Field(min_length=1)] | None = None
    gym_url: WebAddress | None = None
    start_url: WebAddress | None = None
    viewport: Viewport | None = None
    browser: BrowserStart | None = None
    verifier: str | None = None
    category: str | None = None
    assertions: list[Any] | None = None
    verifiers: list[Any] | None = None
    judge: JudgeTask | None = None

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
