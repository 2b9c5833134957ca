"""Transactions: what was committed comes, what was rolled back never does, and a check-back ends the others (F11).

A producer that is asked about a transaction whose end was answered says the contrary. A broker that has kept the end
does not follow it; a broker that has answered an end and lost it does, and is found out.
"""

import asyncio
from contextlib import suppress

from firearrow.errors import FireArrowError
from firearrow.model import StoredMessage
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.testing.sim.world import Node
from tests.simulation.broker.acts.act import TIMEOUT_MS, Act, Stage, all_come
from tests.unit.broker.producers import UNKNOWN, TransactionClient
from tests.unit.broker.whole import Client

TOPIC = "X"
ROUND_S = 3.0
CONTRARY = {COMMIT: ROLLBACK, ROLLBACK: COMMIT}


class Halves(Act):
    """Begins transactions and ends most of them; the group's members are asked about the others."""

    name = "transactions"
    pause_s = 0.3

    def __init__(self, stage: Stage) -> None:
        self._decided: dict[bytes, int] = {}
        self._halves: set[bytes] = set()
        self._open: list[tuple[bytes, SendAnswer]] = []
        self._ending: set[bytes] = set()
        """Transactions with an end under way: nothing is said about them."""
        self._ended: set[bytes] = set()
        """Transactions whose end was answered."""
        super().__init__(stage)

    def made(self, node: Node) -> Client:
        return TransactionClient(node, self.stage.addresses[0], self._rule)

    def _rule(self, message: StoredMessage) -> int | None:
        body = message.body
        if body in self._ending:
            return UNKNOWN
        decided = self._decided.get(body)
        return CONTRARY[decided] if decided is not None and body in self._ended else decided

    async def _join(self) -> None:
        """Tell every member of the group that this producer is there."""
        producers = [ProducerData(group_name=self._producer.group)]
        body = encode_body(HeartbeatData(client_id=self.name, producer_data_set=producers))
        for address in self.stage.addresses:
            with suppress(FireArrowError):
                await self._producer.caller.call(address, HeartBeat(), body, timeout_ms=TIMEOUT_MS)

    @property
    def _producer(self) -> TransactionClient:
        assert isinstance(self.client, TransactionClient)
        return self.client

    async def run(self) -> None:
        beating = asyncio.create_task(self._beat())
        try:
            await super().run()
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await self._join()
            await asyncio.sleep(ROUND_S)

    async def step(self) -> None:
        """Begin a transaction, or end an earlier one; some are ended by the answer to a question."""
        if self._open and self.rng.random() < 0.5:
            await self._end(*self._open.pop(self.rng.randrange(len(self._open))))
            return
        body = b"half:%06d" % self.number
        self._decided[body] = self.rng.choice((COMMIT, COMMIT, ROLLBACK))
        half = await self._half(body, self.node.clock.now_ms())
        if half is not None:
            self._halves.add(body)
            if self.rng.random() < 0.7:
                self._open.append((body, half))

    async def _end(self, body: bytes, half: SendAnswer) -> None:
        self._producer.broker = self.anybody()
        self._ending.add(body)
        reply = await self.ask(self._producer.end_of(half, self._decided[body]), kind="transaction ends")
        self._ending.remove(body)
        if reply is not None and reply.code == 0:
            self._ended.add(body)

    async def _half(self, body: bytes, now_ms: int) -> SendAnswer | None:
        producer = self._producer
        producer.broker = self.anybody()
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                half = await producer.half(body, now_ms=now_ms, key=f"HALF{self.number}", topic=TOPIC)
        except (FireArrowError, TimeoutError):
            self.stage.counts["halves refused or lost"] += 1
            return None
        self.stage.counts["halves answered"] += 1
        return half

    async def check(self, client: Client) -> None:
        committed = {body for body in self._halves if self._decided[body] == COMMIT}
        commits = len(self._ended & committed)
        asked_about = len(self._halves - self._ended)
        self.looked_for(commits_ended=commits, rollbacks_ended=len(self._ended) - commits, asked_about=asked_about)
        found = await all_come(client, TOPIC, committed, "F11: committed transactions", self._join)
        wrong = found & {body for body in found if self._decided.get(body) == ROLLBACK}
        assert not wrong, f"F11: {len(wrong)} transactions that were rolled back are delivered: {sorted(wrong)[:5]}"
