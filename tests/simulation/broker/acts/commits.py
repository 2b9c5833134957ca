"""Offsets that a group committed before the last failover: the next master has them (F13)."""

import asyncio
from contextlib import suppress

from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.runtime.network import Address
from tests.simulation.broker.acts.act import TIMEOUT_MS, Act, Stage
from tests.unit.broker.whole import Client

TOPIC = "T"
GROUP = "committing"
LAST = 25
COPIED_S = 8.0
"""Longer than the offsets of a slave may be old when nothing fails."""


class Commits(Act):
    """Commits offsets of a group that reads nothing else."""

    name = "commits"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._is_last = False
        self._last: int | None = None

    async def step(self) -> None:
        if self.number % 20 == 1:
            made = SubscriptionGroupConfig(group_name=GROUP)
            await self.ask(UpdateAndCreateSubscriptionGroup(), encode_body(made), "groups made")
        if not self._is_last:
            await self._commit(self.number % 20)

    async def _commit(self, offset: int) -> bool:
        request = UpdateConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset)
        reply = await self.ask(request)
        return reply is not None and reply.code == 0

    async def before_the_last_failover(self, master: Address, _slaves: list[Address]) -> None:
        """Commit an offset that no later commit lowers, and let it be copied.

        The offset is looked for only where one master led meanwhile: another one may not have had it yet.
        """
        self._is_last = True
        await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        async with self.turn:
            self.client.broker = master
            with suppress(FireArrowError):
                await self._commit_last()

    async def _commit_last(self) -> None:
        epoch = await self.led_epoch()
        if epoch and await self._commit(LAST):
            await asyncio.sleep(COPIED_S)
            if await self.led_epoch() == epoch:
                self._last = LAST
                self.stage.counts["commits looked for"] += 1

    async def check(self, client: Client) -> None:
        if self._last is None:
            return
        asked = QueryConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0, set_zero_if_not_found=True)
        found = (await client.ask(asked)).answer.offset
        assert found == self._last, f"F13: the group committed {self._last}, and the next master has {found}"
