"""What replies cost, and that nothing is guessed."""

import datetime

import pytest
from pydantic import ValidationError

from responses_api_agents.browser_agent.adapters.base import Usage
from responses_api_agents.browser_agent.cost import Price, Prices

MILLION = Usage(input_tokens=1_000_000)
DAY = datetime.date(2026, 12, 1)


def test_each_kind_of_tokens_has_its_price() -> None:
    price = Price(input=4, cached_input=0.2, cache_write=5, output=20)
    usage = Usage(
        input_tokens=1000, cached_tokens=600, cache_write_tokens=300, output_tokens=50
    ) + Usage(input_tokens=1, output_tokens=1, reasoning_tokens=1)
    assert price.cost(usage, DAY) == pytest.approx((101 * 4 + 600 * 0.2 + 300 * 5 + 51 * 20) / 1e6)


@pytest.mark.parametrize(
    ("price", "usage"),
    [
        (Price(input=1, output=1), Usage(input_tokens=9, cached_tokens=1)),
        (Price(input=1, output=1), Usage(input_tokens=9, cache_write_tokens=1)),
        (Price(input=1, output=1), Usage(output_tokens=9)),
        (Price(input=1, output=1, cached_input=1), Usage(input_tokens=1, cached_tokens=2)),
        (Price(input=1, output=1, max_input_tokens=8), Usage(input_tokens=9)),
        (Price(input=1, output=1, until=DAY - datetime.timedelta(1)), Usage(input_tokens=9)),
    ],
)
def test_what_is_not_known_is_null(price: Price, usage: Usage) -> None:
    assert price.cost(usage, DAY) is None


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-opus-5-5", 4),
        ("claude-opus-5", 5),
        ("claude-opus-5-20260724", 5),
        ("claude-opus-5-9", None),
        ("scripted-model", None),
        ("", None),
    ],
)
def test_models_of_the_table(model: str, usd: float | None) -> None:
    assert Prices().cost(model, MILLION) == usd


def test_long_requests_have_other_prices() -> None:
    assert Prices().cost("gpt-5.4-2026-03-05", Usage(input_tokens=100_000)) == 0.25
    assert Prices().cost("gpt-5.4", MILLION) is None


def test_own_prices_come_first() -> None:
    own = {"my-*": Price(input=1, output=2), "claude-opus-5": Price(input=3, output=4)}
    prices = Prices(own)
    assert prices.cost("my-model", MILLION) == 1
    assert prices.cost("claude-opus-5", MILLION) == 3
    assert prices.cost("claude-sonnet-5", MILLION) == 2


def test_price_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="cache_read"):
        Price.model_validate({"input": 1, "output": 1, "cache_read": 1})
