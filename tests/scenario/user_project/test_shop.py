"""The user's own tests, with the fixtures that come with the package."""

import asyncio
from contextlib import aclosing

from firearrow.testing.blocking import Cluster
from tests.scenario.user_project import shop

ORDERS = [shop.Order(f"order-{number}", "espresso", table=f"table-{number % 3}") for number in range(10)]


def test_orders_are_served(firearrow_cluster: Cluster, firearrow_topic: str) -> None:
    address, kitchen = firearrow_cluster.address, shop.Kitchen()

    async def day() -> None:
        async with shop.Shop(address, firearrow_topic) as open_shop:
            await asyncio.gather(*(open_shop.order(order) for order in ORDERS))
            await open_shop.order_many(ORDERS)
            await open_shop.whisper(ORDERS[0])
            stalls = await kitchen.work(address, firearrow_topic, 21)
        assert stalls == []
        assert len(await shop.history(address, firearrow_topic)) == 21
        described, group = await shop.look(address, firearrow_topic, "kitchen")
        assert described.messages == 21
        assert group.lag == 0
        assert await shop.is_reachable(address, firearrow_topic)
        async with aclosing(shop.names(address, firearrow_topic, "listener")) as names:
            assert (await anext(names)).startswith("order-")

    asyncio.run(day())
    assert "order-0: espresso (7)" in kitchen.served
    assert shop.count_without_asyncio(address, firearrow_topic, 21) == 21
    assert len(firearrow_cluster.messages(firearrow_topic)) == 21
