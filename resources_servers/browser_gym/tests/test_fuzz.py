"""A few hundred malformed requests; `make fuzz` sends 20,000."""

import pytest

from conftest import RESPONSE, Client
from tests.fuzzing import fuzz


@pytest.mark.long
async def test_malformed_requests_are_refused_and_disturb_nobody(client: Client, site: str) -> None:
    before = await client.sessions()
    tally = await fuzz(client.http, site, RESPONSE, count=300, seed=7)
    assert tally.faults == []
    assert tally.steps > 0
    assert await client.sessions() == before
