"""What the episode loop needs of a kind of model, and nothing of any provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Item = dict[str, Any]
"""One item of the OpenAI Responses format."""


@dataclass(frozen=True)
class Screen:
    """What the model is shown.

    Attributes:
        image: base64 of the encoded screenshot; empty if the page drew nothing in time,
            which no adapter gets to see.
        media_type: of the image.
        width: CSS px of the viewport, which are also the image's px.
        height: likewise.
        url: of the active tab.
        tabs: the open tabs: `tab_id`, `url`, `title`, `active` of each.
    """

    image: str
    media_type: str
    width: int
    height: int
    url: str
    tabs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.image}"


@dataclass
class Call:
    """One call of a reply, which must be answered.

    Attributes:
        call_id: the provider's.
        kind: `computer` for the computer tool, `function` for a function tool, `text` for what a
            message says.
        native: the provider's untouched item.
        actions: canonical actions to run in order.
        error: why the call stops after its `actions`; told to the model as the next one's result.
        safety_checks: what the provider wants acknowledged before the call is run.
    """

    call_id: str
    kind: Literal["computer", "function", "text"]
    native: Item
    actions: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    safety_checks: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class CallOutcome:
    """What became of a call.

    Attributes:
        screen: after the call.
        texts: what action results, errors and page events have to say, for the model.
        failed: whether the call or one of its actions failed or was not run.
    """

    screen: Screen
    texts: list[str] = field(default_factory=list)
    failed: bool = False


StopReason = Literal[
    "refusal", "truncated_reply", "content_filter", "context_window", "empty_reply"
]


@dataclass
class Reply:
    """A model's reply, read.

    Attributes:
        response_id: the provider's.
        items: the output items as they came.
        calls: in the order they are to be run.
        message: the visible text, empty if none.
        reasoning: the reasoning summary, empty if none.
        stop: why the episode ends although the model did not say it is done. After an
            `empty_reply` the model may be nudged instead.
        usage: tokens of this reply.
        paused: whether the provider only took a break, and is to be asked again as it is.
    """

    response_id: str
    items: list[Item]
    calls: list[Call]
    message: str
    reasoning: str
    stop: StopReason | None
    usage: Usage
    paused: bool = False


@dataclass
class Usage:
    """Token counts.

    Cached tokens (read from the provider's cache) and cache write tokens are part of input,
    reasoning tokens part of output.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Adapter(Protocol):
    """Speaks with one kind of model for one episode; keeps what history the model needs."""

    def start(self, params: dict[str, Any], screen: Screen) -> dict[str, Any]:
        """Return the first request.

        Args:
            params: the run's `responses_create_params`, all of which are honoured.
            screen: the start page.
        """
        ...

    def read(self, response: dict[str, Any]) -> Reply:
        """Read a model server's response, and remember it unless it is empty."""
        ...

    def answer(self, reply: Reply, outcomes: list[CallOutcome]) -> list[Item]:
        """Return the items that answer a reply's calls, and remember them."""
        ...

    def nudge(self) -> list[Item]:
        """Return the items that ask again after an empty reply, and remember them."""
        ...

    def next(self) -> dict[str, Any]:
        """Return the next request."""
        ...
