"""The verifier of the page that a session ends on."""

from typing import Any

import pytest

from conftest import Client, ClientFactory
from resources_servers.browser_gym.browser import final_page
from resources_servers.browser_gym.browser.page_state import Keep, Matches, PageState
from resources_servers.browser_gym.tests.grading import seeded, verify
from resources_servers.browser_gym.verification.contract import Evidence
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.urls import same_address
from resources_servers.browser_gym.verification.verifiers import Verifiers
from tests.started import kill, renderers

EXAMPLE = {
    "task_id": "P-1",
    "start_url": "http://127.0.0.1:8777/shop/",
    "verifier": "page_state",
    "assertions": [
        {"title": "The cart is open", "final_url": "http://127.0.0.1:8777/shop/#/cart"},
        {"title": "It holds a mug", "dom_contains": {"selector": ".line", "text": "Mug"}},
        {"title": "It says how much", "dom_contains": "Total"},
    ],
}


def task(site: str, *checks: dict[str, Any], page: str = "graded.html") -> dict[str, Any]:
    assertions = [{"title": str(index), **check} for index, check in enumerate(checks)]
    return EXAMPLE | {"start_url": f"{site}/{page}", "assertions": assertions}


async def results(client: Client, metadata: dict[str, Any]) -> list[str]:
    row = await verify(client, metadata, await seeded(client, metadata))
    assert not row["mask_sample"], row["failure_reason"]
    return [assertion["result"] for assertion in row["verification_result"]["assertions"]]


def test_the_example_row_says_what_to_keep():
    verifier = Verifiers().parse_verifier(EXAMPLE)
    assert (verifier.name, verifier.keep) == ("page_state", Keep(True, (".line",)))


async def test_what_is_looked_at(client: Client, site: str):
    metadata = task(
        site,
        {"final_url": f"{site.upper().replace('HTTP', 'http')}/./graded%2ehtml#"},
        {"url_contains": "graded"},
        {"dom_contains": "order placed"},
        {"dom_contains": "Total 42"},
        {"dom_contains": "inside a SHADOW"},
        {"dom_contains": {"selector": "#hidden", "text": "hidden note"}},
        {"dom_contains": {"selector": "#name", "text": "Ada"}},
        {"dom_contains": {"selector": ".inner", "text": "typed words"}},
        {"dom_contains": {"selector": "p.inner"}},
        {"dom_contains": {"selector": "#price", "text": "$12.50"}},
        {"dom_contains": {"selector": "#price", "text": "each"}},
    )
    assert await results(client, metadata) == ["pass"] * 11
    metadata = task(
        site,
        {"final_url": f"{site}/graded.html?x"},
        {"url_contains": "Graded"},
        {"dom_contains": "a hidden note"},
        {"dom_contains": "gone"},
        {"dom_contains": {"selector": "#name", "text": "Adam"}},
        {"dom_contains": {"selector": ".none"}},
        {"dom_contains": {"selector": "#price", "text": "12"}},
        {"dom_contains": "Ada Lovelace"},  # typed, not told by the page
        {"dom_contains": "typed words"},
    )
    assert await results(client, metadata) == ["fail"] * 9


async def test_the_active_tab_counts_before_it_is_left(client: Client, site: str):
    metadata = task(
        site,
        {"final_url": f"{site}/graded.html"},
        {"dom_contains": "Order placed"},
        page="second.html",
    )
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "new_tab", "url": f"{site}/graded.html"})
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["final_url"]) == (1, f"{site}/graded.html")


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_a_page_that_crashed_is_loaded_again(client: Client, site: str):
    metadata = task(site, {"dom_contains": "Order placed"})
    env_id = await seeded(client, metadata)
    kill(renderers())
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["mask_sample"]) == (1, False), row


async def test_a_selector_that_is_none_is_found_at_seed(client: Client, site: str):
    metadata = task(site, {"dom_contains": {"selector": "p[["}})
    answer = await client.post("/seed_session", {"verifier_metadata": metadata}, status=422)
    assert answer["failure_kind"] == "agent_request_failed"
    assert "'p[['" in answer["failure_reason"]
    assert await client.sessions() == 0


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_a_page_that_hangs_fails_its_checks(new_client: ClientFactory, site: str):
    client = await new_client(action_timeout_s=1, settle_max_ms=200)
    metadata = task(site, {"dom_contains": "Links"}, {"url_contains": "links"}, page="links.html")
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "click", "x": 60, "y": 340})
    row = await verify(client, metadata, env_id)
    told = row["verification_result"]["assertions"]
    assert [assertion["result"] for assertion in told] == ["fail", "pass"]
    assert "could not be read" in told[0]["actual"]


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_a_page_that_leaves_for_one_that_does_not_come_is_read_as_it_stands(
    client: Client, site: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(final_page, "_TIMEOUT_S", 1)
    metadata = task(site, {"dom_contains": "Order placed"})
    env_id = await seeded(client, metadata)
    await client.step(env_id, {"type": "click", "x": 100, "y": 700})  # /never
    row = await verify(client, metadata, env_id)
    assert (row["reward"], row["mask_sample"]) == (1, False), row

    # One that is slow to read for another reason is not the model's fault.
    monkeypatch.setattr(final_page, "_TIMEOUT_S", 1e-6)
    row = await verify(client, metadata, await seeded(client, metadata))
    assert (row["mask_sample"], row["failure_kind"]) == (True, "verifier_error")


async def test_what_was_not_kept_is_no_verdict():
    page = PageState("http://a.test/", found={".line": Matches(1, ["Mug"])})
    with pytest.raises(VerifierError, match="text was not kept"):
        await Verifiers().parse_verifier(EXAMPLE).verify(Evidence("", {}, {}, "", page=page))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("https://A.test:443", "https://a.test/", True),
        ("http://a.test/x/../b/./c", "http://a.test/b/c", True),
        ("http://a.test/b/..", "http://a.test/", True),
        ("http://a.test/%7eann/a%20b", "http://a.test/~ann/a b", True),
        ("http://a.test/a%2Fb", "http://a.test/a/b", False),
        ("http://bücher.test/ü", "http://xn--bcher-kva.test/%C3%BC", True),
        ("http://a.test/b/", "http://a.test/b", False),
        ("http://a.test/?a=1&b=2", "http://a.test/?b=2&a=1", False),
        ("http://a.test/#/cart", "http://a.test/", False),
        ("http://a.test/", "https://a.test/", False),
        ("http://a.test:8080/", "http://a.test/", False),
        ("about:blank", "about:blank", True),
    ],
)
def test_addresses(left: str, right: str, same: bool):
    assert same_address(left, right) == same


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"final_url": "/cart"}, r"final_url: give a full web address"),
        ({"url_contains": ""}, r"url_contains: give a text"),
        ({"dom_contains": {"text": "x"}}, "give a selector"),
        ({"dom_contains": {"selector": "p", "count": 1}}, "and no more"),
        ({"dom_contains": {"selector": "p", "text": " "}}, r"dom_contains\.text: give a text"),
        ({"dom_contains": ["x"]}, r"dom_contains: give a text"),
        ({"query": "a", "equals": 1}, "give exactly one check: final_url"),
    ],
)
def test_a_check_that_makes_no_sense_is_an_unusable_task(check: dict[str, Any], message: str):
    with pytest.raises(InvalidTask, match=message):
        Verifiers().parse_verifier(task("http://127.0.0.1:1", check))
