"""Timed messages: they come, unless their recall was answered, and then they never do (F10)."""

import asyncio

from firearrow.protocol.requests.message.send import RecallMessage
from tests.simulation.broker.acts.act import Act, Stage, all_come, bodies
from tests.unit.broker.whole import Client, a_send

TOPIC = "TM"
SOON_S = 2
LATE_S = 90
"""Longer than the clocks of two machines may be apart: a recall must come in time by every clock."""
RECALLED_WITHIN_S = 15.0
ROUND_S = 5.0


class Timers(Act):
    """Sends messages for a later time and recalls some of them."""

    name = "timers"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._sent: set[bytes] = set()
        self._handles: list[tuple[bytes, str, float]] = []
        self._perhaps: set[bytes] = set()
        """Messages whose recall was not answered."""
        self._recalled: set[bytes] = set()
        self._last_s = 0.0

    async def step(self) -> None:
        """Send a message for a later time, or recall an earlier one while there is time enough by every clock."""
        now_s = asyncio.get_running_loop().time()
        self._handles = [waiting for waiting in self._handles if now_s - waiting[2] < RECALLED_WITHIN_S]
        if self._handles and self.rng.random() < 0.5:
            body, handle, _ = self._handles.pop(self.rng.randrange(len(self._handles)))
            await self._recall(body, handle)
        else:
            await self._send(is_late=self.rng.random() < 0.6)

    async def _send(self, *, is_late: bool) -> None:
        body, delay_ms = b"timed:%06d" % self.number, (LATE_S if is_late else SOON_S) * 1000
        properties = f"UNIQ_KEY\x01TIMED{self.number}\x02TIMER_DELAY_MS\x01{delay_ms}\x02"
        reply = await self.ask(a_send(TOPIC, properties=properties), body, "timed sends")
        if reply is None or reply.code != 0:
            return
        self._last_s = asyncio.get_running_loop().time()
        self._sent.add(body)
        if is_late:
            self._handles.append((body, reply.answer.recall_handle, self._last_s))

    async def _recall(self, body: bytes, handle: str) -> None:
        self._perhaps.add(body)
        reply = await self.ask(RecallMessage(topic=TOPIC, recall_handle=handle, producer_group="P"), kind="recalls")
        if reply is not None and reply.code == 0:
            self._recalled.add(body)

    async def check(self, client: Client) -> None:
        self.looked_for(timed=len(self._sent - self._perhaps), recalled=len(self._recalled))
        await all_come(client, TOPIC, self._sent - self._perhaps, "F10: timed messages")
        left_s = self._last_s + LATE_S - asyncio.get_running_loop().time()
        await asyncio.sleep(max(left_s, 0.0) + ROUND_S)
        wrong = self._recalled & set(await bodies(client, TOPIC))
        assert not wrong, (
            f"F10: {len(wrong)} messages were delivered after their recall was answered: {sorted(wrong)[:5]}"
        )
