"""A producer and a consumer that go on while their servers come and go, and what came of it."""

import asyncio
import time
from collections import Counter
from types import TracebackType
from typing import Self

from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from firearrow.errors import ClientClosed, FireArrowError
from judges import fresh
from tests.interop.client.ours import until

PAUSE_S = 0.02
STEADY = 20
"""So many sends in peace before the next disturbance."""
PATIENCE_S = 40.0


class Disturbed:
    """Both at work, from the beginning of the block to its end."""

    def __init__(self, names: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(names, group=fresh("P"))
        self.consumer = Consumer(names, group=fresh("G"), topics=topic, start="first", stall_ms=5000)
        self.acknowledged: dict[str, float] = {}
        self.unknown: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.handled: Counter[str] = Counter()
        self.handled_at: list[float] = []
        self.delays: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ends = False

    async def __aenter__(self) -> Self:
        await self._producer.open()
        await self.consumer.open()
        self._tasks = [asyncio.create_task(self._send_on()), asyncio.create_task(self.consumer.run(self._handle))]
        await self.goes_on("the beginning")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends = True
        try:
            await self._tasks[0]
            if kind is None:
                await until(lambda: not self.lost(), f"everything that was acknowledged: {self}", PATIENCE_S)
        finally:
            self.consumer.stop()
            await self._tasks[1]
            await self.consumer.close()
            await self._producer.close()

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged, {len(self.unknown)} unknown, {len(self.lost())} lost, "
            f"{sum(self.handled.values()) - len(self.handled)} again; failures {dict(self.failures)}; "
            f"stalls {self._stalls()}; "
            f"{ {name: round(delay, 2) for name, delay in self.delays.items()} }"
        )

    def _stalls(self) -> list[str]:
        try:
            return [stall.reason for stall in self.consumer.stalls()]
        except ClientClosed:
            return []

    def lost(self) -> set[str]:
        """Acknowledged and not handled, yet."""
        return set(self.acknowledged) - set(self.handled)

    async def _send_on(self) -> None:
        number = 0
        while not self._ends:
            body, number = f"{self._topic}-{number}", number + 1
            try:
                await self._producer.send(Message.of(self._topic, body.encode()))
            except FireArrowError as error:
                self.failures[f"{type(error).__name__}, {'worth' if error.retryable else 'not worth'} a retry"] += 1
                if error.may_have_happened:
                    self.unknown.add(body)
            else:
                self.acknowledged[body] = time.monotonic()
            await asyncio.sleep(PAUSE_S)

    async def _handle(self, message: ReceivedMessage) -> None:
        self.handled[message.body.decode()] += 1
        self.handled_at.append(time.monotonic())

    async def goes_on(self, what: str) -> None:
        """Wait until sends are acknowledged and messages handled again; note how long each took."""
        begun = time.monotonic()

        def first(times: list[float]) -> float | None:
            return next((at - begun for at in times if at > begun), None)

        def both() -> tuple[float | None, float | None]:
            return first(list(self.acknowledged.values())), first(self.handled_at)

        await until(lambda: None not in both(), f"sends and deliveries after {what}: {self}", PATIENCE_S)
        sent, handled = both()
        assert sent is not None
        assert handled is not None
        self.delays[f"send after {what}"], self.delays[f"receive after {what}"] = sent, handled
        goal = len(self.acknowledged) + STEADY
        await until(lambda: len(self.acknowledged) >= goal, f"{STEADY} more sends after {what}: {self}", PATIENCE_S)

    async def stands_still(self, seconds: float = 1.0) -> None:
        """Let them fail for a while."""
        await asyncio.sleep(seconds)
