"""Sends that wait for nothing, with ``WAIT=false`` and one-way: they never move what was read (F12)."""

import asyncio
from contextlib import suppress

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from tests.simulation.broker.acts.act import Act, Stage
from tests.unit.broker.whole import Client, a_send

TOPIC = "U"


class Unawaited(Act):
    """Sends without waiting, and reads what consumers see."""

    name = "unawaited"
    pause_s = 0.05

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._seen: dict[int, bytes] = {}

    async def step(self) -> None:
        body = b"unawaited:%06d" % self.number
        request = a_send(TOPIC, properties=f"UNIQ_KEY\x01UNAWAITED{self.number}\x02WAIT\x01false\x02")
        if self.rng.random() < 0.5:
            await self.ask(request, body, "WAIT=false")
        else:
            self.stage.counts["one-way"] += 1
            with suppress(FireArrowError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.client.caller.tell(self.client.broker, request, body)
        if self.number % 10 == 0:
            with suppress(FireArrowError):
                await self._look(self.client)

    async def _look(self, client: Client) -> None:
        at = 0
        while page := await client.stored(TOPIC, offset=at):
            for message in page:
                before = self._seen.setdefault(message.queue_offset, message.body)
                said = f"F12: offset {message.queue_offset} was {before!r} and is {message.body!r}"
                assert before == message.body, said
            at = page[-1].queue_offset + 1

    async def check(self, client: Client) -> None:
        self.looked_for(read=len(self._seen))
        if not self._seen:
            return
        try:
            await self._look(client)
            end = max(self._seen)
            assert await client.stored(TOPIC, offset=end), f"F12: what was read at offset {end} is gone"
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.SYSTEM_BUSY:  # a slave, which says nothing of the master
                raise
            raise AssertionError(f"F12: what was read is gone: {refusal}") from refusal
