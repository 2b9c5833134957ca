"""Answers that wait for slaves: released in bulk, late, without slaves; and the rate of a stream."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from firearrow.broker.replication.near_slaves import NearSlaves
from firearrow.broker.replication.rate import Rate
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer
from firearrow.testing.sim.loop import SimLoop


class FakeLater:
    """Remembers what it was answered."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def answer(self, answer: Answer) -> bool:
        self.codes.append(answer.code)
        return True


class Slaves:
    """Slaves that have what they are told to, and the line that waits for them."""

    def __init__(self, *acked: int, replicas: int = 2, gap: int = 1000) -> None:
        self.acked = list(acked)
        replication = ReplicationConfig(
            broker_role="SYNC_MASTER", in_sync_replicas=replicas, ha_max_gap_not_in_sync=gap, min_in_sync_replicas=2
        )
        live = LiveSettings(BrokerSettings(replication=replication))
        self.near = NearSlaves(lambda: self.acked, lambda: 100, live)
        self.near.look()
        self.line = self.near.line

    def send(self, end: int, code: int = 0) -> FakeLater:
        later = FakeLater()
        self.line.owed(end, later).answer(Answer(code=code))
        return later

    def ack(self, *acked: int) -> None:
        self.acked = list(acked)
        self.near.look()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()


def test_an_answer_leaves_when_enough_slaves_have_the_record() -> None:
    async def scenario() -> None:
        slaves = Slaves(0, 0, replicas=3)
        first, second = slaves.send(100), slaves.send(200)
        slaves.ack(200, 99)
        assert (first.codes, second.codes) == ([], [])
        slaves.ack(200, 100)
        assert (first.codes, second.codes) == ([0], [])
        slaves.ack(200, 250)
        assert (second.codes, len(slaves.line)) == ([0], 0)

    run(scenario())


def test_a_record_that_slaves_have_already_needs_no_wait() -> None:
    async def scenario() -> None:
        assert Slaves(100).send(100).codes == [0]

    run(scenario())


def test_too_few_slaves_nearby_are_told_at_once() -> None:
    async def scenario() -> None:
        assert Slaves().send(100).codes == [ResponseCode.SLAVE_NOT_AVAILABLE]
        assert Slaves(-1).send(100).codes == [ResponseCode.SLAVE_NOT_AVAILABLE]
        assert Slaves(0, gap=100).send(100).codes == [ResponseCode.SLAVE_NOT_AVAILABLE]
        assert Slaves(0, replicas=3).send(100).codes == [ResponseCode.SLAVE_NOT_AVAILABLE]

    run(scenario())


def test_a_late_slave_is_told_after_the_timeout() -> None:
    async def scenario() -> None:
        slaves = Slaves(0)
        first = slaves.send(100)
        await asyncio.sleep(3)
        second = slaves.send(200)
        await asyncio.sleep(2.1)
        assert (first.codes, second.codes) == ([ResponseCode.FLUSH_SLAVE_TIMEOUT], [])
        slaves.ack(200)
        assert (first.codes, second.codes) == ([ResponseCode.FLUSH_SLAVE_TIMEOUT], [0])

    run(scenario())


def test_what_the_master_refused_waits_for_no_slave() -> None:
    async def scenario() -> None:
        assert Slaves(0).send(100, code=ResponseCode.FLUSH_DISK_TIMEOUT).codes == [ResponseCode.FLUSH_DISK_TIMEOUT]

    run(scenario())


def test_messages_are_refused_while_too_few_replicas_are_in_sync() -> None:
    for acked, is_refused in (((), True), ((-1,), True), ((100,), False), ((0, 50), False)):
        slaves = Slaves(*acked)
        assert (slaves.line.refusal is not None) == is_refused, acked
    far = Slaves(0, gap=100)
    assert far.line.refusal is not None
    assert "1 of the 2" in far.line.refusal.remark


def test_a_master_that_waits_for_no_slave_answers_at_once() -> None:
    async def scenario() -> None:
        assert Slaves(replicas=1).send(100).codes == [0]

    run(scenario())


def test_a_rate_is_that_of_the_last_whole_second() -> None:
    rate = Rate()
    rate.add(10, 5.1)
    rate.add(20, 5.9)
    assert rate.a_second(5.95) == 0
    assert rate.a_second(6.5) == 30
    assert rate.a_second(7.5) == 0
