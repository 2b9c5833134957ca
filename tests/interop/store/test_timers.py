"""Timed messages pass from Apache's broker to ours and back in one directory: none lost, none early."""

import asyncio

import pytest

from campaigns.timer.handover import Handover
from judges.shared import SharedServers
from tests.interop.store.sizes import SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

COUNT = 300


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_timers_are_handed_over(shared_servers: SharedServers, killed: bool) -> None:
    names = shared_servers.name_server("5.5.0").address
    there, back = Handover(names), Handover(names)

    async def both() -> None:
        found = await asyncio.gather(
            there.play(COUNT, to_apache=True, killed=killed), back.play(COUNT, to_apache=False, killed=killed)
        )
        for figures in found:
            assert (figures["lost"], figures["early"]) == (0, 0), figures
            assert killed or figures["twice"] == 0, figures

    try:
        asyncio.run(both())
    finally:
        there.close()
        back.close()
