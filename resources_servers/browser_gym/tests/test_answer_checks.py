"""What counts as the right answer: text to the letter or by its words, numbers, patterns."""

from typing import Any

import pytest

from resources_servers.browser_gym.verification.answer_number import numbers_in
from resources_servers.browser_gym.verification.answer_text import bare
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask
from resources_servers.browser_gym.verification.verifiers import Verifiers

EXAMPLE = {
    "task_id": "A-1",
    "start_url": "http://127.0.0.1:8777/crm/",
    "verifier": "answer",
    "assertions": [{"title": "The revenue", "answer_number": 1234.5, "unit": ["$", "USD"]}],
}


async def judged(answer: str, **check: Any) -> Verdict:
    row = EXAMPLE | {"assertions": [{"title": "t", **check}]}
    return await Verifiers().parse_verifier(row).verify(Evidence("", {}, {}, answer))


async def passes(answer: str, **check: Any) -> bool:
    return (await judged(answer, **check)).reward == 1


async def test_the_example_row():
    verifier = Verifiers().parse_verifier(EXAMPLE)
    verdict = await verifier.verify(Evidence("", {}, {}, "It was $1,234.50 in 2025."))
    assert (verifier.name, verdict.reward) == ("answer", 1)
    assert verdict.assertions[0]["actual"]["numbers"] == [1234.5]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.5", [1234.5]),
        ("1.234,5", [1234.5]),
        ("1 234,5", [1234.5]),
        ("1\u202f234\u00a0567", [1234567]),
        ("1'234", [1234]),
        ("1,234", [1234]),
        ("12,34", [12.34]),
        ("1.234", [1.234]),
        ("1.234.567", [1234567]),
        ("It is 12.", [12]),
        ("12, or 13", [12, 13]),
        ("3,4,5", [3, 4, 5]),
        ("-12 and −13", [-12, -13]),
        ("-$5, $-6, €7", [-5, -6, 7]),
        ("10-12", [10, 12]),
        ("A-12", [12]),
        (".5", [0.5]),
        ("1.2e6", [1200000]),
        ("１２", [12]),
        ("H2O, A12.5, v1", []),
        ("12km (5th)", [12, 5]),
        ("in 2024 120 people", [2024, 120]),
        ("apples,3", [3]),
        ("", []),
        ("0,125", [0.125]),
        ("0 125", [0, 125]),
        ("1'234.5", [1234.5]),
        ("5'11", [5, 11]),
        ("₹1,23,456.5 and 12,34,567", [123456.5, 1234567]),
        ("١٢٫٥", [12.5]),
        ("2½, ½ and 1 ¾", [2.5, 0.5, 1.75]),
        ("10² and 12 m²", [10, 2, 12]),
        ("minus 12, negative 3.5", [-12, -3.5]),
        ("$3 million, 1.2 billion", [3e6, 1.2e9]),
        ("3 millions, 4 millionaires", [3e6, 4]),
    ],
)
def test_numbers_as_people_write_them(text: str, numbers: list[float]):
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("text", "unit", "numbers"),
    [
        ("3 hikes of 12 km", "km", [12]),
        ("12 KM", "km", [12]),
        ("12 kmh", "km", []),
        ("12 m², 13 m", "m", [13]),
        ("12 m²", "m2", [12]),
        ("USD 12 for 3", "USD", [12]),
        ("$ 12, 13$, 14", "$", [12, 13]),
        ("15 percent of 200", "%", [15]),
        ("15 %", "%", [15]),
        ("a 12-km hike", "km", [12]),
        ("3 million km, 2 kg", "km", [3e6]),
    ],
)
def test_units_choose_the_number(text: str, unit: str, numbers: list[float]):
    assert numbers_in(text, (unit,)) == numbers


async def test_a_number_up_to_a_tolerance():
    assert await passes("0.3", answer_number=0.1 + 0.2)
    assert not await passes("0.31", answer_number=0.3)
    assert await passes("It is 0.31.", answer_number=0.3, tolerance=0.011)
    assert not await passes("0.32", answer_number=0.3, tolerance=0.011)
    assert await passes("-99", answer_number=-100, relative_tolerance=0.01)
    assert not await passes("-98.9", answer_number=-100, relative_tolerance=0.01)
    assert await passes("12. Yes, 12.0", answer_number=12)
    assert not await passes("12 or 13", answer_number=12)
    assert not await passes("none", answer_number=0)
    assert not await passes("9" * 5000, answer_number=12)
    assert not await passes("9" * 5000 + "½", answer_number=12)


async def test_texts():
    assert await passes(" aB-1\n", answer_exact="aB-1")
    assert not await passes("ab-1", answer_exact="aB-1")
    assert await passes("“The U.S.A.” – well known!", answer_normalised="the usa well-known")
    assert not await passes("3.5", answer_normalised="35")
    assert not await passes("-5", answer_normalised="5")
    for marked in ("**-5**", '"-5"', "(-5)", "**-.5**", "=-5"):
        assert not await passes(marked, answer_normalised=marked.strip('*"()=').strip("-"))
    assert await passes("**-5**", answer_normalised="-5")
    assert await passes("ABC-12", answer_regex=r"[A-Z]{3}-\d+")
    assert not await passes("is ABC-12", answer_regex=r"[A-Z]{3}-\d+")
    assert await passes("half \ud800 pair", answer_regex=r"half . pair")


async def test_no_pattern_takes_long():
    # In a backtracking engine this takes longer than the universe is old.
    assert not await passes("a" * 50_000, answer_regex="(a+)+b")


def test_bare_words():
    assert bare("Don’t—stop,  NOW (please)") == "dont stop now please"
    assert bare("ﬁve at 3.5, -2 and .5") == "five at 3.5 -2 and .5"
    assert bare("(-.5) A-5... 6 ...7") == "-.5 a 5 6 7"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            {"answer_regex": "(a"},
            r"assertions\[0\] \('t'\)\.answer_regex: not a regular expression",
        ),
        ({"answer_regex": "(?=a)b"}, "has no look-around"),
        ({"answer_regex": "a" * 2001}, "at most 2000 characters"),
        ({"answer_number": "12"}, r"answer_number: give a number, without quotes"),
        ({"answer_number": True}, "give a number"),
        ({"answer_number": 10**400}, "give a number"),
        ({"answer_number": 1, "tolerance": -1}, r"tolerance: give a number that is not negative"),
        ({"answer_number": 1, "unit": []}, r"unit: give a text, or a list"),
        ({"answer_number": 1, "unit": [""]}, r"unit: give a text that is not empty"),
        ({"answer_number": 1, "tolerance": 1, "relative_tolerance": 1}, "exactly one check"),
        ({"answer_exact": " "}, r"answer_exact: give a text"),
        ({"answer_normalised": "?!"}, "a letter or digit"),
        ({"query": "a", "equals": 1}, "give exactly one check: answer_contains"),
    ],
)
def test_a_check_that_makes_no_sense_is_an_unusable_task(check: dict[str, Any], message: str):
    with pytest.raises(InvalidTask, match=message):
        Verifiers().parse_verifier(EXAMPLE | {"assertions": [{"title": "t", **check}]})
