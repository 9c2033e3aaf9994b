"""Reading a provider's options: checked, and with secrets from the environment."""

from __future__ import annotations

import os
import re
from string import Template
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

_ADDRESS = re.compile(r"\b(wss?|https?)://[^\s'\"]+")
_CDP_SCHEMES = {"ws", "wss", "http", "https"}


class Options(BaseModel):
    """A provider's options; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


def with_environment(text: str) -> str:
    """Put environment variables in the place of `$NAME`; `$$` is a dollar sign.

    Raises:
        ValueError: a variable is not set.
    """
    try:
        return Template(text).substitute(os.environ)
    except KeyError as error:
        raise ValueError(f"the environment variable {error.args[0]} is not set") from None


Text = Annotated[str, AfterValidator(with_environment)]
"""A text that may name environment variables."""


def cdp_endpoint(address: Any) -> str:
    """Return an address if it can be one of a browser.

    Raises:
        ValueError: it cannot.
    """
    if not isinstance(address, str) or urlsplit(address).scheme not in _CDP_SCHEMES:
        raise ValueError("is no ws://, wss://, http:// or https:// address")
    return address


def read_options[T: Options](kind: type[T], options: Any) -> T:
    """Return checked options.

    Raises:
        ValueError: the text names the option and what is wrong, and shows no value.
    """
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise ValueError("session_provider_options: " + "; ".join(faults)) from None


def bare_addresses(text: str) -> str:
    """Return a text with no more than scheme and host of the addresses in it."""
    return _ADDRESS.sub(lambda found: _origin(found[0]), text)


def host_of(address: str) -> str:
    """Return host and port of an address."""
    return urlsplit(address).netloc.rpartition("@")[2]


def _origin(address: str) -> str:
    try:
        return f"{urlsplit(address).scheme}://{host_of(address)}"
    except ValueError:
        return "(an address)"
