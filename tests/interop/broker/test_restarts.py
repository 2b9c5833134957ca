"""Brokers of ours die and stop under stock clients: what was acknowledged arrives, and nobody fails to send."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from firearrow.testing.apache import FireArrowBroker, FireArrowNameServer, JudgeProcess, SendReport, fresh
from firearrow.testing.apache.judge import Judge
from firearrow.testing.apache.server import wait_for

pytestmark = [pytest.mark.apache, pytest.mark.real]

KILLS = 4
AT_ONCE = 50
DRAIN_SECONDS = 35
"""Longer than the 30 s after which clients look at routes again."""


class Sending:
    """A client that sends in the background until it is told to stop."""

    def __init__(self, judge: Judge, topic: str) -> None:
        self._judge = judge
        self._topic = topic
        self._prefix = fresh("meanwhile")
        self._done = Event()
        self.sent = self._send(0)
        self.brokers = set[str]()

    def _send(self, first: int) -> SendReport:
        return self._judge.send(self._topic, AT_ONCE, prefix=self._prefix, first=first)

    def run(self) -> None:
        """Send until told to stop."""
        while not self._done.is_set():
            more = self._send(len(self.sent.indexes) + len(self.sent.failed))
            self.brokers |= {queue.partition(":")[0] for queue in more.queues}
            self.sent = self.sent.joined(more)

    def progress(self) -> None:
        """Wait until some more messages are acknowledged."""
        enough = len(self.sent.indexes) + 2 * AT_ONCE
        wait_for(lambda: len(self.sent.indexes) >= enough, f"{enough} acknowledged messages", 60)

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Send while the block runs."""
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.run)
            try:
                yield
            finally:
                self._done.set()
            sending.result()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(flush: str) -> None:
    with (
        FireArrowNameServer() as names,
        FireArrowBroker(name_servers=[names.address], settings={"flushDiskType": flush}) as broker,
        JudgeProcess("java-5.5.0") as client,
    ):
        judge = client.at(names.address)
        topic = broker.create_topic(fresh("kills"))

        sending = Sending(judge, topic)
        with sending.meanwhile():
            for _ in range(KILLS):
                sending.progress()
                broker.restart()
            sending.progress()
        sent = sending.sent
        received = judge.receive(topic, len(sent.indexes))
        arrived = {sent.by_digest[m.digest] for m in received.messages if m.digest in sent.by_digest}
        assert not set(sent.indexes) - arrived


@pytest.mark.timeout(200)
def test_a_drained_broker_stops_without_a_failed_send() -> None:
    settings = {"drainWaitSeconds": str(DRAIN_SECONDS)}
    with (
        FireArrowNameServer() as names,
        FireArrowBroker(name_servers=[names.address], name="broker-a") as first,
        FireArrowBroker(
            name_servers=[names.address], name="broker-b", settings=settings, arguments=["--drain"]
        ) as second,
        JudgeProcess("java-5.5.0") as client,
    ):
        judge = client.at(names.address)
        topic = fresh("drained")
        for broker in (first, second):
            broker.create_topic(topic)

        sending = Sending(judge, topic)
        with sending.meanwhile():
            second.stop(timeout_seconds=DRAIN_SECONDS + 15)
            second.start()
            sending.progress()
        assert sending.sent.failed == ()
        assert sending.brokers == {"broker-a", "broker-b"}
        judge.receive(topic, len(sending.sent.indexes)).assert_exactly(sending.sent)
