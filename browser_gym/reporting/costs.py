"""What rollouts cost: as their rows tell, or by a table of prices."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from browser_gym.rollouts import Row, UnusableInput
from responses_api_agents.browser_agent.adapters.base import Usage
from responses_api_agents.browser_agent.cost import TABLE, Price, Prices

_DETAILS = ("input_tokens_details", "output_tokens_details")
_COUNTS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")


class Pricing:
    """Prices of one report.

    A row's own costs hold, as they were counted when it was run; the table is for those that tell
    none. A table that a person gives is for all.

    Attributes:
        as_of: the day of the table, as it says.
        source: of the table, for people.
        given: whether it holds for all rows.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Read a table.

        Args:
            path: of one in the format of the built-in one, which it comes before.

        Raises:
            UnusableInput: it cannot be read.
        """
        self.given = path is not None
        self.source = str(path) if path else "the built-in table"
        table = _read_table(path or TABLE)
        self.as_of = str(table.get("as_of") or "an unknown day")
        self._prices = Prices(_models(table, path) if path else None)

    def cost(self, row: Row, attempts: list[Row], place: str) -> tuple[float | None, bool]:
        """Return what a rollout and its failed attempts cost in USD, and whether the table says so.

        None if any of it is not known.

        Raises:
            UnusableInput: a field is not what it should be.
        """
        response = row.get("response") or {}
        model = str(response.get("model") or "")
        day = _day(response.get("created_at"))
        replies = [turn.get("usage") for turn in row.get("turns") or [] if isinstance(turn, dict)]
        if not replies or None in replies:  # another agent's row: all replies as one
            replies = [response.get("usage")]
        parts = [(row, replies)]
        parts += [(attempt, [attempt.get("usage")]) for attempt in attempts]
        total, by_table = 0.0, False
        for part, usages in parts:
            cost = None if self.given else _told(part, place)
            if cost is None:
                by_table = True
                cost = self._by_table(model, usages, day, place)
            if cost is None:
                return None, by_table
            total += cost
        return total, by_table

    def _by_table(
        self, model: str, usages: list[Any], day: datetime.date | None, place: str
    ) -> float | None:
        total = 0.0
        for usage in usages:
            tokens = tokens_of(usage, place)
            if tokens is None:
                return None
            if not tokens.input_tokens and not tokens.output_tokens:
                continue  # there was no reply
            cost = self._prices.cost(model, tokens, day)
            if cost is None:
                return None
            total += cost
        return total


def tokens_of(usage: Any, place: str) -> Usage | None:
    """Return the tokens of a reply, in the words of Responses or of a turn; None if not told.

    Raises:
        UnusableInput: something else than tokens is told.
    """
    if usage is None:
        return None
    if not isinstance(usage, dict):
        raise UnusableInput(f"{place}: `usage` is no object")
    told = dict(usage)
    for key in _DETAILS:
        if isinstance(details := told.pop(key, None), dict):
            told |= details
    counts = {key: told.get(key) or 0 for key in _COUNTS}
    for key, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise UnusableInput(f"{place}: `usage.{key}` is {count!r}, not a number of tokens")
    return Usage(**counts)


def _told(part: Row, place: str) -> float | None:
    cost = part.get("cost_usd")
    if cost is None:
        return None
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost):
        raise UnusableInput(f"{place}: `cost_usd` is {cost!r}, not a number")
    return float(cost)


def _day(created_at: Any) -> datetime.date | None:
    try:
        return datetime.datetime.fromtimestamp(created_at, datetime.UTC).date()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _read_table(path: Path) -> Row:
    try:
        table = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnusableInput(f"{path}: is no JSON: {error}") from error
    if not isinstance(table, dict) or not isinstance(table.get("models"), dict):
        raise UnusableInput(f'{path}: is no table of prices: it has no `models`; see "{TABLE}"')
    return table


def _models(table: Row, path: Path) -> dict[str, Price]:
    models: dict[str, Price] = {}
    for name, price in table["models"].items():
        try:
            models[name] = Price.model_validate(price)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, ("models", name, *first["loc"])))
            raise UnusableInput(f"{path}: `{where}`: {first['msg']}") from error
    return models
