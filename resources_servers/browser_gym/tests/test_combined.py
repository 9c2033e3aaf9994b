"""`all_of` and `any_of`: rewards, partial credit, and parts without a verdict."""

import asyncio
from typing import Any

import pytest

from resources_servers.browser_gym.browser.page_state import Keep, PageState
from resources_servers.browser_gym.tests.fake_gym import refusing_address
from resources_servers.browser_gym.verification.combined import AllOf, AnyOf
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.verifiers import Verifiers

pytestmark = pytest.mark.usefixtures("no_pauses")

EXAMPLE = {
    "task_id": "C-1",
    "start_url": "http://127.0.0.1:8777/shop/",
    "verifier": "all_of",
    "verifiers": [
        {"verifier": "answer", "assertions": [{"title": "The price", "answer_number": 12}]},
        {
            "verifier": "any_of",
            "verifiers": [
                {
                    "verifier": "page_state",
                    "assertions": [{"title": "It is open", "dom_contains": "Mug"}],
                },
                {
                    "verifier": "local_storage",
                    "assertions": [{"title": "It is in the cart", "query": "cart", "equals": 1}],
                },
            ],
        },
    ],
}


def part(*results: bool) -> dict[str, Any]:
    """A part with one assertion per result, over the answer `yes`."""
    assertions = [
        {"title": str(index), "answer_exact": "yes" if passes else "no"}
        for index, passes in enumerate(results)
    ]
    return {"verifier": "answer", "assertions": assertions}


def masked() -> dict[str, Any]:
    """A part that gives no verdict: its gym cannot be reached."""
    with refusing_address() as gym_url:
        return {"verifier": "gym_api", "gym_url": gym_url, "task_id": "T"}


async def verdict(name: str, *parts: dict[str, Any]) -> Verdict:
    verifiers = Verifiers()
    try:
        verifier = verifiers.parse_verifier({"verifier": name, "verifiers": list(parts)})
        return await verifier.verify(Evidence("", {}, {}, "yes"))
    finally:
        await verifiers.aclose()


async def test_the_example_row():
    verifier = Verifiers().parse_verifier(EXAMPLE)
    assert verifier.keep == Keep(text=True)
    stored = {"http://127.0.0.1:8777": {"cart": "1"}}
    seen = Evidence("http://127.0.0.1:8777", {}, stored, "12", page=PageState(text="nothing"))
    verdict = await verifier.verify(seen)
    assert (verdict.reward, verdict.partial_credit) == (1, 1)
    assert [assertion["title"] for assertion in verdict.assertions] == [
        "1. answer: The price",
        "2. any_of: 1. page_state: It is open",
        "2. any_of: 2. local_storage: It is in the cart",
    ]


@pytest.mark.parametrize(
    ("name", "parts", "reward", "share"),
    [
        ("all_of", [[True], [True]], 1, 1),
        ("all_of", [[True], [False]], 0, 0.5),
        ("all_of", [[True, False], [True]], 0, 0.75),
        ("any_of", [[True], [False]], 1, 1),
        ("any_of", [[True, False], [False]], 0, 0.5),
        ("any_of", [[False], [False]], 0, 0),
    ],
)
async def test_rewards(name: str, parts: list[list[bool]], reward: float, share: float):
    result = await verdict(name, *(part(*results) for results in parts))
    assert (result.reward, result.partial_credit) == (reward, share)


async def test_a_part_without_a_verdict_matters_only_if_the_others_do_not_decide():
    result = await verdict("any_of", masked(), part(True))
    assert (result.reward, result.partial_credit) == (1, 1)
    assert result.assertions[0]["result"] == "no_verdict"
    assert "transport_unreachable" in result.assertions[0]["actual"]
    result = await verdict("all_of", part(True), masked(), part(False))
    assert (result.reward, result.partial_credit) == (0, pytest.approx(1 / 3))
    for name, other in (("any_of", part(False)), ("all_of", part(True))):
        with pytest.raises(VerifierError) as caught:
            await verdict(name, masked(), other)
        assert caught.value.fault.kind == "transport_unreachable"


async def test_cancelling_ends_every_part():
    started, ended = asyncio.Event(), []

    class Slow:
        name = "slow"
        keep = Keep()

        async def verify(self, evidence: Evidence) -> Verdict:
            started.set()
            try:
                return await asyncio.Future()
            finally:
                ended.append(self)

    for kind in (AllOf, AnyOf):
        started.clear()
        ended.clear()
        work = asyncio.create_task(kind([Slow(), Slow()]).verify(Evidence("", {}, {}, "")))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert len(ended) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"verifier": "all_of"}, r"verifier_metadata\.verifiers: all_of needs a list of 1 to 20"),
        ({"verifier": "any_of", "verifiers": []}, "needs a list"),
        ({"verifier": "any_of", "verifiers": [part(True)] * 21}, "needs a list"),
        ({"verifier": "any_of", "verifiers": ["answer"]}, r"verifiers\[0\]: give a JSON object"),
        ({"verifier": "any_of", "verifiers": [{}]}, r"verifiers\[0\]\.verifier: missing"),
        (
            {"verifier": "all_of", "verifiers": [part(True), {"verifier": "nope"}]},
            r"verifier_metadata\.verifiers\[1\]\.verifier: unknown 'nope'",
        ),
        (
            {"verifier": "all_of", "verifiers": [{"verifier": "all_of", "verifiers": [part()]}]},
            r"verifiers\[0\]\.verifiers\[0\]\.assertions: give a list",
        ),
    ],
)
def test_a_part_that_makes_no_sense_is_an_unusable_task(row: dict[str, Any], message: str):
    with pytest.raises(InvalidTask, match=message):
        Verifiers().parse_verifier(row)
