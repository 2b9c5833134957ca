"""The facts that a broker tells its store: the zone in which files are deleted and named, and the offsets of groups."""

from typing import Any

import pytest

from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.store.store import Store
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, simulate


def test_the_store_knows_the_zone_and_what_groups_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    opened = Store.open.__func__  # type: ignore[attr-defined]

    async def open_store(cls: type[Store], *arguments: Any, **named: Any) -> Store:
        told.update(named)
        store: Store = await opened(cls, *arguments, **named)
        return store

    monkeypatch.setattr(Store, "open", classmethod(open_store))

    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send()
        await client.stored()
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1))
        assert list(told["offsets"]()) == [("g", "T", {0: 1})]
        assert told["zone"] is not None

    simulate(scenario)
