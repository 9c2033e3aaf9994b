"""What a reply costs, by a table of prices; never a guess."""

from __future__ import annotations

import datetime
import fnmatch
import json
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from responses_api_agents.browser_agent.adapters.base import Usage

TABLE = Path(__file__).parent / "data" / "prices.json"
"""The table of prices."""

# How providers name a snapshot of a model: gpt-5.4-2026-03-05, claude-opus-5-20260724.
_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


class Price(BaseModel):
    """Prices of one model, in USD per million tokens.

    Attributes:
        input: tokens neither read from a cache nor written to one.
        cached_input: tokens read from the provider's cache.
        cache_write: tokens written to it.
        output: reasoning included.
        max_input_tokens: of a request, above which other prices hold.
        until: the last day (UTC) the prices hold.
    """

    model_config = ConfigDict(extra="forbid")

    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    output: float = Field(ge=0)
    max_input_tokens: int | None = None
    until: datetime.date | None = None

    def cost(self, usage: Usage, day: datetime.date) -> float | None:
        """Return the cost of one reply in USD, or None if some of it has no known price."""
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        if (
            plain < 0
            or not usage.input_tokens
            or (self.until and day > self.until)
            or (self.max_input_tokens and usage.input_tokens > self.max_input_tokens)
        ):
            return None
        total = 0.0
        for tokens, price in (
            (plain, self.input),
            (usage.cached_tokens, self.cached_input),
            (usage.cache_write_tokens, self.cache_write),
            (usage.output_tokens, self.output),
        ):
            if tokens and price is None:
                return None
            total += tokens * (price or 0)
        return total / 1e6


class Prices:
    """Prices by model."""

    def __init__(self, own: dict[str, Price] | None = None) -> None:
        """Read the table.

        Args:
            own: prices by model name or pattern (`*` and `?`), which come before the table's.
        """
        table = json.loads(TABLE.read_text(encoding="utf-8"))["models"]
        listed = {name: Price.model_validate(price) for name, price in table.items()}
        self._prices = {**(own or {}), **{k: v for k, v in listed.items() if k not in (own or {})}}

    def cost(self, model: str, usage: Usage, day: datetime.date | None = None) -> float | None:
        """Return what one reply costs in USD, or None if that is not known.

        Args:
            model: as the provider names it, with or without the date of a snapshot.
            usage: of the reply.
            day: of the reply (UTC); by default today.
        """
        day = day or datetime.datetime.now(datetime.UTC).date()
        names = (model, _DATE.sub("", model))
        for pattern, price in self._prices.items():
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                return price.cost(usage, day)
        return None
