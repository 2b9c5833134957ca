"""Deletions and commits that are asked of slaves: a slave refuses them all (F15)."""

from typing import Any

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.runtime.network import Address
from tests.simulation.broker.acts.act import TIMEOUT_MS, Act
from tests.unit.broker.whole import Client

CHANGES: tuple[Request[Any], ...] = (
    DeleteTopicInBroker(topic="never-made"),
    DeleteSubscriptionGroup(group_name="never-made", clean_offset=True),
    UpdateConsumerOffset(consumer_group="committing", topic="T", queue_id=1, commit_offset=0),
)
"""Changes that do no harm at a master, which the broker that is asked may have become."""


class SlaveChanges(Act):
    """Asks slaves for changes, one kind after the other."""

    name = "slave-changes"
    pause_s = 0.5

    async def step(self) -> None:
        await self._ask_a_slave(CHANGES[self.number % len(CHANGES)])

    async def before_the_last_failover(self, _master: Address, slaves: list[Address]) -> None:
        """Ask every slave for every change while everything is whole."""
        async with self.turn:
            for self.client.broker in slaves:
                for request in CHANGES:
                    await self._ask_a_slave(request)

    async def _ask_a_slave(self, request: Request[Any]) -> None:
        """Ask the broker for a change; raise ``AssertionError`` when it is a slave before and after, and answers."""
        try:
            if await self.led_epoch():
                return
            reply = await self.client.ask(request, timeout_ms=TIMEOUT_MS)
            if await self.led_epoch():
                return
        except RequestRefused:
            self.stage.counts["changes refused by slaves"] += 1
        except FireArrowError:
            self.stage.counts["changes that no slave answered"] += 1
        else:
            raise AssertionError(f"F15: a slave answered {type(request).__name__} with {reply.code}")

    async def check(self, _client: Client) -> None:
        """Nothing is left to look at: a slave that takes a change is told at once."""
